"""What stands beside a figure: a file per source."""
