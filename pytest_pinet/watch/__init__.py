"""Watches boards for rare events: how many in how many hours, and whether a build under test has more."""
