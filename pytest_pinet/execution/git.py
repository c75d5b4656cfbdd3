"""Runs git in a repository of the user, which it only reads."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pytest_pinet.errors import ConfigError

TIMEOUT_S = 600.0


def git(
    folder: Path, *words: str, timeout_s: float = TIMEOUT_S, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run git in a folder. Raises ConfigError if git is not installed, or does not end in time."""
    # In a hook, variables of git name the index of the user. Without locks, git writes nothing on the side.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    clean |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C.UTF-8", **environment}
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=timeout_s, check=False, env=clean,
        )  # fmt: skip
    except FileNotFoundError:
        raise ConfigError(f"git is not installed; it is needed to read {folder}") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"git {words[0]} in {folder} does not end within {timeout_s:g} s") from None
