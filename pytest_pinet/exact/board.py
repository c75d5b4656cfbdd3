"""What exact boards are made of: QEMU's machines and NICs, the modules that a NIC needs, and QEMU's command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_pinet.emulated.machine import INSTRUCTION_SHIFT, TRANSLATED_MIB

# The device under test, and its peer in the network namespace.
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
# QEMU's id of the device under test in a slot.
SLOT_NIC = "dut"
# QEMU needs none of these rights: it starts no program, and changes neither its user nor its priority.
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
# nokaslr: a function has the same address in each boot. ipv6.disable: no frames that the traffic program did not send.
CMDLINE = "console=ttyAMA0,115200 loglevel=4 panic=-1 nokaslr ipv6.disable=1"


@dataclass(frozen=True)
class ExactMachine:
    """A machine type of QEMU.

    ``kernel_at`` is the physical address of the kernel image: QEMU loads it 2 MiB above the begin of the memory. It has
    ``smp`` processors, of which the kernel uses ``processors``. ``cmdline`` are words for its kernel. The NIC under
    test is in the ``slot``, from which it can be unplugged; empty text: on the board itself.
    """

    name: str
    arguments: tuple[str, ...]
    memory_mib: int
    kernel_at: int
    smp: int = 1
    processors: int = 1
    cmdline: str = ""
    slot: str = ""


# dtb-randomness: QEMU would write random seeds into the device tree.
VIRT = ExactMachine(
    "virt", ("-machine", "virt,gic-version=2,dtb-randomness=off", "-cpu", "cortex-a72"), 512, 0x40200000
)
VIRT_SLOT = replace(VIRT, name="virt-slot", slot="nic-slot")
# The machine always has four processors. Only one of them is used.
VERSAL = ExactMachine("xlnx-versal-virt", ("-machine", "xlnx-versal-virt"), 1024, 0x200000, 4, 1, "maxcpus=1")


@dataclass(frozen=True)
class ExactNic:
    """A NIC that QEMU emulates, and whose driver executes the same instructions in each boot.

    ``driver`` is its module, ``device`` QEMU's name of it, with its properties. ``modules`` are further modules that
    the board needs if they are not built in. ``qemu`` is the oldest version of QEMU that has the NIC, ``link`` the
    oldest known version in which its driver sees that its link is switched off.
    """

    driver: str
    device: str
    modules: tuple[str, ...] = ()
    qemu: tuple[int, int] = (7, 2)
    properties: tuple[str, str] = ("", "")
    link: tuple[int, int] = (7, 2)


# By default, another thread of QEMU sends the frames, at a time that depends on the host: no boot would repeat.
_VIRTIO = "ioeventfd=off,tx=timer,x-txtimer=2000"
_E1000E = ExactNic("e1000e", "e1000e", link=(10, 0))
_VIRTIO_NET = ExactNic("virtio_net", "virtio-net-pci", ("virtio_pci",), properties=(_VIRTIO, _VIRTIO))
# What exact boards can be made of. A lab file (lab/exact.yaml) says which exist.
PARTS: Mapping[ExactMachine, tuple[ExactNic, ...]] = {
    VIRT: (
        _E1000E,
        # The virtual functions of one NIC take the bus addresses behind its own, from 16 slots on.
        ExactNic("igb", "igb", qemu=(8, 0), properties=("addr=1", "addr=4")),
        _VIRTIO_NET,
    ),
    VIRT_SLOT: (_E1000E, _VIRTIO_NET),
    VERSAL: (ExactNic("macb", "cadence_gem", ("of_mdio", "fixed_phy")),),
}


@dataclass(frozen=True)
class ExactBoard:
    """A machine with two NICs of one kind, which QEMU connects."""

    name: str
    machine: ExactMachine
    nic: ExactNic


def arguments(board: ExactBoard, kernel: Path, initramfs: Path, cmdline: str, memory: int) -> list[str]:
    """Return QEMU's arguments. ``memory`` is the descriptor of the file that is the guest's memory."""
    machine, *more = board.machine.arguments[1:]
    size = f"{board.machine.memory_mib}M"
    argv = ["-machine", f"{machine},memory-backend=ram", *more, "-m", size]
    argv += ["-object", f"memory-backend-file,id=ram,size={size},mem-path=/proc/self/fd/{memory},share=on"]
    argv += ["-smp", str(board.machine.smp)]
    # sleep=off: while the guest is idle, its clock jumps to the next timer, so the host's time plays no part.
    argv += ["-icount", f"shift={INSTRUCTION_SHIFT},sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]
    argv += ["-accel", f"tcg,tb-size={TRANSLATED_MIB}", "-nodefaults", "-no-user-config", "-display", "none"]
    argv += ["-no-reboot", "-sandbox", _SANDBOX, "-monitor", "none", "-serial", "stdio"]
    argv += ["-kernel", str(kernel), "-initrd", str(initramfs), "-append", cmdline]
    if board.machine.slot:
        argv += ["-device", f"pcie-root-port,id={board.machine.slot},chassis=1"]
    for index, mac in enumerate(MACS):
        if board.machine is VERSAL:
            argv += ["-nic", f"hubport,hubid=0,mac={mac}"]
        else:
            argv += ["-netdev", f"hubport,id=nic{index},hubid=0"]
            argv += [
                "-device",
                ",".join([board.nic.device, *(f"{k}={v}" for k, v in properties(board, index).items())]),
            ]
    return argv


def properties(board: ExactBoard, index: int) -> dict[str, str]:
    """Return QEMU's properties of a NIC of a board: 0 is the NIC under test, 1 its peer."""
    own = dict(word.split("=") for word in board.nic.properties[index].split(",") if word)
    place = {"bus": board.machine.slot, "id": SLOT_NIC} if board.machine.slot and index == 0 else {}
    return {"netdev": f"nic{index}", "mac": MACS[index], "romfile": "", **own, **place}


def cmdline(board: ExactBoard, words: tuple[str, ...]) -> str:
    """Return the kernel's command line, with the words of a build."""
    return " ".join([*CMDLINE.split(), *board.machine.cmdline.split(), *words])
