"""The interface of a traffic tool (one measurement between two ends, from start to end), and the tools by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.entry_points import TRAFFIC_TOOLS
from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.traffic import WARMUP_CAP_S, Traffic

# Receives the seconds of traffic so far, about twice a second.
Progress = Callable[[float], None]
# Called throughout a run; can end the run by raising.
Watch = Callable[[], None]
# Receives the client's end and may wait for others. Returns the uptime of this end at which to begin (None: at once).
BeforeClient = Callable[[Shell], float | None]


# The payload of a datagram in a frame of 1500 octets, by the family of IP.
LARGEST_DATAGRAM = {4: 1472, 6: 1452}


def check_whole(name: str, value: object, least: int, most: int, unit: str = "") -> None:
    """Raise ConfigError unless the value of the argument ``name`` is a whole number in this range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{name}={value!r}: expected {least} to {most}{unit}")


@dataclass(frozen=True)
class TrafficJob:
    """Traffic between a device under test and its peer, with the address of each on the measured link.

    A detected warm-up ends after ``warmup_cap_s`` at the latest (``judge.warmup.cap_for``). ``before_client`` is called
    when everything but the traffic is ready; the moment at which the streams stood is then measured. ``at_end`` are
    shell words, by the name of an end, that the tool may run there after the traffic and before any report travels.
    ``source_port`` is the port from which a single flow leaves if the tool can set it: a link may choose a queue or
    path by the ports of a flow.
    """

    dut: Shell
    peer: Shell
    dut_address: str
    peer_address: str
    traffic: Traffic
    warmup_cap_s: float = WARMUP_CAP_S
    on_progress: Progress | None = None
    watch: Watch | None = None
    before_client: BeforeClient | None = None
    at_end: Mapping[str, str] = field(default_factory=dict)
    source_port: int | None = None


class TrafficTool(Protocol):
    """Measures between a device under test and its peer. Leaves nothing behind on either end, whatever happens.

    One object measures for a whole session, and several flows at once from several threads.
    """

    def prepare(self, job: TrafficJob) -> None:
        """Check that both ends have what this job needs. Raises TrafficError if something is missing.

        Called for each of several jobs before they start at once, and not for a job that runs alone.
        """

    def measure(self, job: TrafficJob) -> Measurement:
        """Send the traffic and return what the receivers got. Raises ConfigError, UnsupportedError, LabError."""


class WrappingTool(ABC):
    """Measures with ``tool``, with changes to the sent traffic and to the result."""

    def __init__(self, tool: TrafficTool) -> None:
        self._tool = tool

    def _sent(self, traffic: Traffic) -> Traffic:
        """Return the traffic to send for the requested ``traffic``."""
        return traffic

    @abstractmethod
    def _result(self, found: Measurement, job: TrafficJob) -> Measurement:
        """Return the changed result of the requested job. Raises TrafficError."""

    def prepare(self, job: TrafficJob) -> None:
        self._tool.prepare(replace(job, traffic=self._sent(job.traffic)))

    def measure(self, job: TrafficJob) -> Measurement:
        return self._result(self._tool.measure(replace(job, traffic=self._sent(job.traffic))), job)


def make_tool(name: str, lab: Lab) -> TrafficTool:
    """Return the traffic tool of this name for the lab. Raises ConfigError if that is not possible.

    The entry point names a callable that takes the lab and returns a `TrafficTool`, such as a class.
    """
    made, what = TRAFFIC_TOOLS.make(name, lab, takes="the lab")
    TRAFFIC_TOOLS.require(made, what, TrafficTool)
    return cast(TrafficTool, made)
