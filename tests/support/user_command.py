"""Commands as a user runs them: in a folder and an environment of their own, without a terminal."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run_command(
    argv: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. pytest shows its output if the test fails."""
    done = subprocess.run(
        argv,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    print(done.stdout, done.stderr)  # noqa: T201
    return done
