"""Looks at a lab from the lab file to the idle noise, and tells what is wrong and who mends it."""
