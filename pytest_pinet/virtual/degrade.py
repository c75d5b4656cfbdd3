"""Apply faults to parts of a virtual lab, and remove them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.virtual.cable import Cable
from pytest_pinet.virtual.faults import Faults
from pytest_pinet.virtual.firmware import SwitchFaults, with_lies
from pytest_pinet.virtual.machines import Machines, NodeTarget, PduTarget, SwitchTarget
from pytest_pinet.virtual.node import THROTTLING
from pytest_pinet.virtual.pdu import PduFaults

_CABLE = ("rate", "loss", "down", "direction", "swap_with")
_NODE = ("freeze", "hang_console", "panic", "console_line", "drop_ssh", "throttle")
# Faults of a whole machine, not of an interface, port or outlet.
_WHOLE = {*_NODE, "dead", "stale_counters"}
# The faults of each kind of target, as named in requests. The command line uses the same names with dashes.
FAULTS: Mapping[type, tuple[str, ...]] = {
    NodeTarget: (*_CABLE, *_NODE),
    SwitchTarget: ("dead", "lie", "stale_counters"),
    PduTarget: ("dead", "lie"),
}


class Degrade:
    """The operations ``degrade`` and ``restore``. ``changed`` is called when processes may have changed."""

    def __init__(self, machines: Machines, changed: Callable[[], None]) -> None:
        self._machines = machines
        self._changed = changed

    async def degrade(self, request: Mapping[str, Any]) -> list[str]:
        """Apply faults to ``target``. Return the names of the degraded parts."""
        text = request["target"]
        target = self._machines.target(text)
        wanted = {key for key in request if key not in ("op", "target") and request[key] not in (None, False)}
        wrong = sorted(wanted - set(FAULTS[type(target)]))
        if wrong:
            raise ConfigError(
                f"{_option(wrong[0])} is not a fault of {text!r}, which is {_kind(target)}; "
                f"accepted: {', '.join(map(_option, FAULTS[type(target)]))}"
            )
        for key in sorted(wanted & _WHOLE):
            if not target.whole:
                raise ConfigError(f"{_option(key)} does not apply to a part such as {text!r}; use {target.name!r}")
        match target:
            case PduTarget():
                return self._pdu(target, request)
            case SwitchTarget():
                return self._switch(target, request)
        return await self._node(target, request)

    def _pdu(self, target: PduTarget, request: Mapping[str, Any]) -> list[str]:
        pdu = self._machines.pdu
        faults = pdu.faults
        if request.get("dead"):
            faults = replace(faults, dead=True)
        if request.get("lie"):
            faults = replace(faults, lying=faults.lying | target.outlets)
        pdu.set_faults(faults)
        return [str(request["target"])]

    def _switch(self, target: SwitchTarget, request: Mapping[str, Any]) -> list[str]:
        switch = target.switch
        if (request.get("lie") or request.get("stale_counters")) and switch.spec.management != "snmp":
            raise ConfigError(
                f"switch {switch.spec.name} is managed over ssh, so --dead is its only fault; "
                "only one with backend snmp lies or has stale counters"
            )
        faults = switch.firmware.faults
        if request.get("dead"):
            faults = replace(faults, dead=True)
        if request.get("lie"):
            faults = with_lies(faults, target.port)
        if request.get("stale_counters"):
            faults = replace(faults, stale_s=float(request["stale_counters"]))
        switch.set_faults(faults)
        return [str(request["target"])]

    async def _node(self, target: NodeTarget, request: Mapping[str, Any]) -> list[str]:
        node = target.node
        if any(request.get(key) for key in ("loss", "freeze", "panic")) and shutil.which("nft") is None:
            raise LabError("the command nft, which drops packets, is missing", "apt install nftables")
        if request.get("swap_with"):
            await self._swap(target, request["swap_with"])
        if request.get("hang_console"):
            node.console.dead = True
        if request.get("console_line"):
            node.print_line(request["console_line"])
        if request.get("drop_ssh"):
            node.relay.cut()
        if request.get("throttle"):
            await node.throttle(node.throttled | 1 << THROTTLING.index(request["throttle"]))
        match request.get("panic"):
            case "boot":
                node.panic_at_boot()
            case "now":
                await node.panic()
        if request.get("freeze"):
            await node.freeze()
        if any(request.get(key) for key in ("rate", "loss", "down")):
            for cable in target.cables:
                faults = cable.faults.degraded(
                    request.get("rate"), request.get("loss"), bool(request.get("down")), request.get("direction")
                )
                await node.set_faults(cable, faults)
            return [f"{node.spec.name}:{cable.spec.name}" for cable in target.cables]
        return [str(request["target"])]

    async def _swap(self, target: NodeTarget, other_name: str) -> None:
        node = target.node
        if target.whole and len(target.cables) > 1:
            names = ", ".join(f"{node.spec.name}:{cable.spec.name}" for cable in target.cables)
            raise ConfigError(f"--swap-with: {node.spec.name} has several cables; name one: {names}")
        other = self._machines.target(other_name)
        if not isinstance(other, NodeTarget) or len(other.cables) != 1:
            raise ConfigError(f"--swap-with {other_name}: expected one interface, such as NODE:INTERFACE")
        (one,), (two,) = target.cables, other.cables
        if one is two:
            raise ConfigError(f"--swap-with {other_name}: a cable cannot be swapped with itself")
        await one.swap_with(two)

    async def restore(self, request: Mapping[str, Any]) -> list[str]:
        """Remove all faults of ``target``, or of the whole lab without a target. Return the names of restored parts."""
        text = request.get("target")
        restored: list[str] = []
        if text:
            target = self._machines.target(text)
            match target:
                case PduTarget():
                    restored += self._restore_pdu(target)
                case SwitchTarget():
                    restored += self._restore_switch(target)
                case NodeTarget():
                    restored += await self._restore_node(target)
        else:
            restored += self._restore_pdu(PduTarget(frozenset(self._machines.pdu.outlets), whole=True))
            for switch in self._machines.switches.values():
                restored += self._restore_switch(SwitchTarget(switch, None))
            for node in self._machines.nodes.values():
                restored += await self._restore_node(NodeTarget(node, node.cables, whole=True))
        self._changed()
        return restored

    def _restore_pdu(self, target: PduTarget) -> list[str]:
        pdu = self._machines.pdu
        before = pdu.faults
        pdu.set_faults(PduFaults(before.dead and not target.whole, before.lying - target.outlets))
        return ["pdu"] if pdu.faults != before else []

    def _restore_switch(self, target: SwitchTarget) -> list[str]:
        switch, before = target.switch, target.switch.firmware.faults
        if target.port is None:
            switch.set_faults(SwitchFaults())
        else:
            switch.set_faults(replace(before, lying=before.lying - {target.port}))
        name = switch.spec.name if target.port is None else f"{switch.spec.name}/{target.port}"
        return [name] if switch.firmware.faults != before else []

    async def _restore_node(self, target: NodeTarget) -> list[str]:
        node = target.node
        restored = []
        if target.whole and (node.frozen or node.panicked or node.panics_at_boot or node.console.dead):
            await node.thaw()
            await node.heal()
            node.console.dead = False
            restored.append(node.spec.name)
        if target.whole and node.throttled:
            await node.throttle(0)
            restored.append(node.spec.name)
        for cable in target.cables:
            if cable.faults != Faults():
                await node.set_faults(cable, Faults())
                restored.append(f"{node.spec.name}:{cable.spec.name}")
            if cable.displaced:
                await self._plug_home(cable)
                restored.append(f"{node.spec.name}:{cable.spec.name}")
        return list(dict.fromkeys(restored))

    async def _plug_home(self, cable: Cable) -> None:
        """Plug a cable into its own port. The cable in that port moves to the other port."""
        cables = ((node, other) for node in self._machines.nodes.values() for other in node.cables)
        owner, home = next(
            (node, other)
            for node, other in cables
            if (other.switch.spec.name, other.port) == (cable.spec.switch, cable.spec.port)
        )
        if home.faults.down:
            await owner.set_faults(home, replace(home.faults, down=False))
        await cable.swap_with(home)


def _option(key: str) -> str:
    return "--" + key.replace("_", "-")


def _kind(target: object) -> str:
    match target:
        case PduTarget():
            return "the power distribution unit"
        case SwitchTarget():
            return "a switch" if target.port is None else "a port of a switch"
    return "a node or an interface"
