"""What works on this repository, and is not part of the package."""
