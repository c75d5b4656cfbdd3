"""Reads and checks the kernels, modules and boot settings under test before a lab is used."""
