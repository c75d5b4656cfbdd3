"""The exception tree of pytest-pinet.

::

    PinetError
    |-- ConfigError              the user's mistake: option, marker, lab file, catalogue
    |-- LabError                 the lab's trouble; ``act`` says who must do what
    |   |-- CoordinatorError     labgrid's coordinator or exporter does not answer
    |   |-- LeaseError           the nodes could not be had in time, or were lost
    |   |-- PowerError           the PDU refused, lied or did not answer
    |   |-- ConsoleError         no login over the serial console
    |   |-- SshError             no answer over ssh
    |   |-- SwitchError          the switch refused or did not do what it said
    |   |-- LinkError            no carrier, wrong speed or duplex, address not reachable
    |   `-- TrafficError         the traffic tool failed; carries what it printed
    |-- UnsupportedError         what was asked for cannot be done with what is there (for example an old iperf3)
    `-- InvalidMeasurement       a figure was obtained that must not be judged (above the physical limit, throttled)

A slow link is none of these: it is a plain test failure.
"""

from __future__ import annotations

from dataclasses import dataclass


class PinetError(Exception):
    """The root: everything that pytest-pinet raises on purpose."""


@dataclass(frozen=True)
class Where:
    """A place in a file that a person wrote: ``file:line`` (line counts from 1; None where it is not known)."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class ConfigError(PinetError):
    """A mistake in an option, a marker or a file: one sentence, with its place when it has one."""

    def __init__(self, message: str, where: Where | None = None) -> None:
        super().__init__(message if where is None else f"{where}: {message}")
        self.message = message
        self.where = where


class LabError(PinetError):
    """The lab's trouble, never a regression.

    ``message`` says what happened, ``act`` who must do what about it.
    """

    def __init__(self, message: str, act: str = "") -> None:
        super().__init__(f"{message}\n  -> {act}" if act else message)
        self.message = message
        self.act = act


class CoordinatorError(LabError):
    """The labgrid coordinator or exporter does not answer."""


class LeaseError(LabError):
    """The nodes could not be leased in time, or a leased node was lost."""


class PowerError(LabError):
    """The power switch refused, did not answer, or said yes and did nothing."""


class ConsoleError(LabError):
    """No login over the serial console."""


class SshError(LabError):
    """A node does not answer over ssh."""


class SwitchError(LabError):
    """The switch refused a setting, or accepted it and did nothing."""


class LinkError(LabError):
    """No carrier, wrong negotiated speed or duplex, or an address that cannot be reached."""


class TrafficError(LabError):
    """The traffic tool failed; ``evidence`` keeps what it printed."""

    def __init__(self, message: str, act: str = "", evidence: str = "") -> None:
        super().__init__(message, act)
        self.evidence = evidence


class UnsupportedError(PinetError):
    """What was asked for cannot be done with what is there; the message names what would be needed."""


class InvalidMeasurement(PinetError):
    """A figure that must not be judged: above the physical limit, or a precondition did not hold."""
