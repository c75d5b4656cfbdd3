"""Published figures beside those of a run: which result stands for which figure, and the table of all."""
