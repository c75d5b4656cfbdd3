"""Boot a build from its own folder beside the known-good build, once, with the firmware's ``tryboot``.

config.txt and all files that it names stay unchanged. Therefore every other boot (a power cycle, a plain reboot, a
panic) starts the known-good build. The undo script is written to the journal beside the build before anything else.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_pinet.builds.cache import folder as cache_folder
from pytest_pinet.builds.config_txt import CMDLINE, OTHER, TRYBOOT, evaluate, model_of
from pytest_pinet.builds.contents import archive, early_firmware
from pytest_pinet.builds.kernel_files import bootable
from pytest_pinet.builds.matching import TreeProof, require_processor, runs_on
from pytest_pinet.builds.tree import BuildSnapshot
from pytest_pinet.builds.validate import LONGEST_CMDLINE
from pytest_pinet.errors import LabError, SshError
from pytest_pinet.lab.deploy.board import (
    ELSEWHERE,
    BootFileStore,
    Content,
    DeployableBoard,
    DiskSpace,
    Refused,
    run_as_root,
    upload,
)
from pytest_pinet.lab.deploy.card import BootReport, Card, read_boot_report, read_card, with_autoboot
from pytest_pinet.lab.deploy.kernel_and_tree import (
    DeviceTreeProof,
    about_trees,
    check_built_in_options,
    read_kernel,
    tree_place,
)
from pytest_pinet.lab.deploy.known_good import (
    COPY,
    INITRAMFS,
    KERNEL,
    KnownGood,
    cmdline_text,
    find_known_good,
    firmware_folder,
    folder_of,
    kernel_name,
    tryboot_text,
)
from pytest_pinet.lab.deploy.recovery import DISARM, DRAFT, journal_of, recover, root_undo, undo_script
from pytest_pinet.lab.deploy.root_files import RootFiles
from pytest_pinet.lab.deploy.trial import TrialGuard, read_guard
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole
from pytest_pinet.tuning.journal import JournalEntry
from pytest_pinet.tuning.setting import NO_LINES, BootLines

# The initramfs with the driver firmware of the build.
FIRMWARE = "pinet-firmware.cpio"
# The new initramfs may be larger by this factor, because the build has more modules than the known-good one.
INITRAMFS_GROWTH = 1.5
SLACK_BYTES = 2_000_000
# An SD card can be slow.
WRITE_TIMEOUT_S = 30.0
# Ask the firmware for one boot with tryboot.txt, and read the request back. The tags of the mailbox are in
# raspberrypi/linux, include/soc/bcm2835/raspberrypi-firmware.h. This works with every init system. The sixth word of
# the reply is the value.
_IS_SET = "set -- $(vcmailbox 0x00030064 4 0 0) && [ $((${6:-0})) = 1 ]"
ARM = f"{{ vcmailbox 0x00038064 4 0 1 >/dev/null && {_IS_SET}; }} || {{ {DISARM}; false; }}"
# The pause lets the answer to this command leave first. If the folder is gone, another process has recovered the board
# meanwhile, and no boot is needed.
TRY = "sleep 1; sync; [ ! -d {folder} ] || reboot"
# Without vcmailbox, the argument of systemd's reboot goes through the kernel to the firmware. `reboot '0 tryboot'` is
# refused by some versions of systemd as too many arguments.
TRY_BY_SYSTEMD = (
    "sleep 1; sync; [ ! -d {folder} ] || {{ systemctl --no-block reboot --reboot-argument='0 tryboot' &&"
    " {{ grep -qx '0 tryboot' /run/systemd/reboot-param || systemctl cancel; }}; }}"
)
PLAIN = f"sleep 1; sync; {DISARM}; reboot"


class Booted:
    """The way of deployment for every build that needs a boot; ``store`` holds the boot files of this board."""

    boots = True

    def __init__(self, board: DeployableBoard, store: BootFileStore) -> None:
        self._board = board
        self._store = store
        self.name = store.name
        self._root = RootFiles(board)
        self._found: tuple[Card, KnownGood] | None = None
        self._trees = DeviceTreeProof()
        self._model = OTHER
        self._arming = TRY
        self._identity: tuple[object, ...] = ()
        self._bits: int | None = None
        self._container = False
        self._warned: set[str] = set()
        # None for a board whose power can be switched.
        self._guard: TrialGuard | None = None
        self._space = DiskSpace()
        # Whether files of ours may be on the board.
        self.begun = False

    # -- checks ---------------------------------------------------------------------------------------------------

    def check(self, build: Build) -> None:
        name = self._board.name
        access = self._store.access()
        card = read_card(access.shell, access.folders)
        # The first check finds the known-good kernel, which runs then. Later a build may run.
        known = self.found[1] if self._found else self._find_known_good(card, access.shell)
        if self._container and any(file.role.boots for file in build.files):
            raise Refused(f"{name} shares its kernel with other containers, so it cannot boot another one; {ELSEWHERE}")
        require_processor(build, name, self._model.architectures, self._bits)
        replaced = self._replaced_bytes(build, card, known)
        if replaced is not None and not self._store.on_board:
            raise Refused(
                f"{name} boots with an initramfs, which pinet cannot make on a {self._store.name}: add one to {build}"
            )
        lines = self._guard.lines(NO_LINES) if self._guard is not None else NO_LINES
        if why := self._excess(build, cmdline_text(known, build, lines)):
            raise Refused(f"{why}: shorten it")
        if build.kernel is None and build.options:
            path = f"{card.folder}/{known.names.kernel}"
            check_built_in_options(build, self._board.shell, access.shell, path, known.kernel.release)
        self._root.check(build, replaced, bool(self._initramfs_names(build, known)))
        where, act = f"{card.folder} of {name}", "delete files that are not needed there"
        needed, alone = self._needed_bytes(build, card, known), build is COPY
        self._space.check(build, needed, card.free, f"{build} takes", where, act, alone)
        self._found = card, known
        if build.key not in self._warned and (warning := about_trees(build, known, name)):
            self._warned.add(build.key)
            self._board.warn(warning)

    def fitting(self, build: Build) -> Build:
        """Return the build with the kernel for this board, of a build with several. Raises Refused, SshError.

        The kernel with the name of the known-good one comes first, then what config.txt and the model let the firmware
        choose.
        """
        access = self._store.access()
        card = read_card(access.shell, access.folders)
        known = self.found[1] if self._found else self._find_known_good(card, access.shell)
        self._found = card, known
        chosen = evaluate(card.text, self._model).possible_kernels()
        for name in (known.names.kernel.rpartition("/")[2], *chosen, *self._model.kernels, *build.variants):
            if name in build.variants and runs_on(build.variants[name], self._model.architectures, self._bits):
                return build.variants[name]
        return next(iter(build.variants.values()))

    def _excess(self, build: Build, cmdline: str) -> str:
        """Return the sentence about a command line that is too long, or nothing."""
        length = len(cmdline.rstrip("\n"))
        if length <= LONGEST_CMDLINE:
            return ""
        return (
            f"the command line of {build} has {length} characters with the words of {self._board.name}, and the "
            f"firmware passes at most {LONGEST_CMDLINE} to the kernel"
        )

    @property
    def proof(self) -> Path:
        """The file in this machine's cache that exists once a trial boot from this boot partition has worked."""
        card, known = self.found
        # Cards that were flashed from one image have equal ids.
        kernel = (known.names, known.kernel.version, sorted(known.kernel.build_ids))
        parts = (self._board.name, card.uuid, card.folder, *kernel, *self._identity)
        return cache_folder().parent / "trial-boots" / hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def _find_known_good(self, card: Card, shell: SshShell) -> KnownGood:
        name = self._board.name
        if not self._board.has_power:
            self._guard = read_guard(self._board.shell, self._board.boot_timeout_s)
        report = read_boot_report(self._board.shell)
        self._identity, self._bits = (report.serial, report.firmware, report.build_timestamp), report.bits
        self._container = report.container
        self._model = model_of(report.model, self._board.model, report.serial, report.revision, report.partition)
        if self._store.on_board:
            card = with_autoboot(shell, card, report.partition)
        read = partial(read_kernel, shell, card.folder)
        known = find_known_good(card, report, self._model, read, name, self._store.on_board)
        # Last, because a board that boots by U-Boot mostly runs a mainline kernel, too.
        self._arming = _arming(report, name)
        self._trees.learn(self._board.shell, shell, card.folder, known)
        return known

    def _needed_bytes(self, build: Build, card: Card, known: KnownGood) -> int:
        """Return the bytes that the build needs on the boot partition."""
        own = [
            *build.of(BuildFileRole.INITRAMFS),
            *build.of(BuildFileRole.DEVICE_TREE),
            *build.of(BuildFileRole.OVERLAY),
        ]
        total = sum(file.size for file in own) + sum(len(_kernel(file)) for file in build.of(BuildFileRole.KERNEL))
        total += sum(card.size(name) for name in self._shared_files(build, known))
        total += sum(file.size for file in early_firmware(build))
        made = (self._replaced_bytes(build, card, known) or 0) * INITRAMFS_GROWTH
        return total + int(made) + SLACK_BYTES

    def _replaced_bytes(self, build: Build, card: Card, known: KnownGood) -> int | None:
        """Return the size of the known-good initramfs if the board makes another one for the build, else None."""
        return sum(map(card.size, known.names.initramfs)) if self._makes_initramfs(build, known) else None

    def _shared_files(self, build: Build, known: KnownGood) -> dict[str, str]:
        """Return the known-good files that this build shares: their known-good names, and their names in this build."""
        brought = {tree_place(file, known) for file in build.files}
        trees = {name: name.removeprefix(known.names.prefix) for name in known.device_trees}
        shared = {name: own for name, own in trees.items() if own not in brought}
        if not build.of(BuildFileRole.KERNEL):
            shared[known.names.kernel] = kernel_name(known, build)
        if not build.of(BuildFileRole.INITRAMFS) and not self._makes_initramfs(build, known):
            shared |= {name: name.rpartition("/")[2] for name in known.names.initramfs}
        return shared

    def _initramfs_names(self, build: Build, known: KnownGood) -> tuple[str, ...]:
        """Return the names of the initramfs files that this build loads, in its folder."""
        if build.of(BuildFileRole.INITRAMFS) or self._makes_initramfs(build, known):
            names: tuple[str, ...] = (INITRAMFS,)
        else:
            names = tuple(name.rpartition("/")[2] for name in known.names.initramfs)
        return (FIRMWARE, *names) if names and early_firmware(build) else names

    def _makes_initramfs(self, build: Build, known: KnownGood) -> bool:
        """Return whether the board must make an initramfs for this build.

        If the known-good kernel uses an initramfs, the new kernel needs one too, with its own modules.
        """
        new_kernel = bool(build.of(BuildFileRole.KERNEL)) and not build.of(BuildFileRole.INITRAMFS)
        return new_kernel and bool(known.names.initramfs)

    # -- deployment -----------------------------------------------------------------------------------------------

    def deploy(self, build: Build) -> None:
        if build.key in self._space.deployed:
            return
        self.begun = True
        card, known = self.found
        files = self._boot_files(build, known)
        copied = self._shared_files(build, known)
        with self._store.writing() as access:
            # The folder that was read, or where the same partition is mounted now.
            folder = card.folder if card.folder in access.folders else access.folders[0]
            # Write the undo script to the journal on the card itself, before any file of the build is there.
            script = undo_script(card.folder, build)
            entry = JournalEntry.new(f"{build} on {self._board.name}", script, journal_of(folder))
            run_as_root(access.shell, f"{entry.kept()} && sync", "write the undo script", WRITE_TIMEOUT_S)
            making = f"{folder}/{folder_of(build)}.new"
            run_as_root(
                access.shell, f"rm -rf {making} {folder}/{folder_of(build)}", "clear the folder of its boot files"
            )
            upload(access.shell, making, files)
            copies = [_copied(f"{folder}/{a}", f"{making}/{b}") for a, b in copied.items()]
            # The firmware looks for overlays in one folder only: in that of the build if it has a README there.
            own = bool(build.of(BuildFileRole.OVERLAY))
            if known.overlays and (own or known.overlays.startswith(known.names.prefix or "/")):
                there = f"{making}/{known.overlays.removeprefix(known.names.prefix)}"
                copies.append(
                    f"mkdir -p {there} && for f in {folder}/{known.overlays}*; do"
                    f' [ -e "{there}${{f##*/}}" ] || [ ! -f "$f" ] || cp "$f" {there} || exit 1; done'
                    f" && touch {there}README"
                )
            done = f"mv {making} {folder}/{folder_of(build)}"
            run_as_root(access.shell, " && ".join([*copies, done, "sync"]), "store its boot files")
        self._root.deploy(build)
        if self._makes_initramfs(build, known):
            self._root.make_initramfs(build, f"{card.folder}/{folder_of(build)}/{INITRAMFS}")
        self._space.deployed.add(build.key)

    def _boot_files(self, build: Build, known: KnownGood) -> dict[str, Content]:
        files: dict[str, Content] = {CMDLINE: cmdline_text(known, build).encode()}
        if FIRMWARE in self._initramfs_names(build, known):
            early = early_firmware(build)
            place = firmware_folder(build).removeprefix("/")
            files[FIRMWARE] = archive({f"{place}/{file.name}": BuildSnapshot.of(file).read() for file in early})
        for file in build.files:
            if file.role is BuildFileRole.KERNEL:
                files[KERNEL] = _kernel(file)
            elif file.role is BuildFileRole.INITRAMFS:
                files[INITRAMFS] = BuildSnapshot.of(file)
            elif file.role in (BuildFileRole.DEVICE_TREE, BuildFileRole.OVERLAY):
                files[tree_place(file, known)] = BuildSnapshot.of(file)
        return files

    @property
    def found(self) -> tuple[Card, KnownGood]:
        """The card, and the known-good files on it, that the last accepted check has found."""
        assert self._found is not None, "check comes before deploy"
        return self._found

    # -- start ----------------------------------------------------------------------------------------------------

    def start(self, build: Build, lines: BootLines = NO_LINES) -> None:
        """Boot a build that was deployed, with these lines of boot settings. Raises BuildError, LabError."""
        try:
            command = self._prepared(build, lines)
        except SshError as error:
            raise LabError(
                f"{self._board.name} was lost before it booted {build}: {error.message}", error.act
            ) from error
        self._board.reboot(command)

    def _prepared(self, build: Build, more: BootLines) -> str:
        """Write tryboot.txt, ask the firmware for a trial boot, and return the command that reboots."""
        access = self._store.access()
        _, known = self.found
        try:
            # Read config.txt again: its owner may have changed it since.
            card = read_card(access.shell, access.folders)
        except Refused as why:
            act = f"look at the place of its boot files ({self._store.name})"
            raise LabError(f"{why}; when {build} was checked, pinet could read the boot files", act) from None
        known = replace(known, cmdline=card.text(known.names.cmdline) or known.cmdline)
        if self._guard is not None:
            more = self._guard.lines(more)
        cmdline = cmdline_text(known, build, more)
        if excess := self._excess(build, cmdline):
            raise LabError(excess, "shorten it, or test with fewer boot settings")
        if self._guard is not None:
            self._board.lock_for_trial()
            run_as_root(self._board.shell, self._guard.installed(), "write the guard of a trial", WRITE_TIMEOUT_S)
        texts: dict[str, Content] = {
            f"{DRAFT}": self.tryboot(build, card, known, more).encode(),
            f"{folder_of(build)}/{CMDLINE}": cmdline.encode(),
        }
        upload(access.shell, card.folder, texts)
        steps = f"cd {card.folder} && mv {DRAFT} {TRYBOOT} && sync"
        run_as_root(access.shell, steps, f"write {TRYBOOT}", WRITE_TIMEOUT_S)
        self._root.claim(build)
        if self._arming is TRY:
            # If another process has recovered the board meanwhile, the request would find no tryboot.txt.
            there = f"[ -e {card.folder}/{TRYBOOT} ] && " if self._store.on_board else ""
            arm = f"{there}{{ {ARM}; }}"
            run_as_root(self._board.shell, arm, "ask its firmware for a trial boot (vcmailbox)", WRITE_TIMEOUT_S)
        # A folder that the board has as long as it may boot this build.
        return self._arming.format(folder=f"{card.folder}/{folder_of(build)}" if self._store.on_board else "/")

    def tryboot(self, build: Build, card: Card, known: KnownGood, more: BootLines = NO_LINES) -> str:
        """Return the tryboot.txt that boots a checked build with ``more`` lines."""
        return tryboot_text(card, self._model, known, build, self._initramfs_names(build, known), more)

    @property
    def risk(self) -> str:
        """What a build that hangs needs, on a board without power control; empty for other boards. After ``check``."""
        return self._guard.risk(self._board.name) if self._guard is not None else ""

    @property
    def arming(self) -> str:
        """The command by which this board asks its firmware for a trial boot."""
        return "vcmailbox" if self._arming is TRY else "systemctl reboot --reboot-argument"

    def compare_trees(self, build: Build, lines: BootLines = NO_LINES) -> TreeProof:
        """Compare the device tree of the build that runs with these lines. Raises ChangedBuildError, LabError."""
        return self._trees.compare(build, self.found[1], self._board.shell, lines.config)

    def remove(self, build: Build) -> None:
        """Remove the boot files of one build, which does not run. Raises LabError, SshError."""
        card, _ = self.found
        self._space.release(build)
        script = f"rm -rf {card.folder}/{folder_of(build)} && sync"
        run_as_root(self._store.access().shell, script, f"remove {build}")

    def take_back(self, builds: Iterable[Build]) -> None:
        """Remove everything that ``deploy`` and ``start`` of these builds left. Raises LabError, SshError."""
        if not self.begun:
            return
        access = self._store.access()
        card, _ = self.found
        left = recover(access.shell, (card.folder,))
        if not self._store.on_board or access.shell is not self._board.shell:
            run_as_root(self._board.shell, DISARM, "clear the request for a trial boot", WRITE_TIMEOUT_S)
            for build in builds:
                run_as_root(self._board.shell, root_undo(build), f"remove {build}")
        self._space.clear()
        self._root.forget()
        self.begun = False
        if left:
            raise LabError(
                f"could not remove from {self._board.name}: {'; '.join(left)}",
                f"look at the card of {self._board.name}",
            )


def _arming(report: BootReport, name: str) -> str:
    """Return the command that starts a trial boot. Raises Refused if the board cannot ask its firmware for one."""
    if report.instead == "kexec":
        raise Refused(
            f"{name} has a kernel that kexec has loaded, and a reboot may start it instead of the firmware: "
            "unload it (kexec -u)"
        )
    if report.instead:
        raise Refused(
            f"{name} has a system mounted at /run/nextroot, and a reboot would start it instead of the firmware: "
            "unmount it"
        )
    if report.mailbox:
        return TRY
    if report.systemd and report.notifier:
        return TRY_BY_SYSTEMD
    if report.notifier:
        raise Refused(f"{name} has neither vcmailbox nor systemd to ask for a trial boot: install raspi-utils there")
    raise Refused(
        f"the known-good kernel of {name} is mainline, so it cannot ask the firmware for a trial boot (no /dev/vcio):"
        " boot a kernel of Raspberry Pi first"
    )


def _copied(source: str, target: str) -> str:
    folder = target.rpartition("/")[0]
    return f"mkdir -p {shlex.quote(folder)} && cp {shlex.quote(source)} {shlex.quote(target)}"


def _kernel(file: BuildFile) -> bytes:
    return bootable(BuildSnapshot.of(file).read())
