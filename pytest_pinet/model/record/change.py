"""The records of builds A (known-good) and B (under test), and of two states A and B, measured alternately.

Rates are bit/s, durations seconds, times ISO 8601 in UTC, changes are fractions (-0.05: 5 % slower). Instructions of
exact boards are counted for each packet (for requests: for each answer).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pytest_pinet.model.build import BuildSource, CodeDifference
from pytest_pinet.model.evidence import Suspect
from pytest_pinet.model.exact import FunctionChange
from pytest_pinet.model.record.base import Beside, Rare, Record, SparseRecord
from pytest_pinet.model.record.measurement import ConnectionRecord
from pytest_pinet.model.verdict import Verdict

# The baseline of a gate on exact boards, and the name of such a board in ids.
EXACT = "exact"


class BuildFileRecord(Record):
    """One file of a build under its name on the board. ``sha256`` is the hash of its content."""

    role: str
    name: str
    sha256: str
    size: int


class BuildRecord(SparseRecord):
    """A build as it was requested. ``key`` is a hash of all its parts; empty for the board's own build.

    Only some builds have ``rps``, the CPUs that handle received packets, ``irq``, the CPU that handles interrupts, and
    ``features`` of the NIC, such as ``tso=on``.
    """

    name: str
    key: str
    release: str | None
    files: tuple[BuildFileRecord, ...]
    config: tuple[str, ...]
    cmdline: tuple[str, ...]
    options: tuple[str, ...]
    sysctls: tuple[str, ...]
    rps: Rare[str] = None
    irq: Rare[str] = None
    features: Rare[tuple[str, ...]] = None
    source: Rare[BuildSource] = None

    @property
    def known_source(self) -> BuildSource:
        """The source of the build; its texts are empty if nothing is known of it."""
        return self.source or BuildSource()

    @property
    def title(self) -> str:
        return f"{self.name} ({self.key}{f', kernel {self.release}' if self.release else ''})"

    @property
    def settings(self) -> tuple[str, ...]:
        """All settings of the build, one text each."""
        steering = {"rps": self.rps, "irq": self.irq}
        words = [f"{name}={value}" for name, value in steering.items() if value is not None]
        return (*self.config, *self.cmdline, *self.options, *self.sysctls, *words, *(self.features or ()))


class RanRecord(Record):
    """What the device under test ran with one of the builds. ``nic`` is what ``ethtool -i`` says of its NIC.

    ``changed`` names requested values that the kernel changed, ``not_proved`` the parts of the build that the board
    does not report; one sentence each.
    """

    nic: dict[str, str | None]
    changed: tuple[str, ...]
    not_proved: tuple[str, ...]


class TurnRecord(Record):
    """One turn of a build (``A`` or ``B``), numbered from 1: a boot, or the load of a module that needs no boot.

    ``started_s`` is its start after the first turn, ``seconds`` the time before its first measurement. ``running`` is
    what the board reported about itself. ``trouble`` is the reason why nothing was measured; empty if it was measured.
    ``connections`` has the connections of each direction, without samples.
    ``variation`` is the number of the meaningless change with which an exact board booted the build; 0 is none.
    """

    number: int
    side: str
    variation: int = 0
    started_s: float
    seconds: float
    running: dict[str, str | None]
    trouble: str
    connections: dict[str, tuple[ConnectionRecord, ...]] = Field(default_factory=dict)

    def levels(self, way: str) -> tuple[float, ...]:
        """Return the levels of the connections of a direction that count, in bit/s."""
        levels = (one.level_bps for one in self.connections.get(way, ()) if not one.excluded)
        return tuple(level for level in levels if level is not None)


class DifferenceRecord(SparseRecord):
    """The goodput of A and B, and their difference."""

    a_bps: float
    b_bps: float
    change: float | None
    interval: tuple[float, float] | None


class ChangedDirectionRecord(DifferenceRecord):
    """One direction in both builds. ``change`` is B over A minus one, without drift, with its ``interval``.

    ``verdict`` is ``fail`` (B is slower), ``pass``, ``improved`` or ``inconclusive``. ``between_turns`` is the relative
    standard deviation between turns. ``error`` is the smallest error rate of one value at which the verdict is still
    ``fail`` or ``improved``; other verdicts do not have it.
    """

    between_turns: float | None
    verdict: Verdict
    why: str
    error: Rare[float] = None


class ChangedCostRecord(SparseRecord):
    """One cost of the device under test in both builds, such as interrupts per Gbit: the mean of all connections.

    The other keys mean the same as for a direction; ``fail`` is a dearer B. Times are milliseconds per Gbit.
    """

    a: float | None
    b: float | None
    change: float | None
    interval: tuple[float, float] | None
    verdict: Verdict
    why: str
    error: Rare[float] = None


class ChangeRecord(SparseRecord):
    """Both builds for one combination and traffic. ``suspects`` starts with the most likely cause.

    ``costs`` has the costs that were judged (``cpu-per-gbit``, ``softirq-per-gbit``, ``interrupts-per-gbit``), and
    ``cost_tolerance`` the share by which B may be dearer. ``costs_unknown`` says why no cost was judged.
    """

    a: str
    b: str
    tolerance: float
    connections_per_turn: int
    directions: dict[str, ChangedDirectionRecord]
    turns: tuple[TurnRecord, ...]
    suspects: tuple[Suspect, ...]
    costs: Rare[dict[str, ChangedCostRecord]] = None
    cost_tolerance: Annotated[float | None, Beside("costs")] = None
    costs_unknown: Rare[str] = None


class ChangeEntryRecord(SparseRecord):
    """The verdict on one metric in build B; ``text`` is one sentence. Reports say ``regression`` for ``fail``.

    ``finding`` is the kind of a failure of the build itself (``panic``, ``no driver`` and so on); empty without one.
    ``lab`` is that of the result, if runs of several labs were merged. ``cost`` is set for a dearer cost of the device
    under test: it is the key of the cost, and ``a`` and ``b`` are its values. ``layout`` is true for a metric that is
    slower although only the order and the addresses of the code differ.
    """

    id: str
    direction: str
    verdict: Verdict
    text: str
    a_bps: float | None = None
    b_bps: float | None = None
    change: float | None = None
    suspect: str = ""
    finding: str = ""
    lab: Rare[str] = None
    cost: Rare[str] = None
    a: Rare[float] = None
    b: Rare[float] = None
    layout: Rare[bool] = None

    @property
    def result_key(self) -> tuple[str | None, str]:
        """The lab and the id of its result. Merged labs can have results with the same id."""
        return self.lab, self.id


class ChangeHeadRecord(Record):
    """The verdict on the whole change, and the exit codes of ``pinet gate`` without and with ``--bisect``.

    ``verdict`` is ``pass`` (it may be merged), ``fail``, ``error`` (the lab broke) or ``inconclusive``.
    ``baseline`` is ``interleaved`` (A was measured in the same run), ``exact`` (on exact boards) or ``accepted``.
    ``turns`` is the number of all turns. ``nics``, ``changed`` and ``not_proved`` are sentences on what ran on all
    boards. ``note`` is a sentence of an exact gate on both builds: the whole kernel differs, or nothing is judged.
    ``code`` is what differs between two builds if a lab measured B as slower; all empty: only order and addresses.
    """

    a: BuildRecord
    b: BuildRecord
    baseline: str
    verdict: Verdict
    exit: int
    bisect_exit: int
    sentence: str
    turns: int
    entries: tuple[ChangeEntryRecord, ...]
    nics: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    not_proved: tuple[str, ...] = ()
    note: str = ""
    code: CodeDifference | None = None


class StateTurnRecord(Record):
    """One connection of a comparison: its state, its start (seconds after the start of the comparison), its directions.

    ``seconds`` is its whole time, with set-up. A connection with a reason in ``excluded`` belongs to no pair.
    """

    side: str
    started_s: float
    seconds: float
    connections: dict[str, ConnectionRecord]


class SideRecord(DifferenceRecord):
    """One direction: its goodput in both states, and the difference.

    ``change`` is B over A minus one, without drift; ``interval`` is its interval at the error rate (null: not known).
    """

    verdict: Verdict
    why: str


class ComparisonRecord(Record):
    """A whole comparison. ``why`` is that of its worst direction. ``turns`` has all connections in their order.

    ``builds`` is the build of the device under test in each state (``A``, ``B``). ``error_rate`` is the accepted
    probability of a wrong result.
    """

    id: str
    a: str
    b: str
    why: str
    tolerance: float
    error_rate: float
    pairs: int
    directions: dict[str, SideRecord]
    turns: tuple[StateTurnRecord, ...]
    started: str
    seconds: float
    builds: dict[str, dict[str, str | None]]
    traffic_seconds: float


class ExactSideRecord(Record):
    """One build: packets, virtual time, and all instructions for each packet (null: not counted).

    ``variation`` is the number of the meaningless change of the boot that has these values; 0 is none.
    """

    variation: int
    packets: int
    virtual_ns: int
    packets_per_second: float
    instructions: float | None


class ExactChangeRecord(Record):
    """One window of an exact board. Each value repeats to the last digit on every machine with this QEMU.

    ``unit`` is ``packet`` or ``answer``. ``modules`` are the modules that the build changes; an empty name is the
    kernel image. ``limit`` is the limit on the sum of all instructions in words; ``shift`` is the part of their change
    that every other binary has, too, and which is not judged. ``functions`` are the functions that changed most, the
    most telling first. ``more`` is the number of all others that changed, ``more_change`` their sum. ``no_functions``
    is the reason why functions were not counted; empty if they were.
    """

    nic: str
    device: str
    machine: str
    qemu: str
    processors: int
    unit: str
    octets: int
    a: ExactSideRecord
    b: ExactSideRecord
    modules: tuple[str, ...]
    limit: str
    shift: float
    functions: tuple[FunctionChange, ...]
    more: int
    more_change: float
    no_functions: str

    @property
    def change_of_sum(self) -> float | None:
        """The change of all instructions for each packet; None if they were not counted."""
        before, after = self.a.instructions, self.b.instructions
        return None if before is None or after is None else after - before
