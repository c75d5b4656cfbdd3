"""What deployment needs from a board, and how it changes files there: as root, verified, with space for several builds.

Our commands run one at a time, and to their end even if the connection of the caller is lost.
"""

from __future__ import annotations

import hashlib
import io
import shlex
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_pinet.builds.tree import BuildSnapshot
from pytest_pinet.errors import LabError, first_line
from pytest_pinet.evidence.counting import is_count
from pytest_pinet.execution.shell import as_root, own_lines, reason
from pytest_pinet.lab.console.record import ConsoleRecord
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.build import Build

# Where a kernel can be booted instead; part of the messages of refusals.
ELSEWHERE = "a kernel needs a Raspberry Pi, or an emulated board (--lab emulated)"


class Refused(Exception):
    """This board cannot take this build in this way; the text is one sentence.

    ``Deployment.check`` turns it into UnsupportedError.
    """


class DeployableBoard(Protocol):
    """A leased board that answers over ssh."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str:
        """The name of its model in the catalogue or the lab file."""

    @property
    def boots(self) -> bool:
        """Whether the deployment can boot this board."""

    @property
    def has_power(self) -> bool:
        """Whether its power can be switched."""

    @property
    def boot_timeout_s(self) -> float:
        """How long a boot may take."""

    @property
    def record(self) -> ConsoleRecord | None:
        """The record of what its console printed, or None if nothing records it."""

    @property
    def shell(self) -> SshShell:
        """The board's shell; only while we are logged in."""

    def lock_for_trial(self) -> None:
        """Take the lock that the guard of a trial reads, on a board without power. Raises LeaseError, SshError."""

    def reboot(self, command: str) -> None:
        """Reboot with this command, without a power cycle, and log in. Raises ConsoleError, SshError, PowerError."""

    def power_cycle(self) -> None:
        """Switch its power off and on, and log in. Raises LabError."""

    def reset(self) -> None:
        """Shut it down and cut its power; ``power_cycle`` switches it on again. Raises PowerError, ShutdownError."""

    def warn(self, warning: str) -> None:
        """Show this sentence to the user at the end of the run."""

    def driver(self, name: str) -> Any:
        """Return the active labgrid driver of this class, or None if the lab has no such driver for this board."""


class DeployTarget(Protocol):
    """A way to deploy builds. Each way has one file.

    The other methods may be called only after ``check`` accepted the build.
    """

    @property
    def name(self) -> str:
        """The name of this way in messages."""

    @property
    def boots(self) -> bool:
        """Whether ``start`` boots the board."""

    def check(self, build: Build) -> None:
        """Check whether the board can take this build, without changing anything.

        Raises Refused, ConfigError if the build contradicts the board, BuildError if it is for another processor,
        SshError.
        """

    def deploy(self, build: Build) -> None:
        """Put the files that ``start`` needs onto the board, beside the existing files.

        Raises ChangedBuildError if a file of the build has changed since it was read, LabError, SshError.
        """

    def start(self, build: Build) -> None:
        """Make the board run this build. Raises BuildError, LabError."""


# Held until the last process of a command has ended. A recovery after a crash waits for such processes.
LOCK = "/run/pytest-pinet.lock"
LOCK_TIMEOUT_S = 300
_BUSY = f"{{ echo 'another command of pinet still runs after {LOCK_TIMEOUT_S} s' >&2; exit 1; }}"
# The slowest commands make an initramfs or write a card.
COPY_TIMEOUT_S = 300.0
# The speed of a slow card over a busy link; an emulated board is not faster.
LEAST_BYTES_PER_S = 500_000
BASE_S = 60.0
SUMS = ".pytest-pinet.sha256"
Content = BuildSnapshot | bytes


def locked(command: str, fence: str) -> str:
    """Return the command line that becomes root and runs the command while holding our lock.

    The ``fence`` of its shell stands again after the wait, in which the board may have got another holder.
    """
    # flock of busybox has no time limit (-w).
    wait = f"n=0; until flock -n 9; do n=$((n + 1)); [ $n -lt {LOCK_TIMEOUT_S} ] || {_BUSY}; sleep 1; done"
    return as_root(f"exec 9>>{LOCK} && if command -v flock >/dev/null; then {wait}; fi && {{ {fence}{command}; }}")


def run_as_root(shell: SshShell, command: str, what: str, timeout_s: float = COPY_TIMEOUT_S) -> None:
    """Run the command as root under the lock. Raises LabError if the command fails, and SshError."""
    done = shell.run(locked(command, shell.fence), timeout_s=timeout_s)
    if done.returncode:
        why = reason(done.stderr, done.stdout)
        raise LabError(f"{shell.name} failed to {what}: {why}", f"look at the card of {shell.name}")


def free_bytes(line: str) -> int | None:
    """Return the available bytes from the last line of ``df -kP``, or None if the line has none."""
    words = line.split()
    # Filesystem 1024-blocks Used Available Capacity Mounted on
    return int(words[3]) * 1024 if len(words) >= 6 and is_count(words[3]) else None


class DiskSpace:
    """Reserves space for each accepted build. ``deployed`` holds the keys of the builds that are deployed."""

    def __init__(self) -> None:
        self.deployed: set[str] = set()
        self._reserved: dict[str, int] = {}

    def check(
        self,
        build: Build,
        needed: int,
        left: int | None,
        what: str,
        where: str,
        act: str,
        alone: bool = False,
        temporary: int = 0,
    ) -> None:
        """Accept ``build`` and reserve ``needed`` of the bytes that are left (None: unknown). Raises Refused.

        For the message: ``what`` takes the space, such as "build new takes"; ``where`` is the place; ``act`` frees
        space. ``alone``: the build is removed before any other is deployed. ``temporary`` bytes are needed only during
        its deployment.
        """
        reserved = {} if alone else self._reserved
        others = sum(size for key, size in reserved.items() if key not in {*self.deployed, build.key})
        whole = needed + temporary
        if left is not None and whole + others > left and build.key not in self.deployed:
            beside = f", beside {others / 1e6:.0f} MB of another build" if others else ""
            raise Refused(f"{what} {whole / 1e6:.0f} MB{beside}, but {where} has only {left / 1e6:.0f} MB left: {act}")
        self._reserved[build.key] = needed

    def clear(self) -> None:
        """Forget all builds after their files were removed."""
        self.deployed.clear()
        self._reserved.clear()

    def release(self, build: Build) -> None:
        """Forget a build whose files were removed."""
        self.deployed.discard(build.key)
        self._reserved.pop(build.key, None)


def upload(shell: SshShell, folder: str, files: Mapping[str, Content]) -> None:
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
        done = shell.feed(locked(command, shell.fence), stream, timeout_s)
    if done.returncode:
        why = reason(done.stderr) if own_lines(done.stderr) else "a file differs from the file that was sent"
        raise LabError(
            f"the upload of {size / 1e6:.0f} MB to {folder} on {shell.name} failed: {why}",
            f"look at the card of {shell.name}: it may be full, worn, or mounted read-only",
        )


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    archive.addfile(entry, io.BytesIO(data))


# The places of a board's boot files: its own partition over ssh, its card in a USB-SD-Mux, or a TFTP server.


MUX, STORAGE = "USBSDMuxDriver", "USBStorageDriver"
BOOT_PARTITION = 1
MOUNT_RETRIES = 5
DRIVER = "TFTPProviderDriver"
# The places of Raspberry Pi OS (before Bookworm the second, which later holds only a note that the file has moved),
# Fedora and openSUSE, Home Assistant OS, Alpine Linux and LibreELEC.
PLACES = ("/boot/firmware", "/boot", "/boot/efi", "/mnt/boot", "/media/mmcblk0p1", "/flash")


@dataclass(frozen=True)
class PartitionAccess:
    """A shell, and the ``folders`` from which the firmware may boot."""

    shell: SshShell
    folders: tuple[str, ...] = PLACES


class BootFileStore(Protocol):
    """The place of a board's boot files."""

    @property
    def name(self) -> str: ...

    @property
    def on_board(self) -> bool:
        """Whether the running board itself can write there."""

    def access(self) -> PartitionAccess:
        """Return access for reading. Raises Refused, LabError."""

    def writing(self) -> AbstractContextManager[PartitionAccess]:
        """Give access for writing. The board may be off meanwhile, and runs its known-good build afterwards."""


class OverSsh:
    """The boot partition that the running board has mounted. Other places differ in how they are read or written."""

    name = "boot partition over ssh"
    on_board = True

    def __init__(self, board: DeployableBoard) -> None:
        self._board = board

    def access(self) -> PartitionAccess:
        return PartitionAccess(self._board.shell)

    @contextmanager
    def writing(self) -> Iterator[PartitionAccess]:
        yield self.access()


class SdMux(OverSsh):
    """The first partition of the card. For writing, labgrid's agent (udisks2) mounts it on the mux's host."""

    name = "SD mux"

    @staticmethod
    def serves(board: DeployableBoard) -> bool:
        """Return whether the lab has a mux, with storage, for this board."""
        return board.driver(MUX) is not None and board.driver(STORAGE) is not None

    @contextmanager
    def writing(self) -> Iterator[PartitionAccess]:
        self._board.reset()
        mux = self._board.driver(MUX)
        try:
            with self._mounted(mux, self._board.driver(STORAGE)) as access:
                yield access
        finally:
            try:
                mux.set_mode("dut")
            finally:
                self._board.power_cycle()

    @contextmanager
    def _mounted(self, mux: Any, storage: Any) -> Iterator[PartitionAccess]:
        from pytest_pinet.lab.labgrid_private import mount_partition

        name = f"the SD mux of {self._board.name}"
        try:
            mux.set_mode("host")
            device, path = mount_partition(storage, BOOT_PARTITION, MOUNT_RETRIES)
        except Exception as error:
            raise LabError(
                f"the card in {name} cannot be mounted: {first_line(error)}", f"look at {name} and its card"
            ) from error
        lazy = True
        try:
            yield PartitionAccess(SshShell(name, storage.storage.command_prefix or ["/bin/sh", "-c"]), (path,))
            lazy = False
        finally:
            storage.proxy.unmount(device, lazy=lazy)


class Tftp(OverSsh):
    """The provider's folder ``internal``; for a Raspberry Pi, its name is the serial number or the prefix of the board.

    The root file system, over NFS or on a disk, is written over ssh as for other boards. The firmware fetches
    ``tryboot.txt`` instead of ``config.txt`` from TFTP, too.
    """

    name = "TFTP server"
    on_board = False

    @staticmethod
    def serves(board: DeployableBoard) -> bool:
        """Return whether the lab has a TFTP server for this board."""
        return board.driver(DRIVER) is not None

    def access(self) -> PartitionAccess:
        provider = self._board.driver(DRIVER).provider
        # The server is on this machine, or reached through labgrid's ssh connection to the exporter's host.
        prefix = provider.command_prefix or ["/bin/sh", "-c"]
        return PartitionAccess(
            SshShell(f"the TFTP server of {self._board.name}", prefix), (provider.internal.rstrip("/"),)
        )


def store_of(board: DeployableBoard) -> BootFileStore:
    """Return where this board has its boot files: in the SD mux or on the TFTP server of the lab, else on the board."""
    for kind in (SdMux, Tftp):
        if kind.serves(board):
            return kind(board)
    return OverSsh(board)
