"""Drawings of a lab, and of the part that a combination uses, as text and in DOT. Pure functions of model values."""
