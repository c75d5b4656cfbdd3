"""Upload files to a board in one stream, and verify them there."""

from __future__ import annotations

import hashlib
import io
import shlex
import tarfile
import tempfile
from collections.abc import Mapping

from pytest_pinet.builds.snapshot import BuildSnapshot
from pytest_pinet.errors import LabError
from pytest_pinet.lab.deploy.commands import locked
from pytest_pinet.lab.deploy.deploy_target import FeedingShell
from pytest_pinet.tuning.files import reason

# The speed of a slow card over a busy link; an emulated board is not faster.
LEAST_BYTES_PER_S = 500_000
BASE_S = 60.0
SUMS = ".pytest-pinet.sha256"

Content = BuildSnapshot | bytes


def upload(shell: FeedingShell, folder: str, files: Mapping[str, Content]) -> None:
    """Put these files, by their path in it, into ``folder``, which is created. Each file is read back and verified.

    Raises ChangedBuildError if a file has changed since the build was read, LabError, SshError.
    """
    sums: list[str] = []
    size = 0
    with tempfile.TemporaryFile() as stream:
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, content in files.items():
                data = content if isinstance(content, bytes) else content.read()
                sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
                size += len(data)
                _add(archive, name, data)
            _add(archive, SUMS, "".join(sums).encode())
        stream.seek(0)
        timeout_s = BASE_S + size / LEAST_BYTES_PER_S
        there = shlex.quote(folder)
        # As root, tar would keep the owners of the files on this machine; a FAT file system cannot store owners.
        command = (
            f"mkdir -p {there} && tar -xof - -C {there} && cd {there} && sync && sha256sum -c {SUMS} >/dev/null"
            f" && rm -f {SUMS}"
        )
        done = shell.feed(locked(command), stream, timeout_s)
    if done.returncode:
        why = reason(done.stderr) if done.stderr.strip() else "a file is not what was sent"
        raise LabError(
            f"{shell.name} cannot take {size / 1e6:.0f} MB into {folder}: {why}",
            f"look at the card of {shell.name}: is it full, worn, or mounted read-only?",
        )


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    archive.addfile(entry, io.BytesIO(data))
