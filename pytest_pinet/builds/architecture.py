"""Checks that a build is for the processor of a board."""

from __future__ import annotations

from pytest_pinet.errors import BuildError
from pytest_pinet.model.build import Build

# From a machine's own name (uname -m) to the architecture's name in the kernel source.
_MACHINES = {"aarch64": "arm64", "armv8l": "arm", "armv7l": "arm", "armv6l": "arm"}
KIND = "wrong architecture"


def require_any_pi(build: Build) -> None:
    """Check a build before any board is used. Raises BuildError if no Raspberry Pi can run it."""
    if build.arch is not None and build.arch not in _MACHINES.values():
        raise BuildError(f"{build} is for {build.arch}, and a Raspberry Pi has arm64 (or arm): is ARCH= set?", KIND)


def require_machine(build: Build, name: str, machine: str) -> None:
    """Check a build for board ``name``, whose ``uname -m`` is ``machine``.

    Raises BuildError for another architecture.
    """
    require_any_pi(build)
    if build.arch is not None and _MACHINES.get(machine, build.arch) != build.arch:
        raise BuildError(f"{build} is for {build.arch}, and {name} runs {_MACHINES[machine]} ({machine})", KIND)
