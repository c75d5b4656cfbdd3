"""Drawings of a lab and of what a combination uses of it, as text and as SVG: pure functions of model values."""
