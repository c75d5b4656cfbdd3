"""The QEMU command line of a board: its processor, card, console, mailbox and NICs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MANAGEMENT_MAC = "52:54:00:12:34:56"
MAILBOX = "org.pinet.firmware"
# One instruction of the guest lasts 2**4 ns of its virtual time: a processor of 62.5 million instructions a second, at
# which the gigabit NICs stay below what their wire would carry (e1000e: 650 Mbit/s; 1,290 at 2**3).
INSTRUCTION_SHIFT = 4
# What QEMU keeps of translated code. By itself it takes up to 1 GiB for it, twice the memory of the board.
TRANSLATED_MIB = 128
# No program of ours that QEMU starts, no user that it becomes: what it needs it has when it starts.
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


@dataclass(frozen=True)
class Machine:
    """A machine of QEMU's.

    ``nics`` leads from the Linux driver of a NIC to QEMU's device for it; ``partition`` is the card's, without its
    number; ``device_trees`` are the names of which the firmware takes the first that is there (none: QEMU brings its
    own); ``filters`` is the board whose sections of ``config.txt`` hold.
    """

    name: str
    arguments: tuple[str, ...]
    processors: tuple[int, int]
    memory_mib: int
    nics: Mapping[str, str]
    console: str
    partition: str
    device_trees: tuple[str, ...] = ()
    filters: str = ""

    @property
    def cmdline(self) -> str:
        """The command line of the known-good kernel."""
        return f"console={self.console},115200 root={self.partition}2 rootfstype=ext4 rootwait\n"


# A virtio NIC has no speed of its own: it tells what it is told.
VIRT = Machine(
    "virt",
    ("-machine", "virt,gic-version=2", "-cpu", "cortex-a72"),
    (1, 2),
    512,
    {
        "e1000": "e1000",
        "e1000e": "e1000e",
        "igb": "igb",
        "virtio_net": "virtio-net-pci",
        "vmxnet3": "vmxnet3",
        "cdc_ether": "usb-net",
    },
    "ttyAMA0",
    "/dev/vda",
)
# It has all four processors and 1 GiB, or none. The firmware prefers the device tree of Raspberry Pi's own kernels.
RASPI3B = Machine(
    "raspi3b",
    ("-machine", "raspi3b"),
    (4, 4),
    1024,
    {"cdc_ether": "usb-net"},
    "ttyS1",
    "/dev/mmcblk0p",
    ("bcm2710-rpi-3-b.dtb", "bcm2837-rpi-3-b.dtb"),
    "pi3b",
)
MACHINES = {machine.name: machine for machine in (VIRT, RASPI3B)}


@dataclass(frozen=True)
class NicDevice:
    """A NIC of the board: the driver that Linux has for it, its address, its tap on this side."""

    driver: str
    mac: str
    tap: str
    speed_mbps: int


@dataclass(frozen=True)
class Files:
    """Where the kernel, the initramfs (None: none), the card and the device tree (None: QEMU's own) lie."""

    kernel: str
    initramfs: str | None
    card: str
    device_tree: str | None = None


def command(
    machine: Machine,
    files: Files,
    cmdline: str,
    nics: Sequence[NicDevice],
    terminal: str,
    sockets: tuple[int, int],
    virtual_clock: bool,
) -> list[str]:
    """The arguments of ``qemu-system-aarch64`` for a board.

    ``terminal`` is its console, ``sockets`` the descriptors of QMP and of the firmware's mailbox. A guest that reboots
    ends the process, so that the firmware can look again at what it is to boot.
    """
    argv = ["qemu-system-aarch64", *machine.arguments, "-m", f"{machine.memory_mib}M"]
    argv += ["-accel", f"tcg,tb-size={TRANSLATED_MIB}", "-smp", str(machine.processors[0 if virtual_clock else 1])]
    if virtual_clock:
        argv += ["-icount", f"shift={INSTRUCTION_SHIFT},sleep=on"]
    argv += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-sandbox", _SANDBOX]
    argv += ["-kernel", files.kernel, "-append", cmdline]
    if files.initramfs is not None:
        argv += ["-initrd", files.initramfs]
    if files.device_tree is not None:
        argv += ["-dtb", files.device_tree]
    argv += ["-chardev", f"serial,id=console,path={terminal}"]
    argv += ["-chardev", f"socket,id=qmp,fd={sockets[0]}", "-mon", "chardev=qmp,mode=control"]
    argv += ["-chardev", f"socket,id=mailbox,fd={sockets[1]}"]
    argv += ["-netdev", "user,id=mgmt,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:22-10.0.2.15:22"]
    # What the guest flushed is in the host's memory, which outlives QEMU; a crash of the machine ends the lab anyway.
    drive = f"format=raw,cache=unsafe,file={_escaped(files.card)}"
    argv += _raspi3b(drive, len(nics)) if machine is RASPI3B else _virt(drive, machine, nics)
    for index, nic in enumerate(nics):
        argv += ["-netdev", f"tap,id=nic{index},ifname={nic.tap},script=no,downscript=no"]
        argv += ["-device", _nic(machine, nic, index)]
    return argv


def _virt(drive: str, machine: Machine, nics: Sequence[NicDevice]) -> list[str]:
    argv = ["-drive", f"if=none,id=card,{drive}", "-device", "virtio-blk-pci,drive=card"]
    argv += ["-serial", "chardev:console", "-device", "virtio-serial-pci"]
    argv += ["-device", f"virtserialport,chardev=mailbox,name={MAILBOX}"]
    argv += ["-device", f"virtio-net-pci,netdev=mgmt,mac={MANAGEMENT_MAC},romfile="]
    if any(machine.nics[nic.driver].startswith("usb") for nic in nics):
        argv += ["-device", "qemu-xhci"]
    return argv


def _raspi3b(drive: str, nics: int) -> list[str]:
    """All its NICs hang on one port, as on the real one; its first serial port belongs to Bluetooth, as there."""
    argv = ["-drive", f"if=sd,{drive}", "-serial", "null", "-serial", "chardev:console"]
    argv += ["-device", "usb-hub,port=1"]
    argv += ["-device", f"usb-net,netdev=mgmt,mac={MANAGEMENT_MAC},port=1.{nics + 1}"]
    return argv


def _nic(machine: Machine, nic: NicDevice, index: int) -> str:
    device = machine.nics[nic.driver]
    words = f"{device},id=dev{index},netdev=nic{index},mac={nic.mac}"
    if device.startswith("usb"):
        return words if machine is not RASPI3B else f"{words},port=1.{index + 1}"
    if device == "virtio-net-pci":
        words += f",speed={nic.speed_mbps},duplex=full"
    # Without its boot ROM, which comes in a package of its own and would only try to boot from the network.
    return f"{words},romfile="


def _escaped(path: str) -> str:
    return path.replace(",", ",,")
