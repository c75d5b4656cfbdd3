"""Switches and their ports, with one file for each backend."""
