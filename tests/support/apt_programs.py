"""Programs that replace the programs of apt, and what `apt-get indextargets` prints."""

from __future__ import annotations

from pathlib import Path

LISTS = """\
Debian|http://mirror/debian/|bookworm|main
Debian|http://mirror/debian/|bookworm|main
Debian|http://mirror/debian/|bookworm|non-free
Vendor|http://other/|bookworm|main
Debian|http://mirror/security/|bookworm-security|main
"""


def tool(folder: Path, name: str, script: str) -> None:
    """Write a shell script as an executable program."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
