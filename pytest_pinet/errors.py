"""The exception tree of pytest-pinet.

::

    PinetError
    |-- ConfigError              a mistake of the user: option, marker, lab file, catalogue
    |   `-- OutputError          a file, a disk or a pipe that the user chose takes no more
    |-- LabError                 a problem of the lab; ``act`` says who must do what
    |   |-- CoordinatorError     labgrid's coordinator or exporter does not answer
    |   |-- LeaseError           the nodes could not be leased in time, or a leased node was lost
    |   |-- PowerError           the PDU refused, did not answer, or reported success and changed nothing
    |   |-- ConsoleError         no login over the serial console
    |   |-- SshError             no answer over ssh
    |   |   `-- ShutdownError    the running system did not shut down for a reboot
    |   |-- SwitchError          the switch refused a setting, or accepted it and did nothing
    |   |-- LinkError            no carrier, wrong speed or duplex, address not reachable
    |   |   `-- DroppedLink      the link of the device under test dropped too often, or for good: the test fails
    |   `-- TrafficError         the traffic, its tool or its link failed; carries the output of the tool
    |       `-- ToolError        an end lacks the tool or a free port, so no traffic was sent
    |-- KernelError              kernel of the device under test failed (panic, oops, watchdog): the change is at fault
    |-- BuildError               the build under test or its driver does not start: the change is at fault
    |   `-- BuildMismatch        the board runs another build than the requested one: no value is recorded
    |-- UnsupportedError         the request needs a feature that is missing (for example, iperf3 is too old)
    |   |-- CapabilityError      this switch, power outlet or node lacks the feature: the test is skipped
    |   |   |-- TagsLostError    tagged frames do not arrive: the switch drops them, or a board
    |   |   `-- UnfitBuildError  this exact board cannot judge the build, which lacks its driver: the test is skipped
    |   `-- QuarantineError      a node of this combination is out of service: the test is skipped
    |-- InvalidMeasurement       the measured value must not be judged (above the physical limit, throttled)
    `-- Inconclusive             the measured values vary too much for a verdict

A slow link raises none of these errors. It is a plain test failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self


class PinetError(Exception):
    """The root: every error that pytest-pinet raises on purpose.

    ``act`` says who must do what; empty if that is not known. ``excerpt`` holds the console lines around the reported
    line. It is empty if the error reports no console line.
    """

    def __init__(self, message: str, excerpt: str = "", act: str = "") -> None:
        super().__init__(with_act(message, act))
        self.message = message
        self.excerpt = excerpt
        self.act = act

    def with_excerpt(self, excerpt: str) -> Self:
        """Return this error with these lines of a console."""
        self.excerpt = excerpt
        return self


def with_act(message: str, act: str) -> str:
    """Return a message as it is printed: what to do is on a line of its own."""
    return f"{message}\n  -> {act}" if act else message


@dataclass(frozen=True)
class Where:
    """A place in a file: ``file:line``. Lines count from 1; None means that the line is not known."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


# A longer message is cut in its middle: its end says what to do.
LONGEST = 2000


def sentence(text: str) -> str:
    """Return a message as one line that can be printed, whatever names and values it quotes.

    Control characters are escaped (``\\n``, ``\\x1b``): a name with a line feed could look like another message.
    """
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} [... {len(text) - LONGEST} characters ...] {text[-LONGEST // 2 :]}"
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


class ConfigError(PinetError):
    """A mistake in an option, a marker or a file. The message is one sentence; a known place comes before it."""

    def __init__(self, message: str, where: Where | None = None) -> None:
        super().__init__(sentence(message if where is None else f"{where}: {message}"))
        self.message = sentence(message)
        self.where = where


@contextmanager
def mistake_in(what: str, where: Where | None = None) -> Iterator[None]:
    """Turn a ValueError about the value of an option or argument into a ConfigError that names it."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{what}: {error}", where) from None


class OutputError(ConfigError):
    """The output cannot be written: the disk is full, or no program reads the pipe."""


class ChangedBuildError(ConfigError):
    """A build under test was changed after the run began."""


class LabError(PinetError):
    """A problem of the lab, never a regression. ``act`` says who must do what."""

    def __init__(self, message: str, act: str = "") -> None:
        super().__init__(message, act=act)


class CoordinatorError(LabError):
    """The labgrid coordinator or exporter does not answer."""


class LeaseError(LabError):
    """The nodes could not be leased in time, or a leased node was lost."""


class PowerError(LabError):
    """The power switch refused, did not answer, or reported success and changed nothing."""


class ConsoleError(LabError):
    """No login over the serial console."""


class SshError(LabError):
    """A node does not answer over ssh."""


class ShutdownError(SshError):
    """The running system of a node did not shut down for a reboot."""


class SwitchError(LabError):
    """The switch refused a setting, or accepted it and did nothing."""


class LinkError(LabError):
    """No carrier, wrong negotiated speed or duplex, or an unreachable address."""


class DroppedLink(LinkError):
    """The link of the device under test dropped again, on a fresh link-up, or did not come back: the test fails.

    The carrier cannot tell the device from its cable, so a person must look at both. A comparison of two builds blames
    the build only if the other build holds the link.
    """


class TrafficError(LabError):
    """The traffic tool failed. ``evidence`` keeps its output."""

    def __init__(self, message: str, act: str = "", evidence: str = "") -> None:
        super().__init__(message, act)
        self.evidence = evidence

    def add_evidence(self, text: str) -> None:
        """Keep this output, too."""
        self.evidence += text


class ToolError(TrafficError):
    """No traffic was sent, because an end lacks the tool or a free port. This says nothing about the link."""


class UnsupportedError(PinetError):
    """The request needs a feature that is missing. The message names the feature."""


class CapabilityError(UnsupportedError):
    """This part of the lab lacks a feature, or a program. Tests that need it are skipped."""


class TagsLostError(CapabilityError):
    """Tagged frames do not arrive: the switch drops them, or a board. Another build of the board tells which."""


class UnfitBuildError(CapabilityError):
    """An exact board cannot judge a build that has no driver for it, or changes no module that it loads.

    ``build`` says what the build is, as the end of a sentence; ``driver`` is the driver that the board needs.
    """

    def __init__(self, message: str, build: str, driver: str) -> None:
        super().__init__(message)
        self.build = build
        self.driver = driver


class QuarantineError(UnsupportedError):
    """A node is out of service because it did not come up. Tests that need the node are skipped."""


class KernelError(PinetError):
    """The kernel of the device under test failed while a test ran.

    These are panics, oopses, hung tasks, watchdogs and ``NETDEV WATCHDOG``. The test fails, because the change is at
    fault. ``node`` is the device under test.
    """

    def __init__(self, message: str, excerpt: str = "", node: str = "") -> None:
        super().__init__(message, excerpt)
        self.node = node


class BuildError(PinetError):
    """The build under test is at fault, not the lab.

    ``kind`` is one of ``not built``, ``wrong architecture``, ``panic``, ``oops``, ``hang``, ``no login``, ``fell
    back``, ``no driver``, ``no link``, ``slow link``, ``link drops``, ``no traffic`` and ``mismatch``.
    """

    def __init__(self, message: str, kind: str, excerpt: str = "") -> None:
        super().__init__(message, excerpt)
        self.kind = kind


class BuildMismatch(BuildError):
    """The board reports another build than the requested one. No value of this board may be recorded."""

    def __init__(self, message: str, excerpt: str = "") -> None:
        super().__init__(message, "mismatch", excerpt)


# These errors fail the test: the change under test is to blame.
BLAMING = (KernelError, BuildError, DroppedLink)


class InvalidMeasurement(PinetError):
    """A value that must not be judged: it exceeds the physical limit, or a precondition did not hold."""

    def __init__(self, message: str, act: str = "") -> None:
        super().__init__(message, act=act)


class Inconclusive(PinetError):
    """The traffic budget ended before a verdict was certain. The change neither passes nor fails."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, at most 200 characters; the error's type if the message is empty."""
    return next((line.strip()[:200] for line in str(error).splitlines() if line.strip()), type(error).__name__)
