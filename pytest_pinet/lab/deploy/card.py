"""Read the folder from which a board's firmware boots, and what the board reports about its boot.

The folder is on the board, or on its TFTP server. The report always comes from the board itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from pytest_pinet.builds.config_txt import AUTOBOOT, CMDLINE, CONFIG, plain_prefix
from pytest_pinet.evidence.build import HEX, MARK, PARTS, hexadecimal, marked, parse_notes, split_marked
from pytest_pinet.evidence.counting import is_count
from pytest_pinet.execution.shell import Shell, as_root, reason
from pytest_pinet.lab.deploy.board import ELSEWHERE, Refused, free_bytes

# All our files on a boot partition are in this folder or have it in their names.
OURS = "pytest-pinet"
# The kernel's number of the first UTS namespace (include/linux/proc_ns.h, PROC_UTS_INIT_INO).
FIRST_UTS = "uts:[4026531838]"
LARGEST_TEXT = 65536
READ_TIMEOUT_S = 60.0
FIRMWARE_S = 10
# Endings of files in the firmware's log that are neither kernel nor initramfs.
_NEITHER = (".dtb", ".dtbo", ".bin", ".elf", ".dat", ".txt", ".fd")
_CARD = f"""\
cd {{folder}} 2>/dev/null && [ -f {CONFIG} ] || exit 3
echo '{MARK}where'; pwd -P
echo '{MARK}files'; find -L . -path ./{OURS} -prune -o -type f -exec ls -lnL {{{{}}}} +
echo '{MARK}space'; df -kP . | tail -n 1
echo '{MARK}writable'; [ ! -w . ] || echo yes
echo '{MARK}mounts'; findmnt -rnvo SOURCE,TARGET,FSTYPE,OPTIONS 2>/dev/null || cat /proc/self/mounts
echo '{MARK}uuid'; blkid -s UUID -o value "$(df -P . | tail -n 1 | cut -d' ' -f1)" 2>/dev/null
for f in *.txt */*.txt; do
  [ ! -f "$f" ] || [ "$(wc -c < "$f")" -gt {LARGEST_TEXT} ] || {{{{ echo "{MARK}text $f"; cat "$f"; echo; }}}}
done
"""
_PARTITION = re.compile(r"(/dev/(?:mmcblk\d+p|nvme\d+n\d+p|sd[a-z]+))(\d+)")
_SHOW_AUTOBOOT = f"{{ echo '{MARK}autoboot'; [ ! -f {AUTOBOOT} ] || cat {AUTOBOOT}; }}"
_NAMES_TEXT = re.compile(r"(?:include\s+|cmdline=)(\S+)")
# Prints a file in hexadecimal. The words of a device-tree property are 32-bit numbers with the highest byte first.
# A firmware that does not answer must not delay the rest.
_SHOW = f"""{HEX}; show() {{ [ ! -r "$1" ] || hex < "$1"; }}
timed() {{ if command -v timeout >/dev/null; then timeout {FIRMWARE_S} "$@"; else "$@"; fi; }}"""
_BOOT = {
    **{name: PARTS[name] for name in ("model", "serial", "partition", "version", "notes", "cmdline", "firmware")},
    "revision": "show /proc/device-tree/system/linux,revision",
    "programs": "dd if=/bin/sh bs=5 count=1 | hex",
    "capabilities": "show /proc/device-tree/chosen/bootloader/capabilities",
    "build-timestamp": "show /proc/device-tree/chosen/bootloader/build-timestamp",
    "boot-mode": "show /proc/device-tree/chosen/bootloader/boot-mode",
    "mailbox": "vcmailbox 0x00030064 4 0 0",
    "notifier": "grep -c -w rpi_firmware_notify_reboot /proc/kallsyms",
    "uts": "readlink /proc/self/ns/uts",
    "init": "[ ! -d /run/systemd/system ] || echo systemd",
    # What `reboot` may start instead of the firmware: a kernel (also Debian's kexec-tools do), or only new programs.
    # Only systemd starts the programs, if they are an operating system and the folder is a mount point (its pull
    # requests 29626 and 32136).
    "instead": 'if [ "$(cat /sys/kernel/kexec_loaded)" = 1 ]; then echo kexec;'
    " elif [ -d /run/systemd/system ] && grep -q ' /run/nextroot ' /proc/self/mounts &&"
    " { [ -e /run/nextroot/etc/os-release ] || [ -e /run/nextroot/usr/lib/os-release ]; }; then echo nextroot; fi",
    # From this section to the end, the firmware appends the text to each config.txt and tryboot.txt.
    "appended": r"timed vcgencmd bootloader_config | sed -n '/^\[config\.txt\]/,$p'",
    # The log of the firmware (package raspi-utils).
    "vclog": "timed vclog --msg",
}


@dataclass(frozen=True)
class Card:
    """A folder from which the firmware boots.

    ``texts`` are its small text files and ``files`` the sizes of all files in bytes, both by path in the folder.
    ``free`` is the free space in bytes. ``device`` and ``kind`` describe the mounted file system; they are empty if the
    folder is not the root of a file system. ``options`` are the mount's options. ``uuid`` is the id of the file system;
    it is empty if it cannot be read. ``autoboot`` is the text of autoboot.txt on partition 1 of the disk, if the folder
    is on another partition.
    """

    folder: str
    texts: Mapping[str, str]
    files: Mapping[str, int] = field(default_factory=dict)
    free: int = 0
    writable: bool = True
    device: str = ""
    kind: str = ""
    options: tuple[str, ...] = ()
    uuid: str = ""
    autoboot: str | None = None

    @property
    def partition(self) -> int | None:
        """The number of the partition that has the folder; None if its device has another kind of name."""
        found = _PARTITION.fullmatch(self.device)
        return int(found[2]) if found else None

    def exists(self, name: str) -> bool:
        """Return whether the folder has this file. Names on a FAT file system are not case sensitive."""
        return self._name(name) is not None

    def size(self, name: str) -> int:
        found = self._name(name)
        return self.files[found] if found is not None else 0

    def text(self, name: str) -> str | None:
        """Return the content of a small text file, or None."""
        found = self._name(name) or name
        return self.texts.get(found)

    def named_texts(self) -> list[str]:
        """Return the small files that lines of the texts name as further texts, and that are not read yet."""
        lines = [line.strip() for text in self.texts.values() for line in text.splitlines()]
        prefixes = [
            "",
            *(plain_prefix(line.removeprefix("os_prefix=")) for line in lines if line.startswith("os_prefix=")),
        ]
        # A folder of another tool can be deeper than the texts that are read first: os_prefix=tool/v1/
        named = [CMDLINE, *(found[1] for line in lines if (found := _NAMES_TEXT.match(line)))]
        files = {self._name(f"{prefix}{name.removeprefix('/')}") for name in named for prefix in prefixes}
        return sorted(name for name in files - self.texts.keys() if name and self.files[name] <= LARGEST_TEXT)

    def _name(self, name: str) -> str | None:
        if name in self.files or self.kind != "vfat":
            return name if name in self.files else None
        return next((file for file in self.files if file.casefold() == name.casefold()), None)


@dataclass(frozen=True)
class BootReport:
    """What a board reports about its boot; None is a value that the board does not report.

    ``version`` is /proc/version, ``bits`` are 32 or 64 by its programs, ``mailbox`` is whether vcmailbox can read the
    flag of a trial boot, and ``notifier`` whether the kernel passes an argument of reboot to the firmware. ``loaded``
    are the files that the firmware's log names, ``appended`` is what it appends to config.txt. ``container``: it shares
    its kernel with another system. ``instead`` is what a reboot may start instead of the firmware: ``kexec``,
    ``nextroot``, or nothing.
    """

    model: str | None
    version: str
    cmdline: str
    bits: int | None = None
    serial: str | None = None
    revision: int | None = None
    build_id: str | None = None
    partition: int | None = None
    capabilities: int | None = None
    build_timestamp: int | None = None
    boot_mode: int | None = None
    mailbox: bool = False
    notifier: bool = False
    systemd: bool = False
    instead: str = ""
    container: bool = False
    firmware: str = ""
    loaded: tuple[str, ...] = ()
    appended: str = ""


def read_card(shell: Shell, folders: tuple[str, ...]) -> Card:
    """Return the content of the first of these folders that contains config.txt. Raises Refused, SshError.

    ``shell`` is that of the board or of its TFTP server.
    """
    for folder in folders:
        if shlex.quote(folder) != folder:
            raise Refused(f"the boot folder '{folder}' of {shell.name} has a special character in its name: rename it")
        done = shell.run(as_root(_CARD.format(folder=folder)), timeout_s=READ_TIMEOUT_S)
        if f"{MARK}where\n" in done.stdout:
            return _with_named_texts(shell, parse_card(folder, done.stdout))
        if done.returncode not in (0, 3):
            raise Refused(f"{shell.name} refuses to read {folder}: {reason(done.stderr)}")
    raise Refused(
        f"{shell.name} has no {CONFIG} in {', '.join(folders)}: its boot partition is not mounted there, or no"
        f" firmware of a Raspberry Pi boots it; {ELSEWHERE}"
    )


def _with_named_texts(shell: Shell, card: Card) -> Card:
    """Return the card with all texts that its settings name (include, cmdline). Raises SshError."""
    while names := card.named_texts():
        show = "; ".join(f"echo '{MARK}text '{shlex.quote(name)}; cat {shlex.quote(name)}; echo" for name in names)
        done = shell.run(as_root(f"cd {card.folder} && {{ {show}; }}"), timeout_s=READ_TIMEOUT_S)
        texts = _texts(split_marked(done.stdout))
        # A file that cannot be read has no text, and is not read again.
        card = replace(card, texts={**dict.fromkeys(names, ""), **texts, **card.texts})
    return card


def with_autoboot(shell: Shell, card: Card, partition: int | None) -> Card:
    """Return the card with the autoboot.txt of partition 1 of its disk, if the board boots from another partition.

    The firmware reads that file before it chooses a partition. ``partition`` is the number that the firmware reports.
    Raises Refused if partition 1 cannot be read, and SshError.
    """
    number = card.partition or partition or 1
    if number == 1 or not card.device.startswith("/dev/"):
        return card
    where, act = f"{AUTOBOOT} of partition 1", "mount that partition"
    why = f"{card.device} has no number of a partition"
    if found := _PARTITION.fullmatch(card.device):
        first = f"{found[1]}1"
        # If it is mounted, it is read there. Else it is mounted over the folder, read-only: only this command sees the
        # mount, and its end undoes it.
        inner = (
            f"mount --make-rprivate / && mount -t vfat -o ro {first} {card.folder} && cd {card.folder}"
            f" && {_SHOW_AUTOBOOT}"
        )
        done = shell.run(
            as_root(
                f"at=$(grep '^{first} ' /proc/self/mounts | head -n 1 | cut -d' ' -f2);"
                f' if [ -n "$at" ]; then cd "$at" && {_SHOW_AUTOBOOT}; else unshare -m sh -c {shlex.quote(inner)}; fi'
            ),
            timeout_s=READ_TIMEOUT_S,
        )
        parts = split_marked(done.stdout)
        if done.returncode == 0 and "autoboot" in parts:
            return replace(card, autoboot=parts["autoboot"])
        where, act, why = f"{where} ({first})", f"{act} (mount -o ro {first} /mnt)", reason(done.stderr)
    raise Refused(
        f"{shell.name} boots from partition {number}, and pinet cannot read {where}, which may make a trial boot use "
        f"another partition ({why}): {act}"
    )


def _texts(parts: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix("text "): text[:-1] for name, text in parts.items() if name.startswith("text ")}


def parse_card(folder: str, output: str) -> Card:
    """Parse the output of the script that reads a folder."""
    parts = split_marked(output)
    device, kind, options = _mount(parts.get("mounts", ""), parts.get("where", "").strip())
    return Card(
        folder,
        _texts(parts),
        _sizes(parts.get("files", "")),
        free_bytes(parts.get("space", "")) or 0,
        parts.get("writable", "").strip() == "yes",
        device,
        kind,
        options,
        parts.get("uuid", "").strip(),
    )


def read_boot_report(shell: Shell) -> BootReport:
    """Return what a board reports about its boot. Raises SshError."""
    return parse_boot_report(shell.run(as_root(f"{_SHOW}; {marked(_BOOT)}; true"), timeout_s=READ_TIMEOUT_S).stdout)


def parse_boot_report(output: str) -> BootReport:
    """Parse the output of the script that reads the boot report."""
    parts = {name: text.strip() for name, text in split_marked(output).items()}
    # A reply has 7 words: size, code, tag, size of the value, size of the reply, value, end. A firmware that does not
    # know the tag leaves the highest bit of the fifth word clear.
    mailbox = re.findall(r"0x[0-9a-f]+", parts.get("mailbox", ""))
    revision, partition, capabilities, built, mode = (
        hexadecimal(parts.get(name, ""))
        for name in ("revision", "partition", "capabilities", "build-timestamp", "boot-mode")
    )
    return BootReport(
        model=parts.get("model") or None,
        version=parts.get("version", ""),
        cmdline=parts.get("cmdline", ""),
        # The fifth byte of an ELF file is its class.
        bits={"01": 32, "02": 64}.get(parts.get("programs", "")[8:]),
        serial=parts.get("serial") or None,
        revision=revision,
        build_id=parse_notes(parts.get("notes", "")),
        partition=partition,
        capabilities=capabilities,
        build_timestamp=built,
        boot_mode=mode,
        mailbox=len(mailbox) > 5 and int(mailbox[4], 16) >> 31 == 1,
        notifier=parts.get("notifier", "0") not in ("", "0"),
        systemd=parts.get("init") == "systemd",
        instead=parts.get("instead", ""),
        container=parts.get("uts", "") not in ("", FIRST_UTS),
        firmware=parts.get("firmware", ""),
        loaded=loaded_files(parts.get("vclog", "")),
        appended=parts.get("appended", ""),
    )


def loaded_files(log: str) -> tuple[str, ...]:
    """Return the names of the kernel and initramfs files in the firmware's log (vclog --msg), in order.

    It logs the device tree and the stub of the processor (armstub8-2712.bin) in the same way. With os_prefix, names may
    begin with a slash or have two ("/new//cmdline.txt", linux issue 7319).
    """
    found = re.findall(r"^.*?\bLoad(?:ing|ed) '([^']+)'", log, re.MULTILINE)
    names = (re.sub("//+", "/", name).removeprefix("/") for name in found)
    return tuple(dict.fromkeys(name for name in names if not name.endswith(_NEITHER)))


def _sizes(listing: str) -> dict[str, int]:
    """Return the sizes of the files in the output of ``ls -ln``."""
    found = {}
    for line in listing.splitlines():
        words = line.split(None, 8)
        if len(words) == 9 and words[0].startswith("-") and is_count(words[4]):
            found[words[8].removeprefix("./")] = int(words[4])
    return found


def mount_below(mounts: str, path: str) -> tuple[str, str, tuple[str, ...]]:
    """Return device, kind and options of the file system that contains a path."""
    places = [path, *(str(parent) for parent in PurePosixPath(path).parents)]
    return next((found for place in places if (found := _mount(mounts, place))[1]), ("", "", ()))


def _mount(mounts: str, folder: str) -> tuple[str, str, tuple[str, ...]]:
    """Return device, kind and options of the last file system that is mounted on the folder; empty if there is none."""
    found: tuple[str, str, tuple[str, ...]] = ("", "", ())
    for line in mounts.splitlines():
        words = line.split()
        if len(words) >= 4 and words[1].replace("\\040", " ").replace("\\x20", " ") == folder:
            found = (words[0], words[2], tuple(words[3].split(",")))
    return found
