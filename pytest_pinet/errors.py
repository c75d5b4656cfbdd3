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
    |-- KernelError              the kernel of the device under test broke: panic, oops, watchdog; blames the change
    |-- BuildError               the build under test does not come up, or its driver does not; blames the change
    |   `-- BuildMismatch        something else runs than the build that was asked for: no figure is recorded
    |-- UnsupportedError         what was asked for cannot be done with what is there (for example an old iperf3)
    |   |-- CapabilityError      this switch or power outlet cannot do it at all: the test is skipped
    |   `-- QuarantineError      a node of this combination is out of service: the test is skipped
    |-- InvalidMeasurement       a figure was obtained that must not be judged (above the physical limit, throttled)
    `-- Inconclusive             figures were obtained that vary too much for a verdict

A slow link is none of these: it is a plain test failure.
"""

from __future__ import annotations

from dataclasses import dataclass


class PinetError(Exception):
    """The root: everything that pytest-pinet raises on purpose.

    ``excerpt`` is the console around the line that it speaks of, where it speaks of one.
    """

    excerpt: str = ""


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


class ChangedBuildError(ConfigError):
    """A build under test is not any more what it was when the run began."""


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


class CapabilityError(UnsupportedError):
    """This piece of hardware cannot do what was asked for, now or later: a test that needs it is skipped."""


class QuarantineError(UnsupportedError):
    """A node was taken out of service after it could not be brought up: tests that need it are skipped."""


class KernelError(PinetError):
    """The kernel of the device under test broke while a test ran; ``excerpt`` is the console around the line.

    Panics, oopses, hung tasks, watchdogs and ``NETDEV WATCHDOG``. It fails the test, since it blames the change.
    """

    def __init__(self, message: str, excerpt: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.excerpt = excerpt


class BuildError(PinetError):
    """The build under test is at fault, not the lab; ``excerpt`` is the console around the line that tells.

    ``kind`` is one of ``wrong architecture``, ``panic``, ``oops``, ``hang``, ``no login``, ``fell back``,
    ``no driver``, ``no link``, ``slow link``, ``no traffic`` and ``mismatch``.
    """

    def __init__(self, message: str, kind: str, excerpt: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.excerpt = excerpt


class BuildMismatch(BuildError):
    """What the board says of itself is not the build that was asked for: no figure of it may be recorded."""

    def __init__(self, message: str, excerpt: str = "") -> None:
        super().__init__(message, "mismatch", excerpt)


class InvalidMeasurement(PinetError):
    """A figure that must not be judged: above the physical limit, or a precondition did not hold."""


class Inconclusive(PinetError):
    """Traffic ended at its budget without a verdict that is certain enough: neither good nor the change's fault."""


def first_line(error: BaseException) -> str:
    """What an error says, as short as a line of a report takes; its type where it says nothing."""
    return next((line.strip()[:200] for line in str(error).splitlines() if line.strip()), type(error).__name__)
