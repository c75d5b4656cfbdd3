"""How much the figures of a lab vary by themselves: measured, told, and written beside the lab file."""
