"""A virtual board: power, processes, NICs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.errors import LabError
from pytest_pinet.virtual import boot_files
from pytest_pinet.virtual.cable import Cable, Faults
from pytest_pinet.virtual.container import Container, MachineProcess
from pytest_pinet.virtual.loopback import Console, Relay
from pytest_pinet.virtual.namespaces import LinkInfo, LinkWatch, NetNamespace, ip
from pytest_pinet.virtual.pi_firmware import BootSettings, NoKernel, read_card, write_card
from pytest_pinet.virtual.spec import NodeSpec

# Console messages of a kernel panic, as arm64 kernels of Raspberry Pi OS print them.


_TRACE = """\
Hardware name: {title} (DT)
Call trace:
 dump_backtrace+0x0/0x1b0
 show_stack+0x20/0x30
 dump_stack_lvl+0x8c/0xb8
 dump_stack+0x18/0x34
 panic+0x184/0x384"""
_BOOT = """\
VFS: Cannot open root device "mmcblk0p2" or unknown-block(179,2): error -6
Please append a correct "root=" boot option; here are the available partitions:
Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(179,2)
CPU: 2 PID: 1 Comm: swapper/0 Not tainted {release} #1
{trace}
 mount_block_root+0x1d4/0x2a0
 prepare_namespace+0x13c/0x174
 kernel_init_freeable+0x288/0x2b8
 kernel_init+0x2c/0x140
 ret_from_fork+0x10/0x20
SMP: stopping secondary CPUs
Kernel Offset: disabled
CPU features: 0x0,80000000,2800421a
Memory Limit: none
---[ end Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(179,2) ]---"""
_TRAFFIC = """\
Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010
Internal error: Oops: 0000000096000005 [#1] PREEMPT SMP
CPU: 1 PID: 0 Comm: swapper/1 Not tainted {release} #1
{trace}
 skb_release_data+0x7c/0x1f0
 __kfree_skb+0x34/0x44
 napi_consume_skb+0x54/0x110
 net_rx_action+0x184/0x2d4
 __do_softirq+0x11c/0x3ec
Kernel panic - not syncing: Oops: Fatal exception in interrupt
SMP: stopping secondary CPUs
Kernel Offset: disabled
Memory Limit: none
---[ end Kernel panic - not syncing: Oops: Fatal exception in interrupt ]---"""


def panic_at_boot(title: str) -> list[str]:
    """Return the messages of a panic because the root file system is missing."""
    return _filled(_BOOT, title)


def panic_in_traffic(title: str) -> list[str]:
    """Return the messages of a panic because of a NULL pointer in the receive interrupt."""
    return _filled(_TRAFFIC, title)


def stamped(lines: list[str], since_boot_s: float) -> str:
    """Format kernel messages for the console. ``since_boot_s`` is the time of the first message."""
    return "".join(f"[{since_boot_s + 2e-5 * index:12.6f}] {line}\n" for index, line in enumerate(lines))


def _filled(text: str, title: str) -> list[str]:
    release = os.uname().release
    trace = _TRACE.format(title=title)
    return text.format(release=release, trace=trace).splitlines()


# Bits of `vcgencmd get_throttled`: the present state, and the shift of the bits for "since the boot".
_NOW, _SINCE_BOOT = 0xF, 16
_log = logging.getLogger("pinet-daemon")
THROTTLING = ("under-voltage", "capped", "throttled", "hot")


@dataclass(frozen=True)
class Folders:
    """The folders of a board: the files of its boot, its card, and the keys of the lab."""

    boot: Path
    card: Path
    keys: Path


class VirtualNode:
    """A virtual board. Settings do not survive a power-on, which uses a new network namespace. Its card survives.

    ``started`` is called after processes were started. ``hurried``: its processes get real-time priority.
    """

    def __init__(
        self,
        spec: NodeSpec,
        folders: Folders,
        console: Console,
        started: Callable[[], None],
        hurried: bool = False,
    ) -> None:
        self.spec = spec.node
        self.way = spec.management
        self.console = console
        self.relay = Relay()
        self.cables: Sequence[Cable] = ()
        self.namespace = NetNamespace()
        self._built = spec
        self._started = started
        self._hurried = hurried
        self._directory = folders.boot
        self._insert_card(folders.card)
        self._card = folders.card
        self._keys = folders.keys
        self._boot_settings = BootSettings(self.spec.board.clock_mhz)
        self.container: MachineProcess | None = None
        self.on = False
        self.frozen = False
        self.panicked = False
        # The board has shut itself down and is dark until a power cycle.
        self.halted = False
        self._links: LinkWatch | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._on_since = 0.0
        # The bits that the firmware reports by `vcgencmd get_throttled`. The lowest four bits are the present state.
        self._throttled = 0
        # From the next boot on, the kernel panics before it starts init.
        self.panics_at_boot = False
        self._lock = asyncio.Lock()

    def plug(self, cables: Sequence[Cable]) -> None:
        """Plug the cables into the NICs, before the first power-on."""
        self.cables = cables

    def cable_of(self, device: str) -> Cable:
        """Return the cable in a NIC of this board."""
        return next(cable for cable in self.cables if cable.spec.device == device)

    async def power_on(self) -> None:
        """Switch the power on. Returns when the board boots. Raises LabError."""
        async with self._lock:
            if self.on:
                return
            await self._switch_on(tryboot=False)

    async def _switch_on(self, tryboot: bool) -> None:
        last, fresh = self.namespace, NetNamespace()
        dark = ""
        try:
            self._boot_settings = self._read_card(tryboot)
        except NoKernel as error:
            dark = str(error)
        before = [cable.shape for cable in self.cables]
        for cable, shape in zip(self.cables, before, strict=True):
            await cable.move_to(fresh, self._boot_settings)
            await cable.queue_node_side()
            await cable.attach_bus()
            if cable.shape != shape:
                await cable.set_rates()
        self.namespace = fresh
        self._watch_links()
        last.close()
        # The default of Raspberry Pi OS is cubic. Some kernels refuse it outside the first namespace.
        fresh.set_sysctl("net.ipv4.tcp_congestion_control", "cubic")
        self.on, self._on_since = True, asyncio.get_running_loop().time()
        if self._boot_settings.trial and not dark:
            self.console.say("firmware: tryboot.txt\n")
        if dark:
            self.console.say(f"firmware: {dark}\n")
        elif self.frozen or self.panics_at_boot or self._boot_settings.panics:
            # The board hangs during its boot: its PHYs come up, and nothing else happens.
            await ip(fresh, [f"link set dev {cable.spec.device} up" for cable in self.cables])
            if not self.frozen or self.panics_at_boot:
                self.panicked = True
                self.console.say(boot_files.boot_log_early(self.spec, self._boot_settings))
                self._say(panic_at_boot(self.spec.board.title))
        else:
            await self._boot()

    async def power_off(self) -> None:
        """Switch the power off. Returns when its processes have ended and its links are down. Raises LabError."""
        async with self._lock:
            if self.on:
                await self._switch_off()

    async def _switch_off(self) -> None:
        self.relay.connect_to(None)
        if self.container is not None:
            await self.container.kill()
            self.container = None
        if self._links is not None:
            self._links.close()
            self._links = None
        self.console.detach()
        self.halted = False
        if self.panicked:
            self.panicked = False
            if not self.frozen:
                await self._silence(False)
        await self._links_down()
        self.on = False

    async def _links_down(self) -> None:
        await ip(self.namespace, [f"link set dev {cable.spec.device} down" for cable in self.cables])

    async def set_faults(self, cable: Cable, faults: Faults) -> None:
        """Apply ``faults`` to one of the board's cables. Raises LabError."""
        async with self._lock:
            await cable.set_faults(faults)

    async def freeze(self) -> None:
        """Make the board hang until ``thaw``: it keeps its carrier, but is silent on all links, ssh and the console."""
        async with self._lock:
            self.frozen = True
            await self._silence(True)

    async def thaw(self) -> None:
        """Undo ``freeze``. A board that was switched on in the meantime boots now."""
        async with self._lock:
            if not self.frozen:
                return
            self.frozen = False
            await self._silence(False)
            if self.on and self.container is None and not self.panicked and not self.halted:
                await self._boot()

    def panic_at_boot(self) -> None:
        """Make the kernel panic at each boot, before it starts init."""
        self.panics_at_boot = True

    async def panic(self) -> None:
        """Make the kernel panic now: it prints the panic on the console, and hangs until power-off. Raises LabError."""
        async with self._lock:
            if not self.on:
                raise LabError(f"{self.spec.name} is switched off, so its kernel cannot panic")
            self._say(panic_in_traffic(self.spec.board.title))
            self.panicked = True
            await self._silence(True)

    async def heal(self) -> None:
        """Remove the fault "panics at boot". Power-cycle a board that hangs in a panic."""
        self.panics_at_boot = False
        if self.panicked:
            await self.power_off()
            await self.power_on()

    @property
    def throttled(self) -> int:
        """The bits of the present state."""
        return self._throttled & _NOW

    async def throttle(self, bits: int) -> None:
        """Report these bits as the present state (0: none). As "since the boot", they stay until the next boot."""
        bits |= bits << _SINCE_BOOT | self._throttled & ~_NOW
        if self.container is not None:
            await self.container.set_throttled(bits)
        self._throttled = bits

    def print_line(self, line: str) -> None:
        """Print a kernel message on the console. Raises LabError while the board is off."""
        if not self.on:
            raise LabError(f"{self.spec.name} is switched off, so its kernel cannot print the line")
        self._say([line])

    def _say(self, lines: list[str]) -> None:
        since_boot_s = asyncio.get_running_loop().time() - self._on_since
        self.console.say(stamped(lines, since_boot_s))

    async def _silence(self, silent: bool) -> None:
        """Stop all processes, links, ssh and the console, or continue all of them."""
        self.console.mute(silent)
        self.relay.freeze(silent)
        for cable in self.cables:
            await cable.silence(silent)
        if self.container is not None:
            if silent:
                self.container.freeze()
            else:
                self.container.thaw()

    def _insert_card(self, card: Path) -> None:
        write_card(card, self.spec.board.name)

    def _read_card(self, tryboot: bool) -> BootSettings:
        return read_card(self._card, self.spec.board.name, self.spec.board.clock_mhz, tryboot)

    def _watch_links(self) -> None:
        """Adapt the shaping of the cables when the board changes an MTU."""

        async def follow(links: Mapping[str, LinkInfo]) -> None:
            async with self._lock:
                for cable in self.cables:
                    if cable.spec.device in links:
                        await cable.set_mtu(links[cable.spec.device].mtu)

        self._links = LinkWatch(self.namespace, follow)

    def _open_ssh(self) -> None:
        """Lead ssh to the board: by a way of its own, or through the switch and a NIC under test."""
        if self.way is None:
            self.relay.connect_to(self.namespace)
        else:
            self.relay.connect_to(self.cable_of(self.way.device).switch.namespace, self.way.host)

    async def _boot(self) -> None:
        self._throttled = self.throttled | self.throttled << _SINCE_BOOT
        files = (self._directory, self._built, self._keys, self._boot_settings, self._throttled)
        await asyncio.to_thread(boot_files.write_node, *files)
        devices = " ".join(cable.spec.device for cable in self.cables)
        if self.way is not None:
            await ip(self.namespace, [f"address add {self.way.address} dev {self.way.device}"])
        terminal = self.console.attach()
        environment = {"ROLE": "node", "DEVICES": devices, "CARD": str(self._card)}
        self.container = await Container.start(
            self.spec.name, self.namespace, self._directory, environment, terminal, self._hurried
        )
        self._open_ssh()
        self._started()
        self._watcher = asyncio.get_running_loop().create_task(self._watch(self.container))

    async def _watch(self, machine: MachineProcess) -> None:
        """Boot again after a reset by the board. A board that halts stays halted, as a Raspberry Pi."""
        reason = await machine.ended()
        async with self._lock:
            if self.container is not machine:
                return
            try:
                await self._restart(reason)
            except LabError as error:
                _log.error("%s did not start again: %s", self.spec.name, error)

    async def _restart(self, reason: str | None) -> None:
        """Boot as the firmware does after a reset. The request for a trial boot is valid for one boot."""
        mailbox = self._directory / boot_files.MAILBOX
        if (mailbox / "reboot").exists():
            tryboot = (mailbox / "tryboot").exists()
            await self._switch_off()
            await self._switch_on(tryboot)
        elif reason is not None:
            # Only a power cycle boots it again.
            self.container, self.halted = None, True
            self.relay.connect_to(None)
            self._say(["reboot: Power down"])
            await self._links_down()
