"""Looks at boards over ssh, and writes a lab file for them: ``pinet init``."""
