"""Programs that belong to no run and no lab."""

from __future__ import annotations

import os
import subprocess


def orphan(environment: dict[str, str], *argv: str) -> None:
    """Start a program that belongs to no process here: its parent ends. It sees only this environment."""
    command = ["sh", "-c", 'exec setsid "$0" "$@" >/dev/null 2>&1 &', *argv]
    subprocess.run(command, check=True, env={"PATH": os.environ["PATH"], **environment})
