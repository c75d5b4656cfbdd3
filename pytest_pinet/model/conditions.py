"""The state of an end that can limit goodput instead of the link under test: buses, throttling, other work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trouble:
    """What makes a value invalid, in one sentence, and what to do about it; empty if that is not known."""

    text: str
    act: str = ""


@dataclass(frozen=True)
class PcieLink:
    """A PCIe link: GT/s per lane, number of lanes, and the largest payload of its packets (MPS) in bytes.

    ``payload`` is None if it is not known. Raises ValueError for impossible values.
    """

    gtps: float
    lanes: int
    payload: int | None = None

    def __post_init__(self) -> None:
        if not self.gtps > 0 or self.lanes < 1 or (self.payload is not None and self.payload < 1):
            raise ValueError(f"the values of a PCIe link must be above 0: {self!r}")

    @property
    def capacity(self) -> float:
        """GT/s times lanes; useful only to compare links."""
        return self.gtps * self.lanes

    def __str__(self) -> str:
        return f"{self.gtps:g} GT/s x{self.lanes}"


@dataclass(frozen=True)
class Throttling:
    """The bits of ``vcgencmd get_throttled``: bits 0 to 3 are the state now, bits 16 to 19 the states since boot."""

    bits: int

    _NAMES = ("under-voltage", "capped clock", "throttled", "hot")

    @property
    def now(self) -> tuple[str, ...]:
        return self._named(0)

    @property
    def since_boot(self) -> tuple[str, ...]:
        return self._named(16)

    def _named(self, offset: int) -> tuple[str, ...]:
        return tuple(name for index, name in enumerate(self._NAMES) if self.bits >> (offset + index) & 1)


@dataclass(frozen=True)
class Conditions:
    """The state of one end at one moment; None is a value that the end does not report.

    ``end`` and ``device`` are the names for messages. ``pcie`` is the current state of the NIC's PCIe link,
    ``pcie_best`` the best state that both NIC and slot support. ``usb_mbps`` is the signal rate at which a USB NIC was
    enumerated. ``under_voltage`` comes from a voltage monitor. ``cpu_busy`` is the share (0 to 1) of the time of all
    processors that other work used just before the traffic.
    """

    end: str
    device: str
    pcie: PcieLink | None = None
    pcie_best: PcieLink | None = None
    usb_mbps: float | None = None
    throttling: Throttling | None = None
    under_voltage: bool | None = None
    cpu_busy: float | None = None
