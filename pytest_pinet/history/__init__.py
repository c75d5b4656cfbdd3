"""What was measured before: the store of all runs, trends, and where a figure's level moved."""
