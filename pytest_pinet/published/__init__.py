"""Compares published values with a run: which result belongs to which published value, and the table."""
