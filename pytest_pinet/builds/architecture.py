"""Whether a build is for the processor that a board has: what is not is broken, whatever else it may be."""

from __future__ import annotations

from pytest_pinet.errors import BuildError
from pytest_pinet.model.build import Build

# What machines call themselves (uname -m), and what the kernel's source calls that.
_MACHINES = {"aarch64": "arm64", "armv8l": "arm", "armv7l": "arm", "armv6l": "arm"}
KIND = "wrong architecture"


def require_any_pi(build: Build) -> None:
    """Before any board is asked. Raises BuildError for what no Raspberry Pi can run."""
    if build.arch is not None and build.arch not in _MACHINES.values():
        raise BuildError(f"{build} is for {build.arch}, and a Raspberry Pi has arm64 (or arm): is ARCH= set?", KIND)


def require_machine(build: Build, name: str, machine: str) -> None:
    """``machine`` is what ``uname -m`` says on board ``name``. Raises BuildError where the build is for another one."""
    require_any_pi(build)
    if build.arch is not None and _MACHINES.get(machine, build.arch) != build.arch:
        raise BuildError(f"{build} is for {build.arch}, and {name} runs {_MACHINES[machine]} ({machine})", KIND)
