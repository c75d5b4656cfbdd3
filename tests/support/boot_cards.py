"""Boot partitions as distributions ship them (tests/data/cards/), and boards that have booted from them.

The files of a card are real files in a folder, and a real shell runs the scripts that read and write them. Only what a
folder cannot be is replaced: the board's mounts, and the output of the script that asks the board about its boot.
"""

from __future__ import annotations

import functools
import gzip
import lzma
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pytest_pinet.builds.load import load_build
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.deploy.board import PLACES, PartitionAccess
from pytest_pinet.lab.deploy.boot import Booted
from pytest_pinet.lab.deploy.card import FIRST_UTS
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.build import Build

FOLDER = Path(__file__).parents[1] / "data" / "cards"
NODE = "pi-1"
MARK = "=====8<====="
# The reply of vcmailbox for tag 0x00030064: the firmware knows the tag, and no trial boot is requested.
MAILBOX = "0x0000001c 0x80000000 0x00030064 0x00000004 0x80000004 0x00000000 0x00000000"
MACHINES = {"zImage-rpi-v6": "armv6l", "zImage-rpi-v7": "armv7l", "zImage-rpi-v7l": "armv7l", "zImage-lz4": "armv7l"}


@functools.cache
def document(name: str) -> Any:
    """Return a document of tests/data/cards/."""
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


@functools.cache
def image(name: str) -> bytes:
    """Return an image as it is on a card: arm64 kernels are packed by gzip."""
    if name.startswith("Image"):
        return gzip.compress(lzma.decompress((FOLDER / f"{name}.xz").read_bytes()), mtime=0)
    if name == "u-boot.bin":
        return lzma.decompress((FOLDER / "u-boot.bin.xz").read_bytes())
    return (FOLDER / name).read_bytes()


def card_names() -> list[str]:
    """Return the names of all cards."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in ("boards", "kernels"))


def board_names(card: str) -> list[str]:
    """Return the boards of a card. A board that is there twice has a suffix."""
    return list(document(card)["boards"])


@dataclass
class Setup:
    """A card and the board that has booted from it. A test changes it before ``boot``.

    ``files`` are sizes in bytes or names of images, ``expected`` is the board's entry in the card's document.
    """

    card: str
    board: str

    def __post_init__(self) -> None:
        # Tests change it.
        self.document: dict[str, Any] = dict(document(self.card))
        self.expected: dict[str, Any] = self.document["boards"][self.board]
        self.model: dict[str, Any] = document("boards")[self.board.partition("/")[0]]
        self.texts: dict[str, str] = dict(self.document["texts"])
        self.files: dict[str, int | str] = dict(self.document["files"])
        self.files |= dict.fromkeys(self.document["device_trees"], 56000)
        self.runs: str = self.expected["runs"]
        self.mount = "/dev/mmcblk0p1 FOLDER vfat rw,relatime,fmask=0022,dmask=0022,codepage=437,errors=remount-ro 0 0"
        self.root = self.document.get("root", "/dev/mmcblk0p2 / ext4 rw,noatime 0 0")
        self.bootloader: dict[str, int] = dict(self.model.get("bootloader", {}))
        self.arming: str = self.expected.get("arming", self.document.get("arming", "vcmailbox"))
        self.programs: int = self.document["programs"]
        self.log = ""
        # The part [config.txt] of ``vcgencmd bootloader_config``.
        self.appended = ""
        # The output of ``vcgencmd version``.
        self.firmware = ""
        # The namespace of its host name. A container does not have the first.
        self.uts = FIRST_UTS
        self.free: int | None = None
        self.root_free: int | None = None
        self.tools: tuple[str, ...] = ()
        # What a reboot starts instead of the firmware.
        self.instead = ""
        # The files of partition 1, if the card is another partition. None: it cannot be mounted.
        self.first: dict[str, str] | None = None

    @property
    def cmdline(self) -> str:
        """The command line that the firmware makes of cmdline.txt."""
        name = next((name for name in self.texts if name.rpartition("/")[2] == "cmdline.txt"), "")
        words = re.sub(r"console=serial[01]\b", f"console={self.model['console']}", self.texts.get(name, ""))
        booted = self.document.get("runs_cmdline", f"{self.model['before']}  {words.partition(chr(10))[0]}")
        return str(booted)

    def report(self, cmdline: str) -> str:
        """Return what the script of the boot report prints on this board."""
        kernel = document("kernels")[self.runs]
        values = {name: f"{value:08x}" for name, value in self.bootloader.items()}
        parts = {
            "model": self.model["title"],
            "serial": self.document.get("serial", "10000000e1f2a3b4"),
            "revision": self.model["revision"],
            "version": kernel["version"],
            "machine": MACHINES.get(self.runs, "aarch64"),
            "programs": f"7f454c46{'02' if self.programs == 64 else '01'}",
            "notes": kernel["notes"],
            "cmdline": cmdline,
            **{
                name: values.get(name, "")
                for name in ("tryboot", "partition", "capabilities", "build-timestamp", "boot-mode")
            },
            "mailbox": MAILBOX if self.arming in ("vcmailbox", "busybox") else "",
            "notifier": "0" if self.arming == "none" else "1",
            "init": "systemd" if self.arming in ("vcmailbox", "systemd", "none") else "",
            "instead": self.instead,
            "firmware": self.firmware,
            "uts": self.uts,
            "appended": self.appended,
            "vclog": self.log,
        }
        return "".join(f"{MARK}{name}\n{text}\n" for name, text in parts.items())

    def boot(self, place: Path) -> CardOnDisk:
        """Make the files of the card, and return the board."""
        cmdline = self.cmdline
        folder = place / self.document["folder"]
        for name, content in self.files.items():
            _make(folder / name, content)
        for name, text in self.texts.items():
            _make(folder / name, text.encode())
        for name, text in self.document.get("elsewhere", {}).items():
            _make(place / name, text.encode())
        for name, link in self.document.get("links", {}).items():
            if "file" in link:
                _make(folder.parent / link["to"], link["file"])
            for inner, content in link.get("within", {}).items():
                _make(folder.parent / link["to"] / inner, content)
            (folder / name).symlink_to(f"../{link['to']}")
        commands = {"sync": "", "id": "echo 0", "readlink": 'case $1 in -f) echo "$2" ;; esac'}
        if self.arming in ("vcmailbox", "busybox"):
            # It answers to the tag that reads the request what was written by the other tag.
            flag = place / "requested"
            commands["vcmailbox"] = (
                f"[ $1 = 0x00030064 ] || echo $4 > {flag}\necho {MAILBOX[:55]}0000000$(cat {flag}) 0x0"
            )
        commands |= dict.fromkeys(self.tools, "")
        for name, text in (self.first or {}).items():
            _make(place / "first" / name, text.encode())
        if self.first is not None:
            (place / "first").mkdir(exist_ok=True)
            # `mount -t vfat -o ro DEVICE FOLDER` shows the files of partition 1.
            commands["mount"] = f'case $2 in vfat) set -- --bind {place}/first "$6" ;; esac; exec /bin/mount "$@"'
        if self.free is not None:
            commands["df"] = f"echo /dev/mmcblk0p1 261108 0 {self.free // 1024} 74% /boot/firmware"
        if self.root_free is not None:
            other = commands.get("df", 'exec /bin/df "$@"')
            root = f"echo /dev/mmcblk0p2 30368972 0 {self.root_free // 1024} 99% /"
            commands["df"] = f'case "$*" in *" /lib/modules"|*" /var/lib"|*" /var/tmp") {root} ;; *) {other} ;; esac'
        for name, script in commands.items():
            _make(place / "bin" / name, f"#!/bin/sh\n{script}\n".encode())
            (place / "bin" / name).chmod(0o755)
        return CardOnDisk(self, place, folder, cmdline)


def _make(path: Path, content: int | str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, int):
        with path.open("wb") as file:
            file.truncate(content)
    else:
        path.write_bytes(image(content) if isinstance(content, str) else content)


class CardShell(SshShell):
    """Runs commands on this machine, with the mounts and the boot report of the board."""

    def __init__(self, setup: Setup, place: Path, folder: Path, cmdline: str) -> None:
        super().__init__(NODE, ["env", f"PATH={place / 'bin'}:{os.environ['PATH']}", "sh", "-c"])
        self._mounts = f"{setup.root}\n{setup.mount.replace('FOLDER', str(folder))}\n"
        self._report = setup.report(cmdline)

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        if "/proc/device-tree/chosen/bootloader" in command:
            return Completed(0, self._report, "")
        done = super().run(command, timeout_s)
        if f"{MARK}mounts\n" in done.stdout:
            before, _, after = done.stdout.partition(f"{MARK}mounts\n")
            after = after[after.index(MARK) :]
            return Completed(done.returncode, f"{before}{MARK}mounts\n{self._mounts}{after}", done.stderr)
        if command.endswith("cat /proc/self/mounts"):
            return Completed(0, f"{done.stdout.partition(chr(10))[0]}\n{self._mounts}", "")
        return done


@dataclass
class CardOnDisk:
    """Implements the Board and the BootFileStore of deployments for one card. ``reboots`` are the commands of boots."""

    setup: Setup
    place: Path
    folder: Path
    cmdline: str
    reboots: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    name = NODE
    boots = True
    has_power = True
    boot_timeout_s = 180.0
    record = None

    def __post_init__(self) -> None:
        self.shell: SshShell = CardShell(self.setup, self.place, self.folder, self.cmdline)
        self.model = self.setup.board.partition("/")[0]
        self.on_board: bool = self.setup.document.get("on_board", True)

    def access(self) -> PartitionAccess:
        # The order is that of a board. A TFTP server has one folder.
        places = tuple(f"{self.place}{folder}" for folder in PLACES) if self.on_board else (str(self.folder),)
        return PartitionAccess(self.shell, places)

    @contextmanager
    def writing(self) -> Iterator[PartitionAccess]:
        yield self.access()

    def reboot(self, command: str) -> None:
        self.reboots.append(command)

    def power_cycle(self) -> None:
        raise AssertionError("not needed")

    reset = power_cycle

    def lock_for_trial(self) -> None:
        """Take no lock: its power can be switched."""

    def warn(self, warning: str) -> None:
        self.warnings.append(warning)

    def driver(self, name: str) -> Any:
        return None

    def booted(self) -> Booted:
        """Return the way of deployment under test."""
        return Booted(self, self)

    def plain(self, text: str) -> str:
        """Return a message with the folder replaced by its name in the card's document."""
        return text.replace(str(self.folder), "FOLDER").replace(NODE, "NODE")


def build_of(place: Path, kind: str, initramfs: bool = True) -> Build:
    """Return a build: ``settings``, ``arm`` or ``arm64`` (a kernel), with an initramfs if the board boots with one.

    ``made`` is the build whose files are in this folder.
    """
    if kind == "made":
        return load_build(str(place))
    place.mkdir(parents=True, exist_ok=True)
    if kind == "settings":
        (place / "build.yaml").write_text("name: settings\ncmdline: loglevel=5\nconfig: [dtparam=eee=off]\n")
        return load_build(str(place))
    (place / "Image").write_bytes(image("zImage-rpi-v7l" if kind == "arm" else "Image-rpi-2712"))
    lines = ["name: kernel", "kernel: Image"]
    if initramfs:
        (place / "initrd").write_bytes(b"070701")
        lines.append("initramfs: initrd")
    (place / "build.yaml").write_text("\n".join([*lines, ""]))
    return load_build(str(place))
