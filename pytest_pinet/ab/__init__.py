"""A build under test: which one, booted when, measured how often, and what came of it."""
