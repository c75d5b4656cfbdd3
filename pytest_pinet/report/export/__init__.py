"""Formats of other programs, one file each."""
