"""Checks a lab from the lab file to the idle noise, and reports what is wrong and who must fix it."""
