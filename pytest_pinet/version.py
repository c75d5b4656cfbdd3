"""The version of the package. setup.cfg reads the version from this file."""

__version__ = "0.1.0"
