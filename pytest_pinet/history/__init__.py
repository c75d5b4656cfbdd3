"""Earlier measurements: the store of all runs, trends, and changes of a metric's level."""
