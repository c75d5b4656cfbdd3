"""The QEMU command line of a board: its processor, card, console, mailbox and NICs."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pytest_pinet.builds.kernel_files import page_kib
from pytest_pinet.errors import LabError
from pytest_pinet.virtual.container import MachineProcess, hurry, spawn
from pytest_pinet.virtual.namespaces import NetNamespace
from pytest_pinet.virtual.spec import InterfaceSpec

# A QEMU process that runs a board, and its control by QMP.


ANSWER_TIMEOUT_S = 10.0
_LARGEST_LINE = 1 << 20

Arguments = Callable[[tuple[int, int]], Sequence[str]]


class Qmp:
    """A connection to QEMU's control protocol: JSON lines. ``on_event`` gets the name and the data of each event."""

    def __init__(self, on_event: Callable[[str, Mapping[str, object]], None]) -> None:
        self._on_event = on_event
        self._answers: asyncio.Queue[Mapping[str, object]] = asyncio.Queue()
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def connect(self, sock: socket.socket) -> None:
        """Open the connection on our end of the socket pair. Raises LabError if QEMU does not answer."""
        reader, self._writer = await asyncio.open_connection(sock=sock, limit=_LARGEST_LINE)
        self._task = asyncio.get_running_loop().create_task(self._listen(reader))
        await self.run("qmp_capabilities")

    async def run(self, command: str, **arguments: object) -> object:
        """Run a command and return QEMU's answer. Raises LabError."""
        if self._writer is None:
            raise LabError(f"QEMU has ended, so it cannot run {command}")
        async with self._lock:
            with suppress(ConnectionError):
                request = {"execute": command, "arguments": arguments}
                self._writer.write(json.dumps(request).encode() + b"\n")
                await self._writer.drain()
            try:
                answer = await asyncio.wait_for(self._answers.get(), ANSWER_TIMEOUT_S)
            except TimeoutError:
                raise LabError(f"QEMU did not answer the command {command} within {ANSWER_TIMEOUT_S:g} s") from None
        if "error" in answer:
            error = answer["error"]
            reason = error.get("desc") if isinstance(error, Mapping) else error
            raise LabError(f"QEMU refused the command {command}: {reason}")
        return answer.get("return")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._writer is not None:
            self._writer.close()
        self._task = self._writer = None

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                message = json.loads(line)
                if "event" in message:
                    self._on_event(message["event"], message.get("data", {}))
                elif "QMP" not in message:  # the greeting
                    self._answers.put_nowait(message)
        self._answers.put_nowait({"error": {"desc": "QEMU has ended"}})


class QemuProcess(MachineProcess):
    """A running QEMU. ``mailbox_text`` is what the guest wrote to the firmware's mailbox before it ended."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, mailbox: socket.socket) -> None:
        super().__init__(f"QEMU of {name}", process, process.pid)
        self._name = name
        self._mailbox = mailbox
        self.qmp = Qmp(self._event)
        self.reason: str | None = None
        self.mailbox_text = b""
        asyncio.get_running_loop().add_reader(mailbox.fileno(), self._listen)

    @classmethod
    async def start(cls, name: str, namespace: NetNamespace, arguments: Arguments, console: str) -> QemuProcess:
        """Start QEMU in a network namespace. Its own messages go to the terminal ``console``.

        ``arguments`` gets the descriptors of QMP and of the mailbox. Raises LabError if QEMU does not start.
        """
        ours, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        try:
            descriptors = (theirs[0].fileno(), theirs[1].fileno())
            argv = arguments(descriptors)
            process = await spawn(namespace, argv, console, {"LC_ALL": "C.UTF-8"}, descriptors=descriptors)
        finally:
            for sock in theirs:
                sock.close()
        for sock in ours:
            sock.setblocking(False)
        # QEMU needs a high priority: while a packet is late the guest is idle, which changes the measured goodput.
        hurry(process.pid, with_children=False)
        started = cls(name, process, ours[1])
        try:
            await started.qmp.connect(ours[0])
        except LabError as error:
            await started.kill()
            raise LabError(f"QEMU of {name} did not start: {error}", f"look at the console of {name}") from None
        return started

    async def ended(self) -> str | None:
        """Wait for the end. Return its reason: ``guest-reset``, ``guest-shutdown``, or None for any other end."""
        await self._process.wait()
        self._listen()
        self._release()
        return self.reason

    async def set_throttled(self, bits: int) -> None:
        raise LabError(f"{self._name} runs in QEMU, which cannot report throttling")

    async def kill(self) -> None:
        await super().kill()
        self._release()

    def _end(self) -> None:
        self._process.kill()

    def _signal(self, number: int) -> None:
        if self.running:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _listen(self) -> None:
        if self._mailbox.fileno() < 0:
            return
        try:
            text = self._mailbox.recv(4096)
        except OSError:
            return
        if text:
            self.mailbox_text = (self.mailbox_text + text)[-4096:]
        else:
            asyncio.get_running_loop().remove_reader(self._mailbox.fileno())

    def _event(self, name: str, data: Mapping[str, object]) -> None:
        if name == "SHUTDOWN" and data.get("guest"):
            reason = data.get("reason")
            self.reason = None if reason is None else str(reason)

    def _release(self) -> None:
        self.qmp.close()
        if self._mailbox.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._mailbox.fileno())
            self._mailbox.close()


MANAGEMENT_MAC = "52:54:00:12:34:56"
MAILBOX = "org.pinet.firmware"
# One instruction of the guest takes 2**4 ns of its virtual time: 62.5 million instructions a second. At this speed
# the gigabit NICs stay below the rate of their wire (e1000e: 650 Mbit/s, but 1,290 Mbit/s at 2**3).
INSTRUCTION_SHIFT = 4
# Limit of QEMU's cache of translated code. QEMU's default is up to 1 GiB, twice the memory of the board.
TRANSLATED_MIB = 128
# QEMU may neither start programs nor change its user: it has all that it needs when it starts.
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


def processor_for(pages_kib: int | None) -> str:
    """Return the processor of a ``virt`` that boots a kernel with pages of this size.

    A Cortex-A72 has no pages of 16 KiB, so that such a kernel would stop there without a word. A Raspberry Pi 5 has
    Cortex-A76.
    """
    return "cortex-a76" if pages_kib == 16 else "cortex-a72"


@dataclass(frozen=True)
class EmulatedMachine:
    """A machine type of QEMU.

    ``nics`` maps the Linux driver of a NIC to QEMU's device. ``partition`` is the device of the card's partitions,
    without the number. ``device_trees`` are file names, of which the firmware takes the first that exists (if empty,
    QEMU makes the device tree). ``board`` is the model whose sections of ``config.txt`` apply. ``processor`` is its
    type; empty text: the machine has only one.
    """

    name: str
    arguments: tuple[str, ...]
    processors: tuple[int, int]
    memory_mib: int
    nics: Mapping[str, str]
    console: str
    partition: str
    device_trees: tuple[str, ...] = ()
    board: str = ""
    processor: str = ""

    def for_kernel(self, kernel: bytes) -> EmulatedMachine:
        """Return the machine with a processor that has the pages of this kernel image. Raises LabError."""
        pages = page_kib(kernel)
        if self.processor:
            return replace(self, processor=processor_for(pages))
        if pages == 16:
            raise LabError(
                f"the kernel has pages of {pages} KiB, but the processor of {self.name} has none of this size"
            )
        return self

    @property
    def cmdline(self) -> str:
        """Return the command line of the known-good kernel."""
        return f"console={self.console},115200 root={self.partition}2 rootfstype=ext4 rootwait\n"


# A virtio NIC has no speed of its own. It reports the speed that is configured.
VIRT = EmulatedMachine(
    "virt",
    ("-machine", "virt,gic-version=2"),
    (1, 2),
    512,
    {
        "e1000": "e1000",
        "e1000e": "e1000e",
        "igb": "igb",
        "virtio_net": "virtio-net-pci",
        "vmxnet3": "vmxnet3",
        "cdc_ether": "usb-net",
        # The 82551 needs microcode, which its driver requests when the NIC is brought up.
        "e100": "i82551",
    },
    "ttyAMA0",
    "/dev/vda",
    processor=processor_for(4),
)
# raspi3b always has four processors and 1 GiB. The firmware prefers the device tree of Raspberry Pi's own kernels.
RASPI3B = EmulatedMachine(
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
class Files:
    """Paths of the kernel, the initramfs (None: no initramfs), the card and the device tree (None: made by QEMU)."""

    kernel: str
    initramfs: str | None
    card: str
    device_tree: str | None = None


def command(
    machine: EmulatedMachine,
    files: Files,
    cmdline: str,
    nics: Sequence[InterfaceSpec],
    terminal: str,
    virtual_clock: bool,
    sockets: tuple[int, int],
    management: bool = True,
) -> list[str]:
    """Return the arguments of ``qemu-system-aarch64`` for a board.

    ``terminal`` is its console, ``sockets`` are the descriptors of QMP and of the firmware's mailbox. QEMU ends when
    the guest reboots, so that the firmware can choose again what to boot. The NIC with number N has the host's tapN.
    ``management``: the board has one more NIC, for ssh.
    """
    argv = ["qemu-system-aarch64", *machine.arguments, "-m", f"{machine.memory_mib}M"]
    argv += ["-cpu", machine.processor] if machine.processor else []
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
    if management:
        argv += ["-netdev", "user,id=mgmt,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:22-10.0.2.15:22"]
    # cache=unsafe: flushed data stays in the host's memory, which outlives QEMU. If the host crashes, the lab ends too.
    drive = f"format=raw,cache=unsafe,file={str(files.card).replace(',', ',,')}"
    argv += _raspi3b(drive, len(nics), management) if machine is RASPI3B else _virt(drive, machine, nics, management)
    for index, nic in enumerate(nics):
        argv += ["-netdev", f"tap,id=nic{index},ifname=tap{index},script=no,downscript=no"]
        argv += ["-device", _nic(machine, nic, index)]
    return argv


def _virt(drive: str, machine: EmulatedMachine, nics: Sequence[InterfaceSpec], management: bool) -> list[str]:
    argv = ["-drive", f"if=none,id=card,{drive}", "-device", "virtio-blk-pci,drive=card"]
    argv += ["-serial", "chardev:console", "-device", "virtio-serial-pci"]
    argv += ["-device", f"virtserialport,chardev=mailbox,name={MAILBOX}"]
    if management:
        argv += ["-device", f"virtio-net-pci,netdev=mgmt,mac={MANAGEMENT_MAC},romfile="]
    if any(machine.nics[nic.interface.nic.driver].startswith("usb") for nic in nics):
        argv += ["-device", "qemu-xhci"]
    # The hardware watchdog, which resets the board if nothing in the guest writes to it any more.
    return [*argv, "-device", "i6300esb"]


def _raspi3b(drive: str, nics: int, management: bool) -> list[str]:
    """Return the devices of raspi3b. As on a real board, all NICs share a USB port, and Bluetooth has serial port 0."""
    argv = ["-drive", f"if=sd,{drive}", "-serial", "null", "-serial", "chardev:console"]
    argv += ["-device", "usb-hub,port=1"]
    if management:
        argv += ["-device", f"usb-net,netdev=mgmt,mac={MANAGEMENT_MAC},port=1.{nics + 1}"]
    return argv


def _nic(machine: EmulatedMachine, nic: InterfaceSpec, index: int) -> str:
    device = machine.nics[nic.interface.nic.driver]
    words = f"{device},id=dev{index},netdev=nic{index},mac={nic.mac}"
    if device.startswith("usb"):
        return words if machine is not RASPI3B else f"{words},port=1.{index + 1}"
    if device == "virtio-net-pci":
        words += f",speed={nic.interface.speed_mbps},duplex=full"
    # No boot ROM: it comes in a separate package, and would only try to boot from the network.
    return f"{words},romfile="
