"""Carries commands and files from one board to another over the connections of the machine that runs pytest."""
