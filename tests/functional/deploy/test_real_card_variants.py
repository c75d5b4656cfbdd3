"""What people do to their cards: sections, includes, upgrades, other tools, file systems that do not keep files.

Sources of the expected values: tests/data/cards/README.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.tuning.setting import NO_LINES
from tests.support import build_files as made
from tests.support.boot_cards import MAILBOX, Setup, build_of, card_names, document
from tests.support.trial_files import Builds, expected_tryboot, refusal, tryboot

pytestmark = [pytest.mark.real_cards, pytest.mark.usefixtures("_cards_cache")]

PI_OS, PI_OS_32, BULLSEYE = "raspberry-pi-os-trixie-64", "raspberry-pi-os-trixie-32", "raspberry-pi-os-bullseye-32"
# The form of ``vcgencmd version`` in raspberrypi/firmware issue 1407.
START_ELF = "{} 15:14:40 \nCopyright (c) 2012 Broadcom\nversion 8a6e2f16 (clean) (release) (start)"
READ_ONLY = "/dev/mmcblk0p1 FOLDER vfat ro,relatime 0 0"
NVME = "/dev/nvme0n1p1 FOLDER vfat rw,relatime 0 0"
USB = "/dev/sda1 FOLDER vfat rw,relatime 0 0"
Change = Callable[[Setup], None]


def config(more: str, kept: str = "", files: dict[str, str | int] | None = None) -> Change:
    """Add lines to config.txt, and files. ``kept`` are the lines that tryboot.txt keeps."""

    def change(setup: Setup) -> None:
        setup.texts["config.txt"] += more
        setup.document["kept"] += kept
        setup.files |= files or {}

    return change


def text(name: str, content: str) -> Change:
    def change(setup: Setup) -> None:
        setup.texts[name] = content

    return change


def several(*changes: Change) -> Change:
    def change(setup: Setup) -> None:
        for one in changes:
            one(setup)

    return change


def log(*lines: str) -> Change:
    """Set the firmware's log, in the format that ``vclog --msg`` prints."""

    def change(setup: Setup) -> None:
        setup.log = "\n".join(lines)

    return change


def attribute(name: str, value: object) -> Change:
    return lambda setup: setattr(setup, name, value)


def eeprom(**values: int | None) -> Change:
    """Set values of chosen/bootloader; None removes one."""

    def change(setup: Setup) -> None:
        new = {**setup.bootloader, **{name.replace("_", "-"): value for name, value in values.items()}}
        setup.bootloader = {name: value for name, value in new.items() if value is not None}

    return change


def unchanged(setup: Setup) -> None:
    pass


def crlf(setup: Setup) -> None:
    setup.texts["config.txt"] = setup.texts["config.txt"].replace("\n", "\r\n")


def without(name: str) -> Change:
    def change(setup: Setup) -> None:
        setup.texts.pop(name, None)
        setup.files.pop(name, None)

    return change


def renamed_cmdline(setup: Setup) -> None:
    config("cmdline=linux.args\n")(setup)
    setup.texts["linux.args"] = setup.texts["cmdline.txt"]
    setup.texts["cmdline.txt"] += " not.used=1"
    setup.document["runs_cmdline"] = setup.texts["linux.args"].replace("console=serial0", "console=ttyS0")


def booted_with(old: str, new: str) -> Change:
    """Change the command line that the kernel got, and not cmdline.txt."""

    def change(setup: Setup) -> None:
        setup.document["runs_cmdline"] = setup.cmdline.replace(old, new)

    return change


def netboot_without_start(setup: Setup) -> None:
    setup.files.pop("start4.elf")


def in_folder(prefix: str, folder: str) -> Change:
    """Put the known-good files into a folder, as tools for updates do."""

    def change(setup: Setup) -> None:
        own: dict[str, str | int] = {
            f"{folder}/kernel8.img": "Image-rpi-v8",
            f"{folder}/initramfs8": 900,
            f"{folder}/bcm2711-rpi-4-b.dtb": 9,
        }
        config(f"os_prefix={prefix}\n", files=own)(setup)
        setup.texts[f"{folder}/cmdline.txt"] = setup.texts["cmdline.txt"]
        setup.texts["cmdline.txt"] = "root=/dev/gone\n"
        words = setup.texts[f"{folder}/cmdline.txt"]
        setup.document["runs_cmdline"] = words.replace("console=serial0", "console=ttyS0")

    return change


# The lines of a Pi 4 are from raspberrypi/linux issue 3602, the lines of a Pi 5 from its serial console.
PI4_LOG = log(
    "004510.857: Loading 'bcm2711-rpi-4-b.dtb' to 0x100 size 0xb4ac",
    "005305.932: Loaded overlay 'vc4-kms-v3d'",
    "005659.373: Read command line from file 'cmdline.txt':",
    "007900.456: brfs: File read: /mfs/sd/initramfs8",
    "007900.460: Loaded 'initramfs8' to 0x2e74f000 size 0xb90aa7",
    "007900.493: Loading 'kernel8.img' to 0x80000 size 0x1a5da00",
    "007900.540: Device tree loaded to 0x2eff4500 (size 0xba75)",
)
PI5_LOG = (
    "6.07 Loading 'initramfs_2712' to 0x00000000 offset 0x0",
    "7.22 MESS:00:00:07.222527:0: initramfs (initramfs_2712) loaded to 0x2da85000 (size 0x157aff0)",
    "7.23 MESS:00:00:07.232905:0: dtb_file 'bcm2712-rpi-5-b.dtb'",
    "7.23 Loading 'bcm2712-rpi-5-b.dtb' to 0x00000000 offset 0x100",
    "7.43 MESS:00:00:07.435117:0: Loaded overlay 'vc4-kms-v3d-pi5'",
    "7.85 Loading 'armstub8-2712.bin' to 0x00000000 offset 0x0",
)


ACCEPTED = [
    ("a section of another model", PI_OS, "pi4b", config("[pi3]\nkernel=x.img\n[all]\n", "[pi3]\n[all]\n"), {}),
    ("an undefined filter applies", PI_OS, "pi4b",
     config("[rpi4]\nkernel=mine.img\n[all]\n", "[rpi4]\n[all]\n", files={"mine.img": "Image-rpi-v8"}),
     {"kernel": "mine.img", "initramfs": None}),
    ("blanks around the equals sign", PI_OS, "pi4b", config("kernel = gone.img\n", "kernel = gone.img\n"), {}),
    ("an included file that is missing", PI_OS, "pi4b", config("include gone.txt\n"), {}),
    ("an included file with a section", PI_OS, "pi4b",
     several(config("include more.txt\n", "[pi4]\ngpu_mem=64\n"), text("more.txt", "# more\n[pi4]\ngpu_mem=64\n")), {}),
    ("included files of any name, in each other", PI_OS, "pi4b",
     several(config("include more.cfg\n", "gpu_mem=64\n[pi4]\n"), text("more.cfg", "gpu_mem=64\ninclude dir/last\n"),
             text("dir/last", "[pi4]\n")), {}),
    ("an included kernel in a file of any name", PI_OS, "pi4b",
     several(config("include more.cfg\n", files={"mine.img": "Image-rpi-v8"}), text("more.cfg", "kernel=mine.img\n")),
     {"kernel": "mine.img", "initramfs": None}),
    ("a command line in a file of any name", PI_OS, "pi4b", renamed_cmdline, {}),
    ("an included file on a Pi 5 that names no boot files", PI_OS, "pi5",
     several(config("include more.cfg\n", "include more.cfg\n"), text("more.cfg", "dtparam=eee=off\n")), {}),
    ("boot from an SD card", PI_OS, "pi4b", eeprom(boot_mode=1), {}),
    ("boot from NVMe", PI_OS, "pi5", several(eeprom(boot_mode=6), attribute("mount", NVME)), {}),
    ("boot from a USB stick", PI_OS, "pi4b", several(eeprom(boot_mode=4), attribute("mount", USB)), {}),
    ("boot from the network", "netboot", "pi4b", eeprom(boot_mode=2), {}),
    ("sections of a trial boot are dropped", PI_OS, "pi4b",
     config("[tryboot]\nos_prefix=new/\n[pi4]\ngpu_mem=16\n[all]\ngpu_mem=32\n", "[all]\ngpu_mem=32\n"), {}),
    ("two initramfs files", PI_OS, "pi4b",
     config("initramfs initramfs8,extra.cpio followkernel\n", files={"extra.cpio": 4096}),
     {"initramfs": "initramfs8,extra.cpio"}),
    ("an initramfs with an address", PI_OS, "pi4b", config("initramfs initramfs_2712 0x08000000\n"),
     {"initramfs": "initramfs_2712"}),
    ("ramfsfile and ramfsaddr", PI_OS, "pi4b", config("ramfsfile=initramfs8\nramfsaddr=-1\n"), {}),
    ("auto_initramfs is off", PI_OS, "pi4b", config("auto_initramfs=0\n"), {"initramfs": None}),
    ("the partition of this boot", PI_OS, "pi4b",
     config("[boot_partition=1]\nkernel=mine.img\n[boot_partition=2]\nkernel=gone.img\n[all]\n",
            "[boot_partition=1]\n[boot_partition=2]\n[all]\n", files={"mine.img": "Image-rpi-v8"}),
     {"kernel": "mine.img", "initramfs": None}),
    ("a pin and a display", PI_OS, "pi4b",
     config("[gpio4=1]\nkernel=x\n[all]\n[EDID=VSC-TD2220]\nkernel=x\n[all]\n",
            "[gpio4=1]\n[all]\n[EDID=VSC-TD2220]\n[all]\n"), {}),
    ("the section pi5 on a Pi 5", PI_OS, "pi5",
     several(config("[pi5]\nkernel=kernel8.img\n[all]\n", "[pi5]\n[all]\n"), attribute("runs", "Image-rpi-v8")),
     {"kernel": "kernel8.img", "initramfs": "initramfs8"}),
    ("the section cm4 after pi4 on a CM4", PI_OS, "cm4",
     config("[pi4]\nkernel=first.img\n[cm4]\nkernel=last.img\n[all]\n", "[pi4]\n[cm4]\n[all]\n",
            files={"first.img": "Image-rpi-2712", "last.img": "Image-rpi-v8"}),
     {"kernel": "last.img", "initramfs": None}),
    ("the section cm4 after pi4 on a Pi 4", PI_OS, "pi4b",
     config("[pi4]\nkernel=first.img\n[cm4]\nkernel=last.img\n[all]\n", "[pi4]\n[cm4]\n[all]\n",
            files={"first.img": "Image-rpi-v8", "last.img": "Image-rpi-2712"}),
     {"kernel": "first.img", "initramfs": None}),
    ("the folder of another tool", PI_OS, "pi4b", in_folder("tool/v1/", "tool/v1"), {}),
    # raspberrypi/linux issue 7319
    ("the folder of another tool, by its whole path", PI_OS, "pi4b", in_folder("/new//", "new"), {}),
    # raspberrypi/firmware issue 1575
    ("a word that the firmware changes", PI_OS, "pi4b",
     several(lambda setup: setup.texts.update({"cmdline.txt": f"8250.nr_uarts=1 {setup.texts['cmdline.txt']}"}),
             booted_with("8250.nr_uarts=1", "8250.nr_uarts=0")), {}),
    ("line ends of DOS", PI_OS, "pi4b", crlf, {}),
    ("a device tree in a folder", PI_OS, "pi4b",
     config("device_tree=dt/mine.dtb\n", "device_tree=dt/mine.dtb\n", files={"dt/mine.dtb": 50000}), {}),
    ("an os_prefix without a device tree is ignored", PI_OS, "pi4b",
     config("os_prefix=old/\n", files={"old/kernel8.img": "Image-rpi-2712"}), {}),
    ("the log of a Pi 4 names a device tree, too", PI_OS, "pi4b", PI4_LOG, {}),
    ("the log of a Pi 5 names a device tree and a stub, too", PI_OS, "pi5",
     log(*PI5_LOG, "7.86 Loading 'kernel_2712.img' to 0x00000000 offset 0x200000"), {}),
    # raspberrypi/firmware issue 1965: EEPROMs of before 2025-05-08 pair kernel8.img with initramfs_2712.
    ("the log names another initramfs than the documentation", PI_OS, "pi5",
     several(config("kernel=kernel8.img\n"), attribute("runs", "Image-rpi-v8"),
             log(*PI5_LOG, "7.86 Loading 'kernel8.img' to 0x00000000 offset 0x200000")),
     {"kernel": "kernel8.img", "initramfs": "initramfs_2712"}),
    ("the log decides for kernel7l.img", BULLSEYE, "pi4b",
     log("007900.493: Loading 'kernel7l.img' to 0x8000 size 0x5b1628"), {}),
    ("the log decides for kernel8.img", BULLSEYE, "pi4b/new-firmware",
     log("007900.493: Loading 'kernel8.img' to 0x80000 size 0x5b1628"), {}),
    ("the log names a kernel that no line names", PI_OS_32, "pi3b",
     several(attribute("runs", "Image-rpi-v8"), log("007900.493: Loading 'kernel8.img' to 0x80000 size 0x5b1628")),
     {"kernel": "kernel8.img", "initramfs": "initramfs8", "mode": 1}),
    # EEPROMs of a Pi 5 of 2025-12-08 to 2026-06-28 look for the initramfs in the wrong place (rpi-eeprom).
    ("the log has another initramfs below a prefix", "home-assistant-os-pi5", "pi5",
     several(config("", files={"slot-A/initramfs_2712": 900, "slot-A/initramfs8": 900}),
             log("7.1 Loading '/slot-A//initramfs8' to 0x0 offset 0x0",
                 "7.2 Loading '/slot-A//kernel_2712.img' to 0x0 offset 0x200000")),
     {"kernel": "kernel_2712.img", "initramfs": "initramfs8"}),
    ("a tryboot.txt of ours", PI_OS, "pi4b",
     text("tryboot.txt", "# By pytest-pinet: boots a build under test once; every other boot uses config.txt\n"), {}),
    ("an EEPROM that appends settings, and a kernel for another model", PI_OS, "pi4b",
     attribute("appended", "[config.txt]\ndtparam=audio=off\n[pi5]\nkernel=mine.img\n"), {}),
    ("an EEPROM that reports only its time", PI_OS, "pi4b", eeprom(capabilities=None), {}),
    # raspberrypi/rpi-eeprom issue 575
    ("a Pi 5 that reports partition 0", PI_OS, "pi5", eeprom(partition=0), {}),
    ("an autoboot.txt without a trial partition", PI_OS, "pi4b", text("autoboot.txt", "[all]\nboot_partition=1\n"), {}),
    ("busybox and vcmailbox", PI_OS_32, "pi3b", attribute("arming", "busybox"), {}),
    ("a start.elf that knows tryboot", PI_OS_32, "pi3b", attribute("firmware", START_ELF.format("Dec  1 2020")), {}),
    ("systemd without vcmailbox", PI_OS_32, "pi0w", attribute("arming", "systemd"), {}),
    ("a root file system in memory, and no modules", PI_OS, "pi4b",
     attribute("root", "overlayroot / overlay rw,relatime,lowerdir=/ro,upperdir=/rw/up,workdir=/rw/work 0 0"), {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("card", "board", "change", "differs"), [case[1:] for case in ACCEPTED], ids=[case[0] for case in ACCEPTED]
)
def test_a_changed_card_boots_copies_of_the_files_that_run(
    card: str,
    board: str,
    change: Change,
    differs: dict[str, str | None],
    tmp_path: Path,
    made_build: Builds,
) -> None:
    setup = Setup(card, board)
    change(setup)
    wanted = {**setup.expected, **differs}
    expected = expected_tryboot(setup, made_build(), wanted["kernel"], wanted.get("initramfs"), wanted.get("mode"))
    assert tryboot(setup.boot(tmp_path), made_build()) == expected


REFUSED = [
    ("a kernel that was upgraded and not booted", PI_OS, "pi4b", config("", files={"kernel8.img": "Image-rpi-2712"}),
     "kernel8.img (6.1.192-rpi-2712) in FOLDER is not the kernel that NODE runs (6.1.192-rpi-v8): after an upgrade, "
     "reboot NODE first"),
    ("a kernel that was chosen and not booted", PI_OS, "pi5", config("kernel=kernel8.img\n"),
     "kernel8.img (6.1.192-rpi-v8) in FOLDER is not the kernel that NODE runs (6.1.192-rpi-2712): after an upgrade, "
     "reboot NODE first"),
    ("a log that contradicts the running kernel", BULLSEYE, "pi4b",
     log("007900.493: Loading 'kernel8.img' to 0x80000 size 0x5b1628"),
     "kernel8.img (6.1.192-rpi-v8) in FOLDER is not the kernel that NODE runs (6.1.192-rpi-v7l): after an upgrade, "
     "reboot NODE first"),
    ("a kernel that was named after the boot, and is the same", PI_OS, "pi4b",
     several(config("kernel=mine.img\n", files={"mine.img": "Image-rpi-v8"}), PI4_LOG),
     "the firmware of NODE loaded kernel8.img, but config.txt names mine.img: if config.txt was edited, reboot NODE "
     "first, else look for [config.txt] in its boot EEPROM (rpi-eeprom-config)"),
    ("a kernel that only the log names, although config.txt chooses the mode", PI_OS, "pi4b",
     several(config("", files={"old.img": "Image-rpi-v8"}), log("007900.493: Loading 'old.img' to 0x80000 size 0x5b1")),
     "the firmware of NODE loaded old.img, but config.txt names kernel8.img: if config.txt was edited, reboot NODE "
     "first, else look for [config.txt] in its boot EEPROM (rpi-eeprom-config)"),
    ("overlayroot", PI_OS, "pi4b", attribute("mount", "overlayroot FOLDER overlay rw,relatime,lowerdir=/media/ro 0 0"),
     "FOLDER of NODE is in memory (overlay), so its firmware never sees what is written there: switch the overlay file "
     "system off (raspi-config)"),
    ("a boot partition that is not mounted", PI_OS, "pi4b", attribute("mount", ""),
     "FOLDER of NODE is not a mounted partition, so the firmware does not read it: mount the boot partition there "
     "(/etc/fstab)"),
    ("another partition", PI_OS, "pi4b", eeprom(partition=2),
     "the firmware of NODE booted from partition 2, and FOLDER is /dev/mmcblk0p1: mount the partition that the "
     "firmware reads"),
    ("an SD card with the same partitions as the SSD that booted", PI_OS, "pi5", eeprom(boot_mode=6),
     "the firmware of NODE booted from NVMe, and FOLDER is on /dev/mmcblk0p1: mount the partition that the firmware "
     "reads"),
    ("an SSD with the same partitions as the SD card that booted", PI_OS, "pi5",
     several(eeprom(boot_mode=1), attribute("mount", NVME)),
     "the firmware of NODE booted from an SD card, and FOLDER is on /dev/nvme0n1p1: mount the partition that the "
     "firmware reads"),
    ("an SD card, although the firmware booted from the network", PI_OS, "pi4b", eeprom(boot_mode=2),
     "the firmware of NODE booted from the network, and FOLDER is on /dev/mmcblk0p1: mount the partition that the "
     "firmware reads"),
    ("a TFTP server, although the firmware booted from an SD card", "netboot", "pi4b", eeprom(boot_mode=1),
     "the firmware of NODE booted from an SD card, and the lab names a TFTP server (FOLDER): remove TFTPProviderDriver "
     "from the lab file"),
    ("a boot partition that is read-only", PI_OS, "pi4b", attribute("mount", READ_ONLY),
     "FOLDER of NODE is mounted read-only, so pinet cannot write boot files there"),
    ("the card of Alpine without an installation", "alpine-3.22", "pi4b",
     attribute("mount", READ_ONLY),
     "FOLDER of NODE is mounted read-only, so pinet cannot write boot files there"),
    ("a tryboot.txt of another tool", PI_OS, "pi4b", text("tryboot.txt", "kernel=theirs.img\n"),
     "FOLDER of NODE has a tryboot.txt of another tool: delete it if that tool no longer needs it"),
    ("a slot of Home Assistant that is not yet marked good", "home-assistant-os-pi5", "pi5",
     text("tryboot.txt", "os_prefix=slot-B/\ncmdline=/cmdline-tryboot.txt\n"),
     "FOLDER of NODE has a tryboot.txt of another tool: delete it if that tool no longer needs it"),
    ("an EEPROM without tryboot", PI_OS, "pi4b", eeprom(capabilities=0x77),
     "the boot EEPROM of NODE is too old for a trial boot (tryboot): update it (rpi-eeprom-update)"),
    ("an EEPROM of 2020-09-03", PI_OS, "pi4b", eeprom(capabilities=None, build_timestamp=1599135103),
     "the boot EEPROM of NODE is too old for a trial boot (tryboot): update it (rpi-eeprom-update)"),
    ("a start.elf of before tryboot", PI_OS_32, "pi3b", attribute("firmware", START_ELF.format("Aug 19 2020")),
     "the firmware of NODE (start.elf of 2020-08-19) is too old for a trial boot (tryboot): update it "
     "(apt full-upgrade)"),
    ("an EEPROM that appends a prefix", PI_OS, "pi4b",
     attribute("appended", "[config.txt]\n[pi4]\nos_prefix=old/\n"),
     "the boot EEPROM of NODE appends 'os_prefix=old/' to config.txt and to tryboot.txt, so a build would boot with "
     "other files: remove the line there (rpi-eeprom-config --edit)"),
    ("boot_ramdisk", PI_OS, "pi4b", config("boot_ramdisk=1\n"),
     "NODE boots from a RAM disk (boot_ramdisk=1), so its firmware reads no files of FOLDER"),
    ("a mainline kernel", PI_OS, "pi4b", attribute("arming", "none"),
     "the known-good kernel of NODE is mainline, so it cannot ask the firmware for a trial boot (no /dev/vcio): boot a "
     "kernel of Raspberry Pi first"),
    ("neither vcmailbox nor systemd", PI_OS_32, "pi3b", attribute("arming", "init"),
     "NODE has neither vcmailbox nor systemd to ask for a trial boot: install raspi-utils there"),
    ("a kernel that kexec has loaded", PI_OS, "pi4b", attribute("instead", "kexec"),
     "NODE has a kernel that kexec has loaded, and a reboot may start it instead of the firmware: unload it "
     "(kexec -u)"),
    ("a system for a soft reboot", PI_OS, "pi4b", attribute("instead", "nextroot"),
     "NODE has a system mounted at /run/nextroot, and a reboot would start it instead of the firmware: unmount it"),
    ("UEFI", PI_OS, "pi4b", config("armstub=RPI_EFI.fd\n"),
     "the firmware of NODE starts UEFI (RPI_EFI.fd), not Linux: deploy by its own means"),
    ("autoboot.txt with a trial partition", PI_OS, "pi4b",
     text("autoboot.txt", "[all]\nboot_partition=1\n[tryboot]\nboot_partition=3\n"),
     "autoboot.txt of NODE makes a trial boot use partition 3, and FOLDER is another one: remove the section [tryboot] "
     "from autoboot.txt"),
    ("autoboot.txt with A/B", PI_OS, "pi4b", text("autoboot.txt", "[all]\ntryboot_a_b=1\nboot_partition=1\n"),
     "NODE boots by an A/B scheme (tryboot_a_b=1 in autoboot.txt), which never reads tryboot.txt: use an SD mux or "
     "TFTP, or another image"),
    ("a kernel that cannot be unpacked", BULLSEYE, "pi3b",
     several(config("", files={"kernel7.img": "zImage-lz4"}), attribute("runs", "zImage-lz4")),
     "kernel7.img of NODE is compressed in a way that pinet cannot unpack (lz4 or lzo), so it cannot be compared with "
     "the running kernel: boot a kernel that is compressed by gzip or xz on NODE first"),
    ("a file that is no kernel", PI_OS, "pi4b", config("", files={"kernel8.img": 9000}),
     "kernel8.img of NODE is not a kernel that pinet can identify: it is not a kernel image; expected an arm64 Image "
     "(plain, gzip or EFI zboot) or a 32-bit arm zImage"),
    ("no kernel", PI_OS, "pi4b", config("arm_64bit=0\n"),
     "FOLDER of NODE has no kernel: config.txt needs kernel7l.img"),
    ("no cmdline.txt", PI_OS, "pi4b", without("cmdline.txt"),
     "FOLDER of NODE has no cmdline.txt, which the kernel's command line comes from"),
    ("a command line that the firmware cuts in a word", PI_OS, "pi4b", booted_with("rootwait", "rootw"),
     "the kernel of NODE got only the beginning of cmdline.txt, up to 'rootw' (192 characters of its command line): "
     "its firmware or boot loader cuts the rest, and with it the words of a build; shorten cmdline.txt"),
    ("a word that another loader changes", PI_OS, "pi4b", booted_with("rootfstype=ext4", "rootfstype=f2fs"),
     "cmdline.txt of NODE has 'rootfstype=ext4', and its kernel was started with 'rootfstype=f2fs': if cmdline.txt was "
     "edited, reboot NODE first; if its firmware or boot loader changes this word, write 'rootfstype=f2fs' in "
     "cmdline.txt"),
    ("one of two words with the same key that another loader removes", PI_OS, "pi4b",
     booted_with("console=ttyS0,115200 ", ""),
     "the kernel of NODE was not started with 'console=serial0,115200' of cmdline.txt: if cmdline.txt was edited, "
     "reboot NODE first; if its firmware or boot loader removes this word, delete it in cmdline.txt"),
    ("a netboot folder that the firmware leaves", "netboot", "pi4b", netboot_without_start,
     "FOLDER of NODE has no start4.elf, so its firmware takes all files from the root of the TFTP server, not from "
     "this folder: put start4.elf and its fixup file there"),
    ("an included kernel on a Pi 5", PI_OS, "pi5",
     several(config("include more.txt\n"), text("more.txt", "kernel=kernel8.img\n")),
     "config.txt of NODE names boot files in an included file, and a Pi 5 may ignore includes: move these lines to "
     "config.txt"),
    ("no space for the copies", PI_OS, "pi4b",
     # 11.3 MB and 0.7 MB, 14 device trees of 56 kB, and 2 MB to spare
     several(config("", files={"initramfs8": 11_300_000}), attribute("free", 5_000_000)),
     "build settings takes 15 MB, but FOLDER of NODE has only 5 MB left: delete files that are not needed there"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("card", "board", "change", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_changed_card_is_refused_with_a_sentence(
    card: str,
    board: str,
    change: Change,
    sentence: str,
    tmp_path: Path,
    made_build: Builds,
) -> None:
    setup = Setup(card, board)
    change(setup)
    assert refusal(setup.boot(tmp_path), made_build()) == sentence


def slot(number: int, autoboot: str | None, name: str = "autoboot.txt") -> Change:
    """Let the card be another partition than the first, which has this file; None: the first cannot be mounted."""

    def change(setup: Setup) -> None:
        eeprom(partition=number)(setup)
        setup.mount = setup.mount.replace("mmcblk0p1", f"mmcblk0p{number}")
        setup.first = None if autoboot is None else {name: autoboot}

    return change


A_B = "[all]\ntryboot_a_b=1\nboot_partition=2\n[tryboot]\nboot_partition=3\n"
IS_A_B = (
    "NODE boots by an A/B scheme (tryboot_a_b=1 in autoboot.txt), which never reads tryboot.txt: use an SD mux or "
    "TFTP, or another image"
)
TRIES_3 = (
    "autoboot.txt of NODE makes a trial boot use partition 3, and FOLDER is another one: remove the section [tryboot] "
    "from autoboot.txt"
)
SLOTS = [
    ("A/B", PI_OS, "pi4b", slot(2, A_B), IS_A_B),
    ("A/B, by a firmware that reports no partition", PI_OS, "pi3b",
     several(slot(2, A_B), eeprom(partition=None)), IS_A_B),
    ("A/B, by a Pi 5 that reports partition 0", PI_OS, "pi5", several(slot(2, A_B), eeprom(partition=0)), IS_A_B),
    ("a section tryboot without A/B", PI_OS, "pi4b",
     slot(2, "boot_partition=2\n[tryboot]\nboot_partition=3\n"), TRIES_3),
    ("a slot that only this boot uses", PI_OS, "pi4b", slot(3, "boot_partition=2\n"),
     "autoboot.txt of NODE makes a plain boot use partition 2, and FOLDER is /dev/mmcblk0p3: reboot NODE first"),
    ("a partition 1 that cannot be mounted", PI_OS, "pi4b", slot(2, None),
     "NODE boots from partition 2, and pinet cannot read autoboot.txt of partition 1 (/dev/mmcblk0p1), which may make "
     "a trial boot use another partition (REASON): mount that partition (mount -o ro /dev/mmcblk0p1 /mnt)"),
    ("a device without a number", PI_OS, "pi4b",
     several(slot(2, A_B), attribute("mount", "/dev/disk/by-label/boot FOLDER vfat rw 0 0")),
     "NODE boots from partition 2, and pinet cannot read autoboot.txt of partition 1, which may make a trial boot use "
     "another partition (/dev/disk/by-label/boot has no number of a partition): mount that partition"),
    ("the partition that runs", PI_OS, "pi4b", slot(2, "[all]\nboot_partition=2\n"), None),
    ("no autoboot.txt", PI_OS, "pi4b", slot(2, "start4.elf", "recovery.elf"), None),
]  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount needs root")
@pytest.mark.parametrize(
    ("card", "board", "change", "sentence"), [case[1:] for case in SLOTS], ids=[case[0] for case in SLOTS]
)
def test_autoboot_txt_of_partition_1_decides_if_another_partition_runs(
    card: str, board: str, change: Change, sentence: str | None, tmp_path: Path, made_build: Builds
) -> None:
    setup = Setup(card, board)
    change(setup)
    disk = setup.boot(tmp_path)
    if sentence is None:
        assert tryboot(disk, made_build()) == tryboot(Setup(card, board).boot(tmp_path / "usual"), made_build())
    else:
        assert re.fullmatch(re.escape(sentence).replace("REASON", ".+"), refusal(disk, made_build()))
    assert str(disk.folder) not in Path("/proc/self/mounts").read_text()


def test_a_cmdline_txt_that_was_edited_after_the_boot_is_refused(tmp_path: Path, made_build: Builds) -> None:
    disk = Setup(PI_OS, "pi4b").boot(tmp_path)
    path = disk.folder / "cmdline.txt"
    path.write_text(path.read_text().replace(" rootwait", " rootwait usbhid.mousepoll=0"))
    assert refusal(disk, made_build()) == (
        "the kernel of NODE was not started with 'usbhid.mousepoll=0' of cmdline.txt: if cmdline.txt was edited, "
        "reboot NODE first; if its firmware or boot loader removes this word, delete it in cmdline.txt"
    )


@pytest.mark.parametrize(("length", "is_cut"), [(1023, True), (300, False)])
def test_a_command_line_that_is_cut_between_two_words(
    tmp_path: Path, made_build: Builds, length: int, is_cut: bool
) -> None:
    setup = Setup(PI_OS, "pi4b")
    begin = setup.cmdline
    setup.document["runs_cmdline"] = f"{begin} a={'x' * (length - len(begin) - 3)}"
    setup.texts["cmdline.txt"] = f"{setup.texts['cmdline.txt'].strip()} a={'x' * (length - len(begin) - 3)} rest=1\n"
    said = refusal(setup.boot(tmp_path), made_build())
    assert ("got only the beginning of cmdline.txt" in said) == is_cut
    assert ("if cmdline.txt was edited, reboot NODE first" in said) != is_cut


def test_the_note_of_bookworm_in_boot_is_not_taken_for_config_txt(tmp_path: Path, made_build: Builds) -> None:
    disk = Setup("raspberry-pi-os-bookworm-64", "pi4b").boot(tmp_path)
    for path in disk.folder.glob("*.txt"):
        path.unlink()
    assert refusal(disk, made_build()).startswith(
        f"{tmp_path}/boot of NODE is not a mounted partition, so the firmware"
    )


def test_a_firmware_that_does_not_know_the_mailbox_tag_is_asked_by_systemd(
    tmp_path: Path,
    made_build: Builds,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.support.boot_cards.MAILBOX", MAILBOX.replace("0x80000004", "0x00000000"))
    setup = Setup(PI_OS_32, "pi3b")
    setup.arming = "busybox"
    assert refusal(setup.boot(tmp_path), made_build()) == (
        "NODE has neither vcmailbox nor systemd to ask for a trial boot: install raspi-utils there"
    )


@pytest.mark.parametrize(
    ("card", "board", "arch", "mode"),
    [
        (PI_OS_32, "pi3b", "arm64", 1),  # a 64-bit kernel also runs 32-bit programs
        (PI_OS_32, "zero2w", "arm64", 1),
        (BULLSEYE, "pi4b", "arm64", 1),
        (BULLSEYE, "pi4b", "arm", 0),
        (PI_OS_32, "pi4b", "arm", 0),
        (PI_OS_32, "pi3b", "arm", 0),
    ],
)
def test_the_processor_decides_which_kernel_a_board_takes(
    card: str,
    board: str,
    arch: str,
    mode: int,
    tmp_path: Path,
    made_build: Builds,
) -> None:
    setup = Setup(card, board)
    initramfs = "initramfs" in setup.expected
    new = made_build(arch, initramfs)
    expected = expected_tryboot(setup, new, "vmlinuz", "initrd.img" if initramfs else None, mode)
    assert tryboot(setup.boot(tmp_path), new) == expected


ONLY = "but the processor of NODE starts only {0} kernels: set ARCH={0} when you compile the kernel"


@pytest.mark.parametrize(
    ("card", "board", "arch", "sentence"),
    [
        (PI_OS_32, "pib", "arm64", f"build kernel is for arm64, {ONLY.format('arm')}"),
        (PI_OS_32, "pi0w", "arm64", f"build kernel is for arm64, {ONLY.format('arm')}"),
        (PI_OS_32, "pi2b", "arm64", f"build kernel is for arm64, {ONLY.format('arm')}"),
        (PI_OS_32, "pi5", "arm", f"build kernel is for arm, {ONLY.format('arm64')}"),
        (PI_OS, "pi5", "arm", f"build kernel is for arm, {ONLY.format('arm64')}"),
        (
            PI_OS,
            "pi4b",
            "arm",
            "build kernel is for arm, but the programs of NODE are 64-bit, which a 32-bit kernel cannot run: set "
            "ARCH=arm64 when you compile the kernel",
        ),
    ],
)
def test_a_kernel_that_a_board_cannot_run_is_refused(
    card: str,
    board: str,
    arch: str,
    sentence: str,
    tmp_path: Path,
    made_build: Builds,
) -> None:
    assert refusal(Setup(card, board).boot(tmp_path), made_build(arch)) == sentence


ROOT = "the root file system of NODE (/lib/modules) {}, so build modules cannot be installed: make it a writable file "
ROOT += "system on a disk, or test a build without modules and driver firmware"


@pytest.mark.parametrize(
    ("card", "board", "root", "why"),
    [
        ("openwrt-24.10", "pi4b", None, "is overlay, which does not keep files"),
        ("home-assistant-os-pi5", "pi5", None, "is erofs, which does not keep files"),
        (PI_OS, "pi4b", "overlayroot / overlay rw,relatime,lowerdir=/media/root-ro 0 0", "is overlay, which does not"),
        (PI_OS, "pi4b", "/dev/mmcblk0p2 / ext4 ro,noatime 0 0", "is mounted read-only"),
        ("alpine-3.22", "pi4b", "tmpfs / tmpfs rw,relatime,mode=755 0 0", "is tmpfs, which does not keep files"),
        ("alpine-3.22", "pi4b", "/dev/loop0 /lib/modules squashfs ro,relatime 0 0", "is squashfs, which does not"),
    ],
)
def test_modules_need_a_root_file_system_that_keeps_them(
    card: str, board: str, root: str | None, why: str, tmp_path: Path
) -> None:
    folder = tmp_path / "build"
    made.write(folder, {"Image": made.image(), "initrd": b"070701", **made.tree()})
    (folder / "build.yaml").write_text("name: modules\nkernel: Image\ninitramfs: initrd\nmodules: .\n")
    setup = Setup(card, board)
    setup.root = root or setup.root
    setup.tools = ("depmod",)
    full = why.replace("which does not", "which does not keep files") if why.endswith("not") else why
    assert refusal(setup.boot(tmp_path / "card"), build_of(folder, "made")) == ROOT.format(full)


def test_without_power_control_every_build_needs_a_root_file_system_that_keeps_the_guard(
    tmp_path: Path, made_build: Builds
) -> None:
    setup = Setup(PI_OS, "pi4b")
    setup.root = "overlayroot / overlay rw,relatime,lowerdir=/media/root-ro 0 0"
    setup.boot(tmp_path / "power").booted().check(made_build("arm64"))
    disk = setup.boot(tmp_path / "none")
    disk.has_power = False
    assert refusal(disk, made_build("arm64")) == (
        "the root file system of NODE (/etc) is overlay, which does not keep files, so the guard of trial boots cannot "
        "be installed: make it a writable file system on a disk, or add power control"
    )


def test_modules_need_space_on_the_root_file_system(tmp_path: Path) -> None:
    module = made.module("r8169") + bytes(4_000_000)
    made.write(tmp_path / "build", {"Image": made.image(), "initrd": b"070701", **made.tree(r8169=module)})
    (tmp_path / "build" / "build.yaml").write_text("name: modules\nkernel: Image\ninitramfs: initrd\nmodules: .\n")
    setup = Setup(PI_OS, "pi4b")
    setup.tools = ("depmod",)
    setup.root_free = 3_000_000
    assert refusal(setup.boot(tmp_path / "card"), build_of(tmp_path / "build", "made")) == (
        "the modules of build modules take 4 MB, but NODE has only 3 MB left: delete files that are not needed there, "
        "or strip the modules (INSTALL_MOD_STRIP=1)"
    )
    made.write(tmp_path / "build", {"fw.bin": bytes(2_000_000)})
    with (tmp_path / "build" / "build.yaml").open("a") as file:
        file.write("firmware: {rtl_nic/new.fw: fw.bin}\n")
    setup.root_free = 5_000_000
    assert refusal(setup.boot(tmp_path / "both"), build_of(tmp_path / "build", "made")) == (
        "the modules and driver firmware of build modules take 6 MB, but NODE has only 5 MB left: delete files that "
        "are not needed there, or strip the modules (INSTALL_MOD_STRIP=1)"
    )
    setup.root_free = 7_000_000
    setup.boot(tmp_path / "larger").booted().check(build_of(tmp_path / "build", "made"))


def test_mkinitramfs_needs_room_for_twelve_times_the_initramfs_of_the_card(tmp_path: Path) -> None:
    made.write(tmp_path / "build", {"Image": made.image(), **made.tree()})
    (tmp_path / "build" / "build.yaml").write_text("name: modules\nkernel: Image\nmodules: .\n")
    build = build_of(tmp_path / "build", "made")
    setup = Setup(PI_OS, "pi4b")
    setup.tools = ("depmod", "mkinitramfs")
    setup.files["initramfs8"] = 10_000_000
    setup.root_free = 119_000_000
    assert refusal(setup.boot(tmp_path / "card"), build) == (
        "the modules and temporary initramfs of build modules take 120 MB, but NODE has only 119 MB left: delete files "
        "that are not needed there, or strip the modules (INSTALL_MOD_STRIP=1)"
    )
    setup.root_free = 121_000_000
    setup.boot(tmp_path / "larger").booted().check(build)


def test_an_option_that_code_built_into_the_known_good_kernel_does_not_have_is_refused(tmp_path: Path) -> None:
    disk = Setup(PI_OS, "pi4b").boot(tmp_path / "card")
    folder = tmp_path / "build"
    folder.mkdir()
    for parameter in ("devkmsg", "dyndbg", "NoSuchParameter"):
        (folder / "build.yaml").write_text(f"name: quiet\noptions: {{printk: {{{parameter}: 1}}, unknown: {{x: 1}}}}\n")
        build = build_of(folder, "made")
        if parameter != "NoSuchParameter":
            disk.booted().check(build)
            continue
        with pytest.raises(ConfigError) as caught:
            disk.booted().check(build)
        assert str(caught.value).startswith(
            "build quiet: options: printk has no parameter 'NoSuchParameter'; accepted: console_no_auto_verbose, "
        )


def test_a_command_line_that_is_too_long_with_the_words_of_the_board_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "build"
    folder.mkdir()
    (folder / "build.yaml").write_text(f"name: long\ncmdline: {'x' * 900}\n")
    # The words of the card have 102 characters, panic=10 and pinet.build=KEY with blanks 34.
    disk = Setup(PI_OS, "pi4b").boot(tmp_path / "card")
    assert refusal(disk, build_of(folder, "made")) == (
        "the command line of build long has 1037 characters with the words of NODE, and the firmware passes at most "
        "1024 to the kernel: shorten it"
    )
    (folder / "build.yaml").write_text(f"name: long\ncmdline: {'x' * 887}\n")
    booted, build = disk.booted(), build_of(folder, "made")
    booted.check(build)
    with pytest.raises(LabError, match="the command line of build long has 1042 characters") as caught:
        booted.start(build, NO_LINES.with_parameters(["maxcpus=1", "nohlt=y"]))
    assert caught.value.act == "shorten it, or test with fewer boot settings"


def test_an_initramfs_that_the_board_cannot_make_must_be_in_the_build(tmp_path: Path, made_build: Builds) -> None:
    assert refusal(Setup("alpine-3.22", "pi4b").boot(tmp_path), made_build("arm64", False)) == (
        "NODE boots with an initramfs, but has no mkinitramfs: install initramfs-tools there, or add an initramfs to "
        "build kernel"
    )


def test_a_kernel_without_device_trees_gets_one_warning(tmp_path: Path, made_build: Builds) -> None:
    disk = Setup(PI_OS, "pi4b").boot(tmp_path)
    booted = disk.booted()
    for kind in ("settings", "arm64", "arm64"):
        booted.check(made_build(kind))
    assert disk.warnings == [
        "build kernel has a kernel and no device trees, so pi-1 boots it with the known-good ones: add device_trees if "
        "the kernel needs its own"
    ]


def test_device_trees_for_other_boards_get_one_warning(tmp_path: Path) -> None:
    disk = Setup(PI_OS, "pi4b").boot(tmp_path / "card")
    made.write(tmp_path / "build", {"dtbs/broadcom/bcm2712-rpi-5-b.dtb": made.device_tree()})
    booted, build = disk.booted(), build_of(tmp_path / "build", "made")
    for _ in range(2):
        booted.check(build)
    assert disk.warnings == [
        "build build has device trees, but not bcm2711-rpi-4-b.dtb of pi-1, so pi-1 boots it with the known-good ones"
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="the lock of deployments is in /run")
def test_a_device_tree_of_the_build_gets_the_name_that_config_txt_expects(tmp_path: Path) -> None:
    setup = Setup(PI_OS, "pi4b")
    config("device_tree=dt/bcm2711-rpi-4-b.dtb\n", files={"dt/bcm2711-rpi-4-b.dtb": 50000})(setup)
    disk = setup.boot(tmp_path / "card")
    made.write(tmp_path / "build", {"dtbs/broadcom/bcm2711-rpi-4-b.dtb": made.device_tree()})
    booted, build = disk.booted(), build_of(tmp_path / "build", "made")
    booted.check(build)
    booted.deploy(build)
    ours = disk.folder / "pytest-pinet" / build.key
    assert (ours / "dt/bcm2711-rpi-4-b.dtb").read_bytes() == made.device_tree()


def test_every_card_names_its_source_and_what_has_none() -> None:
    cards = card_names()
    assert len(cards) >= 11
    assert all(document(card)["source"] and document(card)["composed"] for card in cards)


def test_a_board_in_a_container_boots_settings_and_no_other_kernel(tmp_path: Path) -> None:
    setup = Setup(PI_OS, "pi4b")
    setup.uts = "uts:[4026532175]"
    disk = setup.boot(tmp_path / "card")
    disk.booted().check(build_of(tmp_path / "settings", "settings"))
    assert refusal(disk, build_of(tmp_path / "kernel", "arm64")) == (
        "NODE shares its kernel with other containers, so it cannot boot another one"
    )
