"""Find the files that booted the known-good build, and write the boot files of a build beside them.

A board is refused with one sentence, before anything is written, if its card cannot boot a build for a trial.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from pytest_pinet.builds.archives import Unreadable
from pytest_pinet.builds.config_txt import (
    AUTOBOOT,
    CMDLINE,
    CONFIG,
    TRYBOOT,
    BootFileNames,
    ConfigTxt,
    PiModel,
    active_lines,
    evaluate,
    first_line,
    with_includes,
)
from pytest_pinet.builds.kernel_files import Loader
from pytest_pinet.lab.deploy.board import Refused
from pytest_pinet.lab.deploy.card import OURS, BootReport, Card
from pytest_pinet.model.build import MARKER, Build, BuildFileRole, KernelId
from pytest_pinet.tuning.setting import NO_LINES, BootLines

KERNEL, INITRAMFS = "vmlinuz", "initrd.img"
# A build without any file or setting: the known-good files in a folder of a build.
COPY = Build("known-good-copy")
HEADER = "# By pytest-pinet: boots a build under test once; every other boot uses config.txt"
# A kernel that panics must not stay there: after this many seconds it reboots, and the known-good build boots.
PANIC_WORD = "panic=10"
# EEPROMs of this time and later know tryboot (seconds since 1970; snapd uses the same limit).
TRYBOOT_SINCE = 1616057651
# Boards without an EEPROM have start.elf on the card, which learnt tryboot after the first EEPROM with it.
_START_ELF_SINCE = date(2020, 10, 28)
# The firmware of boards before the Pi 5: start4.elf, start.elf, and start4x.elf and others for cameras and debugging.
_START_ELF = re.compile(r"start4?\w*\.elf")
_TRYBOOT_CAPABILITY = 1 << 3
# Lines that name the files of the known-good build, or the mode of the processor.
_PLACES = re.compile(
    # upstream_kernel=1 stays: it also chooses between two names of the device tree.
    r"(?:os_prefix|kernel|cmdline|ramfsfile|ramfsaddr|auto_initramfs|arm_64bit)=|initramfs\s"
)
_SECTION = re.compile(r"\[[^\]]*\]")
# File systems in memory: what is written there is gone after the next boot.
_VOLATILE = ("overlay", "overlayfs", "tmpfs", "ramfs")
# The firmware replaces the name of the serial console by the device of the model.
_CONSOLE = re.compile(r"console=serial[01](.*)")
_SERIAL_DEVICES = ("ttyS0", "ttyAMA0", "ttyAMA10")

# The firmware gives these words its own values (firmware issue 1575: 8250.nr_uarts). The others are of its display,
# memory and network.
_OF_FIRMWARE = re.compile(
    r"8250\.nr_uarts|coherent_pool|cma|numa_policy|numa|nvme\.max_host_mem_size_mb|system_heap\.max_order|video"
    r"|vc_mem\.\w+|snd_bcm2835\.\w+|bcm2708_fb\.\w+|bcm270\d\.\w+|smsc95xx\.macaddr|dma\.dmachans"
)
# The shortest command line that firmware cuts: the old tags (ATAGs) and 32-bit kernels take 1024 characters.
_SHORTEST_CUT = 1000
# chosen/bootloader/boot-mode has the digits of BOOT_ORDER.
_NETWORK = "the network"
_BOOT_MODES = {1: "an SD card", 2: _NETWORK, 3: "a computer (rpiboot)", 4: "USB", 5: "USB", 6: "NVMe", 7: _NETWORK}
_DEVICES = {"mmcblk": "an SD card", "nvme": "NVMe", "sd": "USB"}

ReadKernel = Callable[[str], KernelId]


@dataclass(frozen=True)
class KnownGood:
    """The files that booted the known-good build, by path in the boot folder, and what the kernel's file contains.

    ``device_trees`` and ``overlays`` are the files that a build without its own shares, by the name below its folder.
    """

    names: BootFileNames
    kernel: KernelId
    cmdline: str
    device_trees: tuple[str, ...]
    overlays: str | None


def find_known_good(
    card: Card, report: BootReport, model: PiModel, read: ReadKernel, node: str, on_board: bool = True
) -> KnownGood:
    """Return the files that booted the running system. ``read`` returns the identity of a kernel file of the card.

    ``on_board`` is False if the folder is on another machine, such as a TFTP server. Raises Refused if the card cannot
    boot a build for a trial, or if no file is the running kernel.
    """
    _check_boot_mode(card, report, node, on_board)
    if on_board:
        _check_partition(card, report, node)
    elif not model.is_pi5 and model.filters and not any(_START_ELF.fullmatch(name) for name in card.files):
        start = "start4.elf" if "pi4" in model.filters else "start.elf"
        raise Refused(
            f"{card.folder} of {node} has no {start}, so its firmware takes all files from the root of the TFTP "
            f"server, not from this folder: put {start} and its fixup file there"
        )
    if not card.writable or "ro" in card.options:
        raise Refused(f"{card.folder} of {node} is mounted read-only, so pinet cannot write boot files there")
    _check_firmware(card, report, model, node)
    config = evaluate(card.text, model)
    _check_config(card, report, config, node)
    names, kernel = _running_kernel(card, report, config, read, node)
    cmdline = card.text(names.cmdline)
    if cmdline is None:
        raise Refused(f"{card.folder} of {node} has no {names.cmdline}, which the kernel's command line comes from")
    _check_cmdline(cmdline, report.cmdline, names.cmdline, node)
    prefix = names.prefix
    overlays = config.settings.get("overlay_prefix", "overlays/")
    shared = next((place for place in (prefix + overlays, overlays) if card.exists(f"{place}README")), None)
    trees = tuple(
        name for name in card.files if name.startswith(prefix) and _is_tree(name.removeprefix(prefix), config)
    )
    return KnownGood(names, kernel, cmdline, trees, shared)


def _is_tree(name: str, config: ConfigTxt) -> bool:
    """Return whether a file is a device tree: in the folder itself, or where the setting device_tree names it."""
    return name.endswith(".dtb") and ("/" not in name or name == config.settings.get("device_tree"))


def _check_partition(card: Card, report: BootReport, node: str) -> None:
    if not card.device:
        raise Refused(
            f"{card.folder} of {node} is not a mounted partition, so the firmware does not read it: "
            "mount the boot partition there (/etc/fstab)"
        )
    if card.kind in _VOLATILE:
        raise Refused(
            f"{card.folder} of {node} is in memory ({card.kind}), so its firmware never sees what is written there: "
            "switch the overlay file system off (raspi-config)"
        )
    # Some EEPROMs of a Pi 5 of before 2024-05 report partition 0 by mistake (rpi-eeprom issue 575).
    if card.partition and report.partition and card.partition != report.partition:
        raise Refused(
            f"the firmware of {node} booted from partition {report.partition}, and {card.folder} is {card.device}: "
            "mount the partition that the firmware reads"
        )


def _check_boot_mode(card: Card, report: BootReport, node: str, on_board: bool) -> None:
    """Check that the firmware booted from the kind of device that has the folder, as SD cards and SSDs may be alike."""
    booted, device = _BOOT_MODES.get(report.boot_mode or 0), card.device.removeprefix("/dev/")
    there = next((kind for name, kind in _DEVICES.items() if device.startswith(name)), None)
    there = there if on_board else _NETWORK
    if booted and there and booted != there:
        where = f"{card.folder} is on {card.device}" if on_board else f"the lab names a TFTP server ({card.folder})"
        act = (
            "mount the partition that the firmware reads" if on_board else "remove TFTPProviderDriver from the lab file"
        )
        raise Refused(f"the firmware of {node} booted from {booted}, and {where}: {act}")


def _check_firmware(card: Card, report: BootReport, model: PiModel, node: str) -> None:
    autoboot = {AUTOBOOT: card.autoboot or card.text(AUTOBOOT)}.get
    normal, trial = (evaluate(autoboot, model, AUTOBOOT, tryboot=flag).settings for flag in (False, True))
    if "1" in (normal.get("tryboot_a_b"), trial.get("tryboot_a_b")):
        raise Refused(
            f"{node} boots by an A/B scheme (tryboot_a_b=1 in {AUTOBOOT}), which never reads {TRYBOOT}: "
            "use an SD mux or TFTP, or another image"
        )
    if normal.get("boot_partition") != trial.get("boot_partition"):
        raise Refused(
            f"{AUTOBOOT} of {node} makes a trial boot use partition {trial.get('boot_partition')}, and {card.folder} is"
            f" another one: remove the section [tryboot] from {AUTOBOOT}"
        )
    plain = normal.get("boot_partition")
    if card.partition and plain not in (None, "0", str(card.partition)):
        raise Refused(
            f"{AUTOBOOT} of {node} makes a plain boot use partition {plain}, and {card.folder} is {card.device}: "
            f"reboot {node} first"
        )
    tried = card.text(TRYBOOT)
    if tried is not None and HEADER not in tried:
        raise Refused(
            f"{card.folder} of {node} has a {TRYBOOT} of another tool: delete it if that tool no longer needs it"
        )
    if report.capabilities is not None:
        too_old = not report.capabilities & _TRYBOOT_CAPABILITY
    else:
        too_old = report.build_timestamp is not None and report.build_timestamp < TRYBOOT_SINCE
    if too_old:
        raise Refused(f"the boot EEPROM of {node} is too old for a trial boot (tryboot): update it (rpi-eeprom-update)")
    built = None if report.capabilities or report.build_timestamp else firmware_date(report.firmware)
    if built is not None and built < _START_ELF_SINCE:
        raise Refused(
            f"the firmware of {node} (start.elf of {built}) is too old for a trial boot (tryboot): update it "
            "(apt full-upgrade)"
        )


def firmware_date(version: str) -> date | None:
    """Return the date in the output of ``vcgencmd version``; None if its first line is no date of start.elf."""
    found = re.match(r"([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d{4}) \d\d:", version)
    if found is None:
        return None
    try:
        return datetime.strptime(" ".join(found.groups()), "%b %d %Y").date()
    except ValueError:
        return None


def _check_config(card: Card, report: BootReport, config: ConfigTxt, node: str) -> None:
    appended = active_lines({CONFIG: report.appended}.get, config.model, CONFIG, tryboot=True)
    if line := next((line for line in appended if _PLACES.match(line)), None):
        raise Refused(
            f"the boot EEPROM of {node} appends '{line}' to {CONFIG} and to {TRYBOOT}, so a build would boot with "
            "other files: remove the line there (rpi-eeprom-config --edit)"
        )
    if config.settings.get("boot_ramdisk") == "1":
        raise Refused(f"{node} boots from a RAM disk (boot_ramdisk=1), so its firmware reads no files of {card.folder}")
    stub = config.settings.get("armstub", "")
    if stub.lower().endswith("efi.fd"):
        raise Refused(f"the firmware of {node} starts UEFI ({stub}), not Linux: deploy by its own means")
    if config.model.is_pi5:
        # The documentation says that the EEPROM does not support include. So it must not matter whether it does.
        plain = [line for line in (card.text(CONFIG) or "").splitlines() if not line.startswith("include")]
        without = evaluate({**card.texts, CONFIG: "\n".join(plain)}.get, config.model)
        if without.files(card.exists) != config.files(card.exists):
            raise Refused(
                f"{CONFIG} of {node} names boot files in an included file, and a Pi 5 may ignore includes: "
                f"move these lines to {CONFIG}"
            )


def _running_kernel(
    card: Card, report: BootReport, config: ConfigTxt, read: ReadKernel, node: str
) -> tuple[BootFileNames, KernelId]:
    """Return the boot whose kernel file is the kernel that runs. Raises Refused."""
    boots = _logged_boots(card, report, config, node) or config.files(card.exists)
    if not boots:
        expected = " or ".join(config.possible_kernels())
        raise Refused(f"{card.folder} of {node} has no kernel: {CONFIG} needs {expected}")
    different: list[str] = []
    for boot in boots:
        try:
            kernel = read(boot.kernel)
        except Loader as loader:
            raise Refused(
                f"the firmware of {node} starts {loader} ({boot.kernel}), not Linux: deploy by its own means"
            ) from None
        except Unreadable as why:
            raise Refused(f"{boot.kernel} of {node} is not a kernel that pinet can identify: {why}") from None
        if not kernel.release:
            raise Refused(
                f"{boot.kernel} of {node} is compressed in a way that pinet cannot unpack (lz4 or lzo), so it cannot be"
                f" compared with the running kernel: boot a kernel that is compressed by gzip or xz on {node} first"
            )
        if _is_running(kernel, report):
            return boot, kernel
        different.append(f"{boot.kernel} ({kernel.release or kernel.arch})")
    running = report.version.split()[2] if len(report.version.split()) > 2 else "another kernel"
    raise Refused(
        f"{' and '.join(different)} in {card.folder} is not the kernel that {node} runs ({running}): "
        f"after an upgrade, reboot {node} first"
    )


def _logged_boots(card: Card, report: BootReport, config: ConfigTxt, node: str) -> tuple[BootFileNames, ...]:
    """Return the boots with the files of the firmware's log, which decides; none if it names no file of the card.

    Raises Refused if the log contradicts config.txt.
    """
    there = [name for name in report.loaded if card.exists(name)]
    boots = [boot for boot in config.files(card.exists) if boot.kernel in there]
    if not boots:
        kernels = [name for name in there if not _is_initramfs(name, config)]
        if kernels and not {"kernel", "arm_64bit"}.isdisjoint(config.settings):
            expected = " or ".join(config.possible_kernels())
            raise Refused(
                f"the firmware of {node} loaded {' and '.join(kernels)}, but {CONFIG} names {expected}: if {CONFIG} was"
                f" edited, reboot {node} first, else look for [config.txt] in its boot EEPROM (rpi-eeprom-config)"
            )
        # Without such a line, the name depends on the age of the firmware.
        names = [name.removeprefix(config.settings.get("os_prefix", "")) for name in kernels]
        boots = [boot for boot in config.files(card.exists, kernels=names) if boot.kernel in there]
    # A log without initramfs may be incomplete.
    loaded = [tuple(name for name in there if name != boot.kernel) or boot.initramfs for boot in boots]
    return tuple(replace(boot, initramfs=names) for boot, names in zip(boots, loaded, strict=True))


def _is_initramfs(name: str, config: ConfigTxt) -> bool:
    own = name.rpartition("/")[2]
    return own.startswith(("initramfs", "initrd")) or name in config.ramdisks or own in config.ramdisks


def _is_running(kernel: KernelId, report: BootReport) -> bool:
    if kernel.build_ids and report.build_id:
        return report.build_id in kernel.build_ids
    return kernel.version.split() == report.version.split()


def _check_cmdline(text: str, running: str, name: str, node: str) -> None:
    """Check that the kernel got the words of this file. Raises Refused.

    The firmware adds words, names the serial console, and replaces some words of its own.
    """
    there, words = running.split(), first_line(text).split()
    accepted = [_as_started(word) for word in words]
    # A line may have several words with one key (console=): a word of the kernel that belongs to another is no change.
    foreign = [one for one in there if not any(one in names for names in accepted)]
    for number, word in enumerate(words):
        if any(one in there for one in accepted[number]):
            continue
        key = word.partition("=")[0]
        changed = next((one for one in foreign if one.partition("=")[0] == key != one), None)
        if changed is not None and _OF_FIRMWARE.fullmatch(key):
            continue
        # The end of the line is missing: the last word is cut, or the line has the length that fits.
        cut = bool(there) and word.startswith(there[-1]) and not _holds(there, words[number:])
        if cut or (len(running) >= _SHORTEST_CUT and not _holds(there, words[number:])):
            raise Refused(
                f"the kernel of {node} got only the beginning of {name}, up to '{there[-1]}' ({len(running)} characters"
                f" of its command line): its firmware or boot loader cuts the rest, and with it the words of a build; "
                f"shorten {name}"
            )
        if changed is not None:
            raise Refused(
                f"{name} of {node} has '{word}', and its kernel was started with '{changed}': if {name} was edited, "
                f"reboot {node} first; if its firmware or boot loader changes this word, write '{changed}' in {name}"
            )
        raise Refused(
            f"the kernel of {node} was not started with '{word}' of {name}: if {name} was edited, reboot {node} first; "
            f"if its firmware or boot loader removes this word, delete it in {name}"
        )


def _as_started(word: str) -> tuple[str, ...]:
    """Return this word of cmdline.txt, and the words that the firmware may make of it."""
    console = _CONSOLE.fullmatch(word)
    return (word, *(f"console={device}{console[1]}" for device in _SERIAL_DEVICES)) if console else (word,)


def _holds(there: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the kernel got one of these words."""
    return any(word in there for word in words)


def folder_of(build: Build) -> str:
    """Return the folder of a build's files, relative to the folder from which the firmware boots."""
    return f"{OURS}/{build.key}"


def kernel_name(known: KnownGood, build: Build) -> str:
    """Return the name of the build's kernel in its folder. The firmware concludes the processor's mode from some names.

    Therefore a shared kernel keeps its name, and a new kernel gets a neutral one.
    """
    return KERNEL if build.of(BuildFileRole.KERNEL) else known.names.kernel.rpartition("/")[2]


def tryboot_text(
    card: Card,
    model: PiModel,
    known: KnownGood,
    build: Build,
    initramfs: tuple[str, ...],
    more: BootLines = NO_LINES,
) -> str:
    """Return config.txt with this build's files in place of the known-good ones, and with the lines of boot settings.

    ``initramfs`` are names in its folder.
    """
    lines = [f"os_prefix={folder_of(build)}/", f"kernel={kernel_name(known, build)}", f"cmdline={CMDLINE}"]
    lines += [f"initramfs {','.join(initramfs)} followkernel"] if initramfs else []
    if not model.is_pi5:
        lines.append(f"arm_64bit={int((build.kernel or known.kernel).arch == 'arm64')}")
    # The lines of a build may end in a section of one model.
    tuned = ["[all]", *more.config] if more.config else []
    return "\n".join([HEADER, *_kept_lines(card, model), "", "[all]", *lines, *build.config, *tuned, ""])


def _kept_lines(card: Card, model: PiModel) -> Iterator[str]:
    """Return the lines of config.txt that do not name files, without the sections that hold only in a trial boot."""
    in_tryboot = False
    for line in with_includes(card.text, CONFIG, follow=not model.is_pi5):
        if _SECTION.fullmatch(line):
            in_tryboot = line == "[tryboot]" or (in_tryboot and line != "[all]")
        if not in_tryboot and not _PLACES.match(line):
            yield line


def cmdline_text(known: KnownGood, build: Build, tuned: BootLines = NO_LINES) -> str:
    """Return the known-good build's command line, with this build's additions, the boot settings, and its mark."""
    words = first_line(known.cmdline).split()
    firmware = [f"firmware_class.path={firmware_folder(build)}"] if build.of(BuildFileRole.FIRMWARE) else []
    more = [PANIC_WORD, *build.cmdline, *build.option_words, *firmware, *tuned.cmdline, f"{MARKER}={build.key}"]
    return " ".join([*words, *(word for word in more if word not in words)]) + "\n"


def firmware_folder(build: Build) -> str:
    """Return the folder of a build's driver firmware on the board's root file system.

    The known-good firmware is unchanged.
    """
    return f"/var/lib/{OURS}/{build.key}/firmware"
