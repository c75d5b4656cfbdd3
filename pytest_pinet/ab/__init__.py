"""Gates a build under test: boots it alternately with a known-good build, measures both, and compares the values."""
