"""Boot a build from its own folder beside the known-good build, once, with the firmware's ``tryboot``.

config.txt and all files that it names stay unchanged. Therefore every other boot (a power cycle, a plain reboot, a
panic) starts the known-good build. The undo script is written to the journal beside the build before anything else.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath

from pytest_pinet.builds.image import bootable
from pytest_pinet.builds.matching import require_machine
from pytest_pinet.builds.snapshot import BuildSnapshot
from pytest_pinet.errors import LabError
from pytest_pinet.lab.deploy.boot_file_store import BootFileStore
from pytest_pinet.lab.deploy.card import (
    HEADER,
    INITRAMFS,
    KERNEL,
    OURS,
    TRYBOOT,
    Card,
    cmdline_text,
    firmware_folder,
    folder_of,
    read_card,
    tryboot_text,
)
from pytest_pinet.lab.deploy.commands import COPY_TIMEOUT_S, Content, DiskSpace, locked, run_as_root, upload
from pytest_pinet.lab.deploy.deploy_target import ELSEWHERE, DeployableBoard, FeedingShell, Refused
from pytest_pinet.lab.deploy.root_files import RootFiles, parked
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole
from pytest_pinet.tuning.boot_files import CMDLINE, KEPT, WRITE_TIMEOUT_S
from pytest_pinet.tuning.journal import JournalEntry, replay

# The new initramfs may be larger by this factor, because the build has more modules than the known-good one.
INITRAMFS_GROWTH = 1.5
SLACK_BYTES = 2_000_000
# The pause lets the answer to this command leave first. systemd's reboot passes the argument on to the firmware. If the
# folder is gone, another process has recovered the board meanwhile, and no boot is needed.
TRY = "sleep 1; sync; [ ! -d {folder} ] || reboot '0 tryboot'"
PLAIN = "sleep 1; sync; reboot"


class Booted:
    """The way of deployment for every build that needs a boot; ``store`` holds the boot files of this board."""

    boots = True

    def __init__(self, board: DeployableBoard, store: BootFileStore) -> None:
        self._board = board
        self._store = store
        self.name = store.name
        self._root = RootFiles(board)
        self._card: Card | None = None
        self._space = DiskSpace()
        self._begun = False

    # -- checks ---------------------------------------------------------------------------------------------------

    def check(self, build: Build) -> None:
        name = self._board.name
        access = self._store.access()
        try:
            card = read_card(access.shell, access.folders)
        except Refused as why:
            raise Refused(f"{why}; {ELSEWHERE}") from None
        if not card.kernels:
            raise Refused(
                f"{name} cannot boot {build}, because {card.folder} contains no kernel (kernel*.img); {ELSEWHERE}"
            )
        if not card.writable:
            raise Refused(f"{card.folder} of {name} is mounted read-only, so pinet cannot write boot files there")
        self._check_processor(build)
        if self._makes_initramfs(build, card) and not self._store.on_board:
            raise Refused(
                f"{name} boots with an initramfs, which pinet cannot make on a {self._store.name}: add one to {build}"
            )
        self._check_space(build, card)
        self._root.check(build, mkinitramfs=self._makes_initramfs(build, card))
        self._card = card

    def _check_space(self, build: Build, card: Card) -> None:
        where = f"{card.folder} of {self._board.name}"
        act = "delete files that are not needed there"
        self._space.check(build, self._needed_bytes(build, card), card.free, f"{build} takes", where, act)

    def _check_processor(self, build: Build) -> None:
        require_machine(build, self._board.name, self._board.shell.run("uname -m").stdout.strip())

    def _needed_bytes(self, build: Build, card: Card) -> int:
        """Return the bytes that the build needs on the boot partition."""
        own = [
            f
            for f in build.files
            if f.role
            in (BuildFileRole.KERNEL, BuildFileRole.INITRAMFS, BuildFileRole.DEVICE_TREE, BuildFileRole.OVERLAY)
        ]
        total = sum(len(_kernel(f)) if f.role is BuildFileRole.KERNEL else f.size for f in own)
        total += sum(card.files[name] for name in self._shared_files(build, card))
        if self._makes_initramfs(build, card):
            total += int(card.files[card.initramfs or ""] * INITRAMFS_GROWTH)
        return total + SLACK_BYTES

    def _shared_files(self, build: Build, card: Card) -> dict[str, str]:
        """Return the known-good files that this build shares: their known-good names, and their names in this build."""
        brought = {file.name for file in build.files}
        shared = {name: name for name in card.device_trees if name not in brought}
        if not build.of(BuildFileRole.KERNEL):
            shared[self._started_kernel(card)] = KERNEL
        if card.initramfs and not build.of(BuildFileRole.INITRAMFS) and not self._makes_initramfs(build, card):
            shared[card.initramfs] = INITRAMFS
        return shared

    def _started_kernel(self, card: Card) -> str:
        """Return the kernel that the known-good build starts, as far as the file names show it."""
        model = self._board.shell.run("tr -d '\\0' < /proc/device-tree/model 2>/dev/null").stdout
        newest = any(word in model for word in ("Pi 5", "Pi 500", "Compute Module 5"))
        return next((name for name in card.kernels if newest or name != "kernel_2712.img"), card.kernels[0])

    def _makes_initramfs(self, build: Build, card: Card) -> bool:
        """Return whether the board must make an initramfs for this build.

        If the known-good kernel uses an initramfs, the new kernel needs one too, with its own modules.
        """
        return (
            card.initramfs is not None
            and bool(build.of(BuildFileRole.KERNEL))
            and not build.of(BuildFileRole.INITRAMFS)
        )

    # -- deployment -----------------------------------------------------------------------------------------------

    def deploy(self, build: Build) -> None:
        if build.key in self._space.deployed:
            return
        self._begun = True
        card = self._checked_card()
        files = self._boot_files(build, card)
        copied = self._shared_files(build, card)
        with self._store.writing() as access:
            folder = self._folder(access.folders, card)
            self._journal_undo(access.shell, folder, card, build)
            making = f"{folder}/{folder_of(build)}.new"
            run_as_root(access.shell, f"rm -rf {making}", "clear the folder of its boot files")
            upload(access.shell, making, files)
            copies = [f"cp {shlex.quote(f'{folder}/{a}')} {shlex.quote(f'{making}/{b}')}" for a, b in copied.items()]
            if build.of(BuildFileRole.OVERLAY):
                # The firmware looks for overlays in one folder only, so add what the build lacks.
                there = f"{making}/overlays"
                copies.append(
                    f"for f in {folder}/overlays/*; do [ -e {there}/${{f##*/}} ] || [ ! -f $f ] || cp $f {there}/; done"
                )
                copies.append(f"touch {there}/README")
            done = f"mv {making} {folder}/{folder_of(build)}"
            run_as_root(access.shell, " && ".join([*copies, done, "sync"]), "store its boot files")
        self._root.deploy(build)
        if self._makes_initramfs(build, card):
            self._root.make_initramfs(build, f"{self._checked_card().folder}/{folder_of(build)}/{INITRAMFS}")
        self._space.deployed.add(build.key)

    def _boot_files(self, build: Build, card: Card) -> dict[str, Content]:
        files: dict[str, Content] = {CMDLINE: cmdline_text(card, build).encode()}
        for file in build.files:
            if file.role is BuildFileRole.KERNEL:
                files[KERNEL] = _kernel(file)
            elif file.role is BuildFileRole.INITRAMFS:
                files[INITRAMFS] = BuildSnapshot.of(file)
            elif file.role in (BuildFileRole.DEVICE_TREE, BuildFileRole.OVERLAY):
                files[file.name] = BuildSnapshot.of(file)
        return files

    def _journal_undo(self, shell: FeedingShell, folder: str, card: Card, build: Build) -> None:
        """Write the undo script to the journal on the card itself, before any file of the build is there."""
        script = undo_script(card.folder, build)
        entry = JournalEntry.new(f"{build} on {self._board.name}", script, journal_of(folder))
        run_as_root(shell, f"{entry.kept()} && sync", "write the undo script", WRITE_TIMEOUT_S)

    def _checked_card(self) -> Card:
        assert self._card is not None, "check comes before deploy"
        return self._card

    def _folder(self, folders: tuple[str, ...], card: Card) -> str:
        """Return the folder to write to: the folder that was read, or where the same partition is mounted now."""
        return card.folder if card.folder in folders else folders[0]

    # -- start ----------------------------------------------------------------------------------------------------

    def start(self, build: Build) -> None:
        access = self._store.access()
        try:
            # Read config.txt again: a boot tuning may have changed it since.
            card = read_card(access.shell, access.folders)
        except Refused as why:
            act = f"look at the card of {self._board.name}"
            raise LabError(f"{why}; the boot files of the board changed after {build} was checked", act) from None
        initramfs = bool(build.of(BuildFileRole.INITRAMFS)) or card.initramfs is not None
        texts: dict[str, Content] = {
            f"{TRYBOOT}{KEPT}.new": tryboot_text(card, build, initramfs).encode(),
            f"{folder_of(build)}/{CMDLINE}": cmdline_text(card, build).encode(),
        }
        upload(access.shell, card.folder, texts)
        aside = f"[ ! -e {TRYBOOT} ] || grep -qF {shlex.quote(HEADER)} {TRYBOOT} || mv {TRYBOOT} {TRYBOOT}{KEPT}"
        steps = f"cd {card.folder} && {{ {aside}; }} && mv {TRYBOOT}{KEPT}.new {TRYBOOT} && sync"
        run_as_root(access.shell, steps, f"write {TRYBOOT}", WRITE_TIMEOUT_S)
        self._root.claim(build)
        self._board.reboot(TRY.format(folder=self._folder_on_board(card, build)))

    def _folder_on_board(self, card: Card, build: Build) -> str:
        """Return a folder on the board that exists as long as the board may boot this build."""
        return f"{card.folder}/{folder_of(build)}" if self._store.on_board else "/"

    def take_back(self, builds: Iterable[Build]) -> None:
        """Remove everything that ``deploy`` and ``start`` of these builds left. Raises LabError, SshError."""
        if not self._begun:
            return
        access = self._store.access()
        card = self._checked_card()
        left = recover(access.shell, (card.folder,))
        if not self._store.on_board or access.shell is not self._board.shell:
            for build in builds:
                run_as_root(self._board.shell, root_undo(build), f"remove {build}")
        self._space.deployed.clear()
        self._root.forget()
        self._begun = False
        if left:
            raise LabError(
                f"could not remove from {self._board.name}: {'; '.join(left)}",
                f"look at the card of {self._board.name}",
            )


def _kernel(file: BuildFile) -> bytes:
    return bootable(BuildSnapshot.of(file).read())


def journal_of(folder: str) -> str:
    """Return the journal's folder on the boot partition, which survives every boot."""
    return f"{folder}/{OURS}/journal"


def undo_script(folder: str, build: Build) -> str:
    """Return a script that removes all files of a build, at whatever point its deployment stopped."""
    ours = f"{folder}/{folder_of(build)}"
    tryboot = (
        f"cd {folder} && rm -f {TRYBOOT}{KEPT}.new && if [ -e {TRYBOOT} ] && grep -qF {shlex.quote(HEADER)} {TRYBOOT};"
        f" then rm -f {TRYBOOT}; fi && if [ -e {TRYBOOT}{KEPT} ]; then mv {TRYBOOT}{KEPT} {TRYBOOT}; fi"
    )
    return f"{tryboot} && rm -rf {ours} {ours}.new && {root_undo(build)} && sync"


def root_undo(build: Build) -> str:
    """Return a script that removes the build's files on the root file system.

    It does nothing on a machine without these files, such as a TFTP server.
    """
    steps = [f"rm -rf {PurePosixPath(firmware_folder(build)).parent} {parked(build.key)}"]
    if build.release:
        mark = f"/lib/modules/{build.release}/.{OURS}"
        steps.append(f'if [ "$(cat {mark} 2>/dev/null)" = {build.key} ]; then rm -rf /lib/modules/{build.release}; fi')
    return " && ".join(steps)


def recover(shell: FeedingShell, folders: tuple[str, ...]) -> list[str]:
    """Undo what the journals in these folders contain; return what could not be undone. Raises SshError."""
    failed: list[str] = []
    for folder in folders:
        found = shell.run(f"[ ! -d {folder}/{OURS} ] || echo yes")
        if found.stdout.strip() != "yes":
            continue
        # The lock waits for commands that a crashed process left running.
        shell.run(locked("true"), timeout_s=COPY_TIMEOUT_S)
        failed += replay(shell, journal_of(folder)).failed
        if not failed:
            shell.run(locked(f"rm -rf {folder}/{OURS}; sync"), timeout_s=COPY_TIMEOUT_S)
    return failed
