"""Leases of all places of a test, or of none."""
