"""The labgrid side of switch ports: drivers that bind labgrid's own EthernetPort resource.

The resource is labgrid's own, so a place with such a port still works with a stock ``labgrid-client``.
"""

from __future__ import annotations

import time
from typing import ClassVar
from weakref import WeakKeyDictionary

import attr
from labgrid.binding import StateError
from labgrid.driver import Driver
from labgrid.driver.powerdriver import PowerResetMixin
from labgrid.factory import target_factory
from labgrid.protocol import PowerProtocol

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError, SwitchError
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.labgrid.power import OFF_TIME_S
from pytest_pinet.lab.labgrid_private import EthernetPort
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch, open_switch
from pytest_pinet.lab.switch.switchport import Capability, Neighbour, PortCounters, PortState


class _Switches:
    """The switches of one labgrid environment; each is opened once, and closed with the last driver that uses it."""

    _of: ClassVar[WeakKeyDictionary[object, _Switches]] = WeakKeyDictionary()

    def __init__(self, lab_file: str) -> None:
        self._lab = load(lab_file)
        self._open: dict[str, tuple[ManagedSwitch, int]] = {}

    @classmethod
    def of(cls, environment: object, lab_file: str) -> _Switches:
        if environment not in cls._of:
            cls._of[environment] = cls(lab_file)
        return cls._of[environment]

    def take(self, name: str, port: str, where: str) -> ManagedSwitch:
        """Return this switch, opened if necessary. Raises ConfigError, which quotes ``where``, if it is unknown."""
        switch = self._lab.switches.get(name)
        if switch is None:
            known = ", ".join(sorted(self._lab.switches))
            raise ConfigError(f"{where} is on switch {name!r}, which is not in {self._lab.file} (it has: {known})")
        if port not in switch.ports:
            raise ConfigError(f"{where} is port {port!r}, which switch {name!r} does not have", switch.where)
        managed, users = self._open.get(name) or (open_switch(self._lab, name), 0)
        self._open[name] = (managed, users + 1)
        return managed

    def give_back(self, name: str) -> None:
        managed, users = self._open.pop(name)
        if users > 1:
            self._open[name] = (managed, users - 1)
        else:
            managed.close()


@attr.s(eq=False)
class _PortDriver(Driver):  # type: ignore[misc]  # labgrid is not typed
    """A driver for a switch port that the ``pinet:`` key of the environment's file describes."""

    bindings = {"port": EthernetPort}  # noqa: RUF012  (labgrid's way)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._switch: ManagedSwitch | None = None

    def _switches(self) -> _Switches:
        return _Switches.of(self.target.env, self.target.env.config.filename)

    def on_activate(self) -> None:
        if self.target.env is None:
            raise ConfigError(
                f"target {self.target.name} does not come from a lab file, so the address of its switch is unknown"
            )
        where = f"resource {self.port.name or 'EthernetPort'} of target {self.target.name}"
        self._switch = self._switches().take(self.port.switch, self.port.interface, where)

    def on_deactivate(self) -> None:
        self._switch = None
        self._switches().give_back(self.port.switch)

    @property
    def _managed(self) -> ManagedSwitch:
        if self._switch is None:
            raise StateError(f"{self.display_name} has not been activated")
        return self._switch


@target_factory.reg_driver
@attr.s(eq=False)
class SwitchPortDriver(_PortDriver):
    """A switch port, managed through the ``pinet:`` key of the environment's file, and restored at deactivation.

    Methods that set return when the switch shows the change. Raises CapabilityError for what the switch cannot do, and
    SwitchError when the switch fails.

    Binds to:
        port (EthernetPort)
    Implements:
        nothing: labgrid has no protocol for switch ports
    Arguments:
        none
    """

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._undo = UndoStack()

    def on_deactivate(self) -> None:
        failures = self._undo.close()
        super().on_deactivate()
        for failure in failures:
            self.logger.error(failure)

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self._managed.capabilities

    def get_state(self) -> PortState:
        """Return admin state, link, speed, duplex, access VLAN and power, as far as the switch reports them."""
        return self._managed.state(self.port.interface)

    def set_admin(self, up: bool) -> None:
        """Bring the port up or down."""
        self._managed.set_admin(self.port.interface, up, self._undo)

    def get_vlan(self) -> int | None:
        """Return the access VLAN, or None when the port is not in exactly one."""
        self._managed.require(Capability.VLAN)
        return self.get_state().vlan

    def set_vlan(self, vlan: int) -> None:
        """Move the port to an access VLAN."""
        self._managed.set_vlan(self.port.interface, vlan, self._undo)

    def set_poe(self, on: bool) -> None:
        """Switch the power (PoE) of the port."""
        self._managed.set_poe(self.port.interface, on, self._undo)

    def get_counters(self) -> PortCounters:
        """Return the port's counters, with the time of the answer."""
        return self._managed.counters([self.port.interface])[self.port.interface]

    def get_neighbours(self) -> frozenset[Neighbour]:
        """Return the neighbours at the far end of the cable, from LLDP and from learned MAC addresses."""
        return self._managed.neighbours([self.port.interface])[self.port.interface]


@target_factory.reg_driver
@attr.s(eq=False)
class PoePowerDriver(_PortDriver, PowerResetMixin, PowerProtocol):  # type: ignore[misc]
    """The power of a board that a switch port feeds (PoE), by the switch's own backend: SNMP of any version, or CLI.

    Methods return when the switch shows the new state. As with every power switch, the state stays after the
    deactivation.

    Binds to:
        port (EthernetPort)
    Implements:
        PowerProtocol, ResetProtocol
    Arguments:
        delay (float): seconds without power during a cycle, at least 2
    """

    # The switch's own requests have deadlines. A login on a command line and a change take many of them.
    call_timeout_s: ClassVar[float] = 120.0
    delay = attr.ib(default=OFF_TIME_S, converter=float)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not self.delay >= OFF_TIME_S:
            raise ConfigError(
                f"PoePowerDriver of target {self.target.name}: delay is {self.delay:g} s; expected at least "
                f"{OFF_TIME_S:g} s, because the capacitors of a board keep it alive for so long"
            )

    def _set(self, on: bool) -> None:
        self._managed.switch_power(self.port.interface, on)

    @Driver.check_active  # type: ignore[untyped-decorator]
    def on(self) -> None:
        """Switch the board on."""
        self._set(True)

    @Driver.check_active  # type: ignore[untyped-decorator]
    def off(self) -> None:
        self._set(False)

    @Driver.check_active  # type: ignore[untyped-decorator]
    def cycle(self) -> None:
        """Switch the board off, and on after ``delay``."""
        self._set(False)
        time.sleep(self.delay)
        self._set(True)

    @Driver.check_active  # type: ignore[untyped-decorator]
    def get(self) -> bool:
        """Return whether the port has power. Raises CapabilityError, and SwitchError if the port has no PoE."""
        self._managed.require(Capability.POE)
        on = self._managed.state(self.port.interface).poe
        if on is None:
            raise SwitchError(
                f"switch {self.port.switch} does not report the power of port {self.port.interface}",
                "check that this port has PoE, and correct the EthernetPort of the target",
            )
        return on
