"""The help of a command imports nothing that takes long."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from pytest_pinet.cli import COMMANDS, run
for command in COMMANDS:
    assert run([command, "--help"]) == 0
    for name in %r:
        assert name not in sys.modules, f"pinet {command} --help imports {name}"
"""
# Each of them takes longer than click and all of our own small modules.
SLOW = ["asyncio", "labgrid", "pydantic", "pytest", "socket", "sqlalchemy", "yaml"]


def test_no_help_imports_a_slow_module() -> None:
    done = subprocess.run([sys.executable, "-c", CODE % SLOW], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage: pinet gate" in done.stdout
