"""The state of one end that may set the figure instead of what is tested: buses, throttling, other work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PcieLink:
    """A PCIe link: transfers per second of a lane (GT/s), lanes, and the largest payload of its packets (MPS, bytes).

    ``payload`` is None where nobody tells it. Raises ValueError for what no link has.
    """

    gtps: float
    lanes: int
    payload: int | None = None

    def __post_init__(self) -> None:
        if not self.gtps > 0 or self.lanes < 1 or (self.payload is not None and self.payload < 1):
            of = f"{self.gtps:g} GT/s, {self.lanes} lanes and a payload of {self.payload}"
            raise ValueError(f"a PCIe link has speed, lanes and a payload above 0, not {of}")

    @property
    def capacity(self) -> float:
        """What grows with both; good for comparing links only."""
        return self.gtps * self.lanes

    def __str__(self) -> str:
        return f"{self.gtps:g} GT/s x{self.lanes}"


@dataclass(frozen=True)
class Throttling:
    """The firmware's bits (``vcgencmd get_throttled``): 0 to 3 are true now, 16 to 19 were since boot."""

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
    """One end at one moment; ``end`` and ``device`` are what messages call them. None is what nobody there tells.

    ``pcie`` is how the NIC's slot runs and ``pcie_best`` what both the NIC and its slot can; ``usb_mbps`` is the signal
    rate at which a USB NIC was enumerated. ``under_voltage`` comes from a voltage monitor. ``cpu_busy`` is the share of
    all processors' time (0 to 1) that something else used just before the traffic.
    """

    end: str
    device: str
    pcie: PcieLink | None = None
    pcie_best: PcieLink | None = None
    usb_mbps: float | None = None
    throttling: Throttling | None = None
    under_voltage: bool | None = None
    cpu_busy: float | None = None
