"""Shared test code: stand-ins, and folders in which real pytest processes run."""
