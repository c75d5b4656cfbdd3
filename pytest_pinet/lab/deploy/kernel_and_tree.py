"""Reads the known-good kernel's file and the device tree of a board, and compares the tree of a build with it.

A known kernel file is not fetched again, because a kernel has 10 to 30 MB. All that is read of it comes from one
transfer.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from pydantic import TypeAdapter

from pytest_pinet.builds.cache import read_once
from pytest_pinet.builds.kernel_files import built_in_parameters, read_image
from pytest_pinet.builds.matching import FirmwareEdits, TreeProof, compare_device_trees
from pytest_pinet.builds.tree import BuildSnapshot
from pytest_pinet.builds.validate import has_parameter, no_parameter
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.shell import Shell, as_root, reason
from pytest_pinet.lab.deploy.board import BASE_S, COPY_TIMEOUT_S, Refused
from pytest_pinet.lab.deploy.known_good import KnownGood
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, KernelId

# Succeeds for a module that this kernel can load. ``name`` has [-_] for each _.
_LOADABLE = "grep -qE '(^|/){name}\\.ko' /lib/modules/{release}/modules.dep"


def read_kernel(shell: SshShell, folder: str, name: str) -> KernelId:
    """Return the identity of a kernel file. Raises Loader, Unreadable, Refused if root cannot read it, LabError."""
    path = f"{folder}/{name}"
    sha256 = _hash(shell, path)

    def read() -> KernelId:
        content = _content(shell, path)
        found = read_image(content)
        # A later check of options needs no second transfer.
        built_in_parameters(sha256, lambda: content)
        return found

    return read_once(sha256, "kernel-1.json", TypeAdapter(KernelId), read)


def check_built_in_options(build: Build, board: Shell, shell: SshShell, path: str, release: str) -> None:
    """Check the options of code that is built into the known-good kernel, with which the build boots.

    ``shell`` is that of the machine with the kernel's file. Raises ConfigError, Refused, LabError.
    """
    built_in = built_in_parameters(_hash(shell, path), lambda: _content(shell, path))
    for module, parameter, _ in build.options:
        has = built_in.lacks(module, parameter)
        if module in build.modules or not has or has_parameter((), parameter):
            continue
        if board.run(_LOADABLE.format(name=module.replace("_", "[-_]"), release=release)).returncode:
            raise ConfigError(f"{build}: options: {no_parameter(module, parameter, has)}")


def _hash(shell: SshShell, path: str) -> str:
    done = shell.run(as_root(f"sha256sum < {shlex.quote(path)}"), timeout_s=COPY_TIMEOUT_S)
    digest = done.stdout.partition(" ")[0]
    if done.returncode or len(digest) != 64:
        raise Refused(f"{shell.name} refuses to read {path}: {reason(done.stderr)}")
    return digest


def _content(shell: SshShell, path: str) -> bytes:
    return shell.fetch(as_root(f"cat {shlex.quote(path)}"), COPY_TIMEOUT_S)


# Only root can read it.
_RUNNING = "cat /sys/firmware/fdt 2>/dev/null || true"


class DeviceTreeProof:
    """What the firmware of a board changes in a device tree, and whether it has used the tree of a build."""

    def __init__(self) -> None:
        self._edits = FirmwareEdits(unknown="the known-good build was not read")

    def learn(self, board: SshShell, card: SshShell, folder: str, known: KnownGood) -> None:
        """Compare the known-good tree of the card with the running one. The known-good build must run.

        Raises LabError, SshError.
        """
        name = known.names.device_tree
        path = shlex.quote(f"{folder}/{name}")
        file = None if name is None else card.fetch(as_root(f"cat {path} 2>/dev/null || true"), BASE_S)
        self._edits = FirmwareEdits.learn(file, board.fetch(as_root(_RUNNING), BASE_S))

    def compare(self, build: Build, known: KnownGood, board: SshShell, more: Sequence[str] = ()) -> TreeProof:
        """Compare the tree of the build that runs. ``more`` are lines of config.txt of a boot tuning.

        Raises ChangedBuildError, LabError, SshError.
        """
        file = device_tree_of(build, known)
        if file is None:
            return TreeProof()
        for lines, cause in ((build.config, "the build"), (more, "the boot tuning")):
            if changes := [line for line in lines if line.startswith(("dt", "device_tree"))]:
                return TreeProof(not_compared=(f"device tree {file.name}: {cause} changes it by '{changes[0]}'",))
        running = board.fetch(as_root(_RUNNING), BASE_S)
        return compare_device_trees(file.name, BuildSnapshot.of(file).read(), running, self._edits)


def device_tree_of(build: Build, known: KnownGood) -> BuildFile | None:
    """Return the device tree of the build that this board loads, or None."""
    name = PurePosixPath(known.names.device_tree or "").name
    return next((file for file in build.of(BuildFileRole.DEVICE_TREE) if file.name == name), None)


def tree_place(file: BuildFile, known: KnownGood) -> str:
    """Return the name of a build's file below its folder. config.txt may name a device tree in a subfolder.

    The firmware ignores the whole folder of a build if it has no device tree of this name.
    """
    place = (known.names.device_tree or "").removeprefix(known.names.prefix)
    return place if file.role is BuildFileRole.DEVICE_TREE and file.name == PurePosixPath(place).name else file.name


def about_trees(build: Build, known: KnownGood, name: str) -> str:
    """Return a warning if the build has a kernel or device trees, and no tree for this board; empty if it is fine."""
    trees, tree = build.of(BuildFileRole.DEVICE_TREE), known.names.device_tree
    shared = f"so {name} boots it with the known-good ones"
    if build.of(BuildFileRole.KERNEL) and known.device_trees and not trees:
        return f"{build} has a kernel and no device trees, {shared}: add device_trees if the kernel needs its own"
    if trees and tree is not None and device_tree_of(build, known) is None:
        return f"{build} has device trees, but not {tree.rpartition('/')[2]} of {name}, {shared}"
    return ""
