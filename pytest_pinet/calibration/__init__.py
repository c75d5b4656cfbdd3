"""Measures how much the values of a lab vary without a change, reports it, and writes it beside the lab file."""
