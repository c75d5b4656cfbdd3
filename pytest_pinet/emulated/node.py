"""An emulated board: a node that runs in QEMU and boots like a Raspberry Pi."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from pytest_pinet.builds.config_txt import model_of
from pytest_pinet.emulated.card import copy_card, read_boot, take_flag, write_boot
from pytest_pinet.emulated.machine import MACHINES, MANAGEMENT_MAC, Files, QemuProcess, command
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.model.lab import VIRTUAL
from pytest_pinet.virtual.loopback import Console
from pytest_pinet.virtual.namespaces import LinkInfo, LinkWatch, ip
from pytest_pinet.virtual.node import Folders, VirtualNode
from pytest_pinet.virtual.pi_firmware import BootChoice, BootSettings, choose
from pytest_pinet.virtual.spec import NodeSpec

# Frames of any size must pass the host, because the guest sets its own MTU.
LARGEST_MTU = 9216
# A guest that is slower than its peer has a whole TCP window waiting here (2 MB with 512 MiB of memory). With the
# default queue of 1,000 packets, drops cost the guest's instructions: the goodput of received TCP varied by 1.4 %, and
# by 0.5 % without drops.
TAP_QUEUE = 5000
_log = logging.getLogger("pinet-daemon")


class EmulatedNode(VirtualNode):
    """A board in QEMU. ``image`` is a fresh card; ``card`` is the folder of the board's own card, kept without power.

    Each NIC is a tap. A bridge in the node's namespace joins the tap and the cable, so that switch ports, pulled cables
    and faults work as on other nodes.
    """

    def __init__(
        self, spec: NodeSpec, folders: Folders, console: Console, started: Callable[[], None], image: Path
    ) -> None:
        super().__init__(spec, folders, console, started)
        self._image = image
        self._machine = MACHINES[str(self.spec.machine)]
        self._file = folders.card / "card.img"
        # Valid for one boot, like the bit in a Raspberry Pi's reset register. The guest sets it; a boot or power-off
        # clears it.
        self._tryboot = False
        self._terminal = ""

    def _insert_card(self, card: Path) -> None:
        # A lab that was never stopped may have left a card, with other keys.
        shutil.rmtree(card, ignore_errors=True)

    def _read_card(self, tryboot: bool) -> BootSettings:
        return BootSettings(self.spec.board.clock_mhz)

    def _watch_links(self) -> None:
        """Do nothing: frames of any size pass, so changes of the guest's MTU have no effect here."""

    def panic_at_boot(self) -> None:
        """Raise ConfigError: the board boots a real kernel, which cannot be made to panic from outside."""
        raise ConfigError(
            f"{self.spec.name} boots a real kernel, so it cannot be made to panic at boot; "
            "deploy a build that panics instead, for example with `root=/dev/nowhere` in its cmdline"
        )

    async def panic(self) -> None:
        """Raise LabError: the board runs a real kernel, which cannot be made to panic from outside."""
        raise LabError(
            f"{self.spec.name} runs a real kernel, which `pinet lab degrade` cannot make panic",
            f"pinet lab exec {self.spec.name} -- 'echo c > /proc/sysrq-trigger'",
        )

    async def power_off(self) -> None:
        """Cut the power. Data that the guest has not written to its card is lost, as on a board. Raises LabError."""
        await super().power_off()
        self._tryboot = False

    async def _boot(self) -> None:
        try:
            if not self._file.exists():
                await asyncio.to_thread(self._make_card)
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(f"the SD card of {self.spec.name} cannot be created: {error}") from None
        # Clear a tryboot request from before the power was cut.
        await asyncio.to_thread(take_flag, self._file)
        await self._lead_cables()
        self._terminal = self.console.attach()
        await self._start()

    def _make_card(self) -> None:
        folder = self._file.parent
        folder.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".draft")
        copy_card(self._image, draft)
        way = self.way
        nics = [f"{c.spec.device} {c.mac}\n" for c in self.cables]
        address = "mgmt0 10.0.2.15/24 10.0.2.2\n"
        if way is None:
            nics.insert(0, f"mgmt0 {MANAGEMENT_MAC}\n")
        else:
            address = f"{way.device} {way.address} - {way.vlan or ''}\n"
        own = {
            "cmdline.txt": self._machine.cmdline.encode(),
            "pinet/hostname": f"{self.spec.name}\n".encode(),
            "pinet/user": f"{self.spec.user}\n".encode(),
            "pinet/nics": "".join(nics).encode(),
            "pinet/address": address.encode(),
            "pinet/authorized_keys": (self._keys / "id_ed25519.pub").read_bytes(),
            "pinet/host_key": (self._keys / "host_key").read_bytes(),
            "pinet/console_password.hash": (self._keys / "console_password.hash").read_bytes(),
        }
        # A machine with a device tree of its own names its board. That of QEMU names none ("linux,dummy-virt").
        if not self._machine.device_trees:
            own["pinet/model"] = f"{self.spec.board.model}\0".encode()
        if self.spec.manager is not None:
            own["pinet/manager"] = f"{self.spec.manager}\n".encode()
        write_boot(draft, own)
        draft.rename(self._file)
        # The user who started the lab must be able to remove the card, but the daemon runs as root.
        owner = self._image.stat()
        for path in (self._file, folder, folder.parent, folder.parent.parent):
            os.chown(path, owner.st_uid, owner.st_gid)

    async def _lead_cables(self) -> None:
        """Join the end of each cable and a tap of the guest by a bridge."""
        for scope in ("all", "default"):
            self.namespace.set_sysctl(f"net.ipv6.conf.{scope}.disable_ipv6", "1")
        lines: list[str] = ["link set dev lo up"]
        for index, cable in enumerate(self.cables):
            device = cable.spec.device
            lines += [
                # The guest's NIC uses the cable's MAC address. A bridge does not forward frames to an
                # address of its own ports, so the cable's end gets another address. All of the lab begin with 02.
                f"link set dev {device} address 06{cable.mac[2:]} mtu {LARGEST_MTU}",
                f"link add name lead{index} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                f"tuntap add dev tap{index} mode tap vnet_hdr",
                f"link set dev tap{index} mtu {LARGEST_MTU} txqueuelen {TAP_QUEUE}",
                f"link set dev {device} master lead{index} up",
                f"link set dev tap{index} master lead{index} up",
                f"link set dev lead{index} up",
            ]
        await ip(self.namespace, lines)

    async def _start(self) -> None:
        """Boot as the firmware does at power-on and at each reset. A board without a kernel stays dark."""
        tryboot, self._tryboot = self._tryboot, False
        machine = self._machine
        model = model_of(None, machine.board or self.spec.board.name)
        try:
            read = partial(read_boot, self._file)
            chosen = await asyncio.to_thread(choose, read, model, tryboot, machine.device_trees)
            machine = machine.for_kernel(chosen.kernel)
        except LabError as error:
            self.console.say(f"firmware: {error}\n")
            return
        self.console.say(f"firmware: {chosen}\n")
        settings = "".join(f"{name}={value}\n" for name, value in chosen.settings.items())
        await asyncio.to_thread(write_boot, self._file, {"pinet/firmware": settings.encode()})
        files = await asyncio.to_thread(self._files, chosen)
        nics = self._built.interfaces
        virtual_clock, own = self.spec.clock == VIRTUAL, self.way is None
        words = (chosen.cmdline, nics, self._terminal, virtual_clock)
        arguments = partial(command, machine, files, *words, management=own)
        process = await QemuProcess.start(self.spec.name, self.namespace, arguments, self._terminal)
        self.container = process
        self._open_ssh()
        self._started()
        self._forward_carriers(process)
        self._watcher = asyncio.get_running_loop().create_task(self._watch(process))

    def _forward_carriers(self, process: QemuProcess) -> None:
        """Give each NIC of the guest the carrier of its cable. QEMU cannot see it: a tap always has carrier."""
        # QEMU starts its NICs with the link up.
        carriers = dict.fromkeys((cable.spec.device for cable in self.cables), True)

        async def follow(links: Mapping[str, LinkInfo]) -> None:
            for index, (device, before) in enumerate(carriers.items()):
                carriers[device] = device in links and links[device].carrier
                if carriers[device] != before:
                    await _set_link(process, index, carriers[device])

        if self._links is not None:
            self._links.close()
        self._links = LinkWatch(self.namespace, follow)

    def _files(self, chosen: BootChoice) -> Files:
        def written(name: str, data: bytes) -> str:
            path = self._directory / name
            try:
                path.write_bytes(data)
            except OSError as error:
                raise LabError(f"{self.spec.name} cannot start: {error}", f"free disk space in {path.parent}") from None
            return str(path)

        return Files(
            written("kernel", chosen.kernel),
            None if chosen.initramfs is None else written("initramfs", chosen.initramfs),
            str(self._file),
            None if chosen.device_tree is None else written("device-tree", chosen.device_tree),
        )

    async def _restart(self, reason: str | None) -> None:
        process, self.container = self.container, None
        assert isinstance(process, QemuProcess)
        self.relay.connect_to(None)
        if reason != "guest-reset":
            self.console.say(f"firmware: halted ({reason or 'QEMU ended'})\n")
            return
        # The request came by the mailbox (a virtio port), or by the card if the machine has no such port.
        on_card = await asyncio.to_thread(take_flag, self._file)
        self._tryboot = on_card or process.mailbox_text.split()[-1:] == [b"tryboot"]
        await self._start()


async def _set_link(process: QemuProcess, index: int, up: bool) -> None:
    try:
        await process.qmp.run("set_link", name=f"dev{index}", up=up)
    except LabError as error:
        if process.running:
            _log.error("QEMU did not set the link of NIC %d %s: %s", index, "up" if up else "down", error)
