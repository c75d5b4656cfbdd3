"""Reads the known-good kernel's file: its identity, and the parameters of the code that is built into it.

A known file is not fetched again, because a kernel has 10 to 30 MB. All that is read of it comes from one transfer.
"""

from __future__ import annotations

import shlex

from pydantic import TypeAdapter

from pytest_pinet.builds.cache import read_once
from pytest_pinet.builds.image import built_in_parameters, read_image
from pytest_pinet.builds.validate import has_parameter, no_parameter
from pytest_pinet.errors import ConfigError, LabError, SshError
from pytest_pinet.execution.shell import Shell, as_root, reason
from pytest_pinet.lab.deploy.commands import COPY_TIMEOUT_S
from pytest_pinet.lab.deploy.deploy_target import FeedingShell, Refused
from pytest_pinet.model.build import Build, KernelId

# Succeeds for a module that this kernel can load. ``name`` has [-_] for each _.
_LOADABLE = "grep -qE '(^|/){name}\\.ko' /lib/modules/{release}/modules.dep"


def read_kernel(shell: FeedingShell, folder: str, name: str) -> KernelId:
    """Return the identity of a kernel file. Raises Loader, Unreadable, Refused if it cannot be read, SshError."""
    path = f"{folder}/{name}"
    sha256 = _hash(shell, path)

    def read() -> KernelId:
        content = _content(shell, path)
        found = read_image(content)
        # A later check of options may come over a console, which is too slow for the file.
        built_in_parameters(sha256, lambda: content)
        return found

    return read_once(sha256, "kernel-1.json", TypeAdapter(KernelId), read)


def check_built_in_options(build: Build, board: Shell, shell: FeedingShell, path: str, release: str) -> None:
    """Check the options of code that is built into the known-good kernel, with which the build boots.

    ``shell`` is that of the machine with the kernel's file. Without the file's content, nothing is checked. Raises
    ConfigError, Refused, SshError.
    """
    sha256 = _hash(shell, path)
    try:
        built_in = built_in_parameters(sha256, lambda: _content(shell, path))
    except Refused:
        return
    for module, parameter, _ in build.options:
        has = built_in.lacks(module, parameter)
        if module in build.modules or not has or has_parameter((), parameter):
            continue
        if board.run(_LOADABLE.format(name=module.replace("_", "[-_]"), release=release)).returncode:
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
