"""Debian packages of the virtual lab: which are missing, their installation, and its undoing.

The list of packages and their installation are the shell script ``system-packages``, which a checkout also uses.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.requirements import as_root

SCRIPT = Path(__file__).with_name("system-packages")
TIMEOUT_S = 900.0
# The lines of `apt-get --simulate` for a package that it would install or remove.
_STEP = re.compile(r"^(Inst|Remv|Purg) (\S+)", re.MULTILINE)


def missing_packages() -> list[str]:
    """Return the packages whose commands the virtual lab lacks on this machine."""
    return sorted(set(_run(["sh", str(SCRIPT)], FOR="list").split()))


def plan_installation(packages: Sequence[str]) -> list[str]:
    """Return all packages that apt would install, with dependencies. Raises LabError without apt or root."""
    if shutil.which("apt-get") is None:
        raise LabError(
            f"the virtual lab needs system packages, and this machine has no apt-get: {' '.join(packages)}",
            "install them; the names are Debian's",
        )
    root = as_root()
    _run([*root, "apt-get", "update", "-qq"])
    plan = _run([*root, "apt-get", "install", "--simulate", "--no-install-recommends", *packages])
    return sorted({name for step, name in _STEP.findall(plan) if step == "Inst"} - installed_packages())


def install_packages() -> None:
    """Install what is missing. No service is started or enabled. Raises LabError."""
    _run(["sh", str(SCRIPT)], FOR="demo", PYTHON=sys.executable)


def remove_packages(packages: Collection[str]) -> list[str]:
    """Remove installed packages and return them. Raises LabError if other packages need one of them."""
    there = sorted(installed_packages() & set(packages))
    if not there:
        return []
    root = as_root()
    remove = ["apt-get", "purge", "--yes", "-qq", *there]
    plan = _run([*root, *remove, "--simulate"])
    others = sorted({name for step, name in _STEP.findall(plan) if step != "Inst"} - set(there))
    if others:
        raise LabError(
            f"the system packages of the demo stay, because other packages need them now: {' '.join(others)}",
            f"when you need neither: apt-get purge {' '.join(there)}",
        )
    _run([*root, *remove])
    return there


def installed_packages() -> set[str]:
    """Return the names of all installed Debian packages."""
    lines = _run(["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev} ${Package}\n"]).splitlines()
    return {line.split()[1] for line in lines if line.startswith("ii")}


def _run(argv: Sequence[str], **environment: str) -> str:
    """Run a command and return its output. Raises LabError with the end of what it printed."""
    own = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", **environment}
    try:
        done = subprocess.run(
            argv, env=own, capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"`{' '.join(argv)}` failed: {error}") from None
    if done.returncode != 0:
        output = f"{done.stdout}{done.stderr}".strip().splitlines()
        raise LabError(f"`{' '.join(argv)}` failed: {' '.join(output[-3:])}")
    return done.stdout
