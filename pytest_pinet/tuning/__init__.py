"""Reversible settings of nodes and their NICs. Each setting is applied, read back and restored."""
