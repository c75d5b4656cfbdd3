"""Builds under test on boards: deploy them beside the known-good build, boot them, identify them, remove them."""
