"""The lab file of two boards on a switch that is wired by hand."""

from __future__ import annotations


def two_boards(*settings: str) -> str:
    """Return the text. ``settings`` are lines such as ``name: bench``."""
    nodes = "".join(f"    {n}: {{board: pi4b, interfaces: {{onboard: {{port: sw/{p}}}}}}}\n" for n, p in ("a1", "b2"))
    head = "".join(f"  {line}\n" for line in settings)
    return f"pinet:\n{head}  switches:\n    sw: {{backend: fixed, ports: [1, 2]}}\n  nodes:\n{nodes}"
