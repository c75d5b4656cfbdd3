"""Formats of other programs, one file each. Two older ones, openmetrics and benchmark-action, are a folder above."""
