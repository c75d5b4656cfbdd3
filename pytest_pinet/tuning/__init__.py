"""Reversible settings of nodes and their NICs, one file each. Each setting is applied, read back and restored."""
