"""What all tests of this repository share."""

pytest_plugins = ["pytester"]
