"""Reads the known-good kernel's file: its identity, and the parameters of the code that is built into it.

A known file is not read again, because a kernel has 10 to 30 MB.
"""

from __future__ import annotations

import shlex

from pydantic import TypeAdapter

from pytest_pinet.builds.built_in import built_in_parameters
from pytest_pinet.builds.cache import read_once
from pytest_pinet.builds.image import read_image
from pytest_pinet.builds.validate import has_parameter, no_parameter
from pytest_pinet.errors import ConfigError, LabError, SshError
from pytest_pinet.execution.shell import Shell, as_root
from pytest_pinet.lab.deploy.commands import COPY_TIMEOUT_S
from pytest_pinet.lab.deploy.deploy_target import FeedingShell, Refused
from pytest_pinet.model.build import Build, KernelId
from pytest_pinet.tuning.files import reason

# Succeeds for a module that can be loaded. {} is its name with any mixture of - and _.
_LOADABLE = "grep -qE '/{}\\.ko' /lib/modules/$(uname -r)/modules.dep"


def read_kernel(shell: FeedingShell, folder: str, name: str) -> KernelId:
    """Return the identity of a kernel file. Raises Loader, Unreadable, Refused if it cannot be read, SshError."""
    path = f"{folder}/{name}"
    return read_once(
        _hash(shell, path), "kernel-1.json", TypeAdapter(KernelId), lambda: read_image(_content(shell, path))
    )


def check_built_in_options(build: Build, board: Shell, shell: FeedingShell, path: str) -> None:
    """Check the options of code that is built into the known-good kernel, with which the build boots.

    ``shell`` is that of the machine with the kernel's file. Raises ConfigError, Refused, SshError.
    """
    built_in = built_in_parameters(_hash(shell, path), lambda: _content(shell, path))
    for module, parameter, _ in build.options:
        has = built_in.lacks(module, parameter)
        if module in build.modules or not has or has_parameter((), parameter):
            continue
        if board.run(_LOADABLE.format(module.replace("_", "[-_]"))).returncode:
            raise ConfigError(f"{build}: options: {no_parameter(module, parameter, has)}")


def _hash(shell: FeedingShell, path: str) -> str:
    done = shell.run(as_root(f"sha256sum < {shlex.quote(path)}"), timeout_s=COPY_TIMEOUT_S)
    digest = done.stdout.partition(" ")[0]
    if done.returncode or len(digest) != 64:
        raise Refused(f"{shell.name} refuses to read {path}: {reason(done.stderr)}")
    return digest


def _content(shell: FeedingShell, path: str) -> bytes:
    try:
        return shell.fetch(as_root(f"cat {shlex.quote(path)}"), COPY_TIMEOUT_S)
    except SshError:
        raise
    except LabError as error:
        raise Refused(
            f"this machine has not yet read {path}, the known-good kernel of {shell.name}: {error.message}"
            "; read it once over ssh, from this board or from another with the same file (pinet doctor --tryboot)"
        ) from error
