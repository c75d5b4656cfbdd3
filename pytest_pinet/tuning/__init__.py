"""Reversible settings of nodes and their NICs: each is applied, read back and restored; one file each."""
