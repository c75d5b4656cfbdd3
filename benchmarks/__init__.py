"""Measures the plugin's time besides traffic. ``make bench`` runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit() -> str:
    """Return the commit of this tree, and whether files differ from it; empty if it is not in a repository."""
    describe = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty= and changes"]
    return subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
