"""Runs a command of this machine that prints an answer and ends, such as ``qemu-system-aarch64 --version``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import last_line, quoted


def output(
    argv: Sequence[str],
    timeout_s: float,
    environment: Mapping[str, str] = MappingProxyType({}),
    act: str = "",
    directory: Path | None = None,
) -> str:
    """Return what a command prints. Raises LabError if it cannot be started, fails or takes longer.

    ``act`` says what to do if it ends with an error. ``directory`` is its working directory.
    """
    name = quoted(" ".join(argv))
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=directory,
            env={**os.environ, **environment, "LC_ALL": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{name} did not end within {timeout_s:g} s") from None
    except OSError as error:
        raise LabError(f"{argv[0]} cannot be started: {error.strerror}") from None
    if done.returncode:
        reason = last_line(done.stderr) or "no message"
        raise LabError(f"{name} failed with exit code {done.returncode}: {reason}", act)
    return done.stdout
