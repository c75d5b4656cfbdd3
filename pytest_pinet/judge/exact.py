"""Judge a new build against the known-good one from one boot each, in a world without noise.

Values of an exact board repeat to the last digit. Where frames come one by one, a driver handles each in the same way
with any other binary, so a change of one instruction in a driver is certain; only functions that shift with any other
binary (``exact_functions.is_shifting``) have a tolerance there. With requests and at full load, a driver may handle
another number of packets at once, so the whole window has a measured tolerance, and no function has a limit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.exact_functions import FunctionPair, is_of_driver, is_shifting, pairs, whole
from pytest_pinet.judge.exact_spread import ExactSpread, change_of_rhythm, tolerance_of
from pytest_pinet.judge.text import percent
from pytest_pinet.model.exact import ExactBoot, ExactIdentity, ExactWindow, Function
from pytest_pinet.model.limits import InstructionLimit
from pytest_pinet.model.quantities import Growth, Share

FRAME, TCP = "frame", "tcp"
_ANSWERED = ("request", "bulk")
# Where a driver may fall into another rhythm.
_FULL_LOAD = ("pktgen", "sender", TCP)
DEFAULT_SOURCE = "default"
# A short path may grow by this many instructions, whatever share that is.
_LEAST_GROWTH = 20.0
# How far the shifting functions together may move, in instructions for each packet. A rebuild of e1000e without changes
# moved them by 9.5, four nops in macb by 46.
SHIFT = 50.0
# The importance of functions of a module that the build changes. Only functions that miss a limit are before them.
OF_CHANGE = 1
# A larger window shifts by more: four packets belong to a request and its answer.
_SHIFT_SHARE = 0.01
# A smaller change of goodput or of a rate is "unchanged" in words.
UNCHANGED = 0.0005
# A smaller change of a function is rounding.
ROUNDING = 0.005


class Comparison(StrEnum):
    """How a function is compared. CHANGED and DRIVER functions are compared exactly."""

    CHANGED = "changed module"
    DRIVER = "driver under test"
    SHIFTING = "shifts with any binary"
    OTHER = "other"


@dataclass(frozen=True)
class FunctionChange:
    """The instructions of a function for each packet in both builds. ``missed`` is the limit that it misses.

    ``was`` is another name or module that the function had in A; None if it is unchanged.
    """

    function: Function
    a: float
    b: float
    comparison: Comparison
    was: Function | None = None
    missed: str = ""

    @property
    def change(self) -> float:
        """The change in instructions for each packet."""
        return self.b - self.a

    @property
    def text(self) -> str:
        """The change in words: ``gem_rx [macb] 151.00 -> 155.00``."""
        was = f"{self.was} -> " if self.was is not None else ""
        return f"{was}{self.function} {self.a:.2f} -> {self.b:.2f}"


@dataclass(frozen=True)
class ExactLimits:
    """The limits of a gate: on instructions, and the share by which goodput may fall. None is the default."""

    instructions: tuple[InstructionLimit, ...] = ()
    tolerance: float | None = None

    def of_sum(self, usual: ExactSpread) -> InstructionLimit:
        """Return the limit on the sum of all functions. The limit that was written last counts."""
        own = [limit for limit in self.instructions if not limit.function]
        if own:
            return own[-1]
        return InstructionLimit(Growth(Share(usual.instructions), _LEAST_GROWTH), DEFAULT_SOURCE)

    def of_function(self, function: Function) -> InstructionLimit | None:
        """Return the limit on one function, or None. Of several globs, the one that was written last counts."""
        own = [one for one in self.instructions if one.function and fnmatchcase(function.name, one.function)]
        return own[-1] if own else None

    def of_goodput(self, usual: ExactSpread) -> float:
        """Return the share by which goodput and packets per second may fall."""
        return usual.goodput if self.tolerance is None else self.tolerance


@dataclass(frozen=True)
class WindowChange:
    """One window of both builds and the verdict on B.

    ``sum_a`` and ``sum_b`` are all instructions for each packet, None if neither the plugin nor the guest counted them.
    ``shift`` is the part of their change that any other binary has. ``functions`` are all that changed, the most
    telling first. ``unit`` is ``packet`` or ``answer``. ``rhythm`` is the change of the interrupts for each packet if
    the driver is in another rhythm with B, else None.
    """

    a: ExactWindow
    b: ExactWindow
    unit: str
    sum_a: float | None
    sum_b: float | None
    shift: float
    functions: tuple[FunctionChange, ...]
    tolerance: float
    limit: InstructionLimit
    rhythm: float | None = None
    result: Relation = Relation.GO_ON
    why: str = ""

    @property
    def change(self) -> float:
        """The relative change of virtual goodput, B over A minus one."""
        return self.b.goodput_bps / self.a.goodput_bps - 1

    @property
    def change_of_sum(self) -> float | None:
        """The change of all instructions for each packet."""
        return None if self.sum_a is None or self.sum_b is None else self.sum_b - self.sum_a


@dataclass(frozen=True)
class ExactChange:
    """All windows of both boots. ``missing`` names the windows that only one boot has, one sentence each.

    ``modules`` are the modules that the build changes (empty: the kernel image).
    """

    windows: tuple[WindowChange, ...]
    missing: tuple[str, ...]
    modules: tuple[str, ...]


def changed_modules(a: ExactIdentity, b: ExactIdentity) -> tuple[str, ...]:
    """Return the modules that differ, as far as a window can run them; empty text is the kernel image itself."""
    names = sorted({*a.modules, *b.modules})
    image = [""] if a.image != b.image else []
    return (*image, *(name for name in names if a.modules.get(name) != b.modules.get(name)))


def differs_beside_build(a: ExactIdentity, b: ExactIdentity) -> str:
    """Return why values of two boots cannot be compared, in one sentence; empty if they can be compared."""
    for name in ("board", "machine", "nic", "model", "qemu", "processors", "traffic", "plugin_api"):
        one, other = getattr(a, name), getattr(b, name)
        if one != other:
            return f"the boots cannot be compared: {name.replace('_', ' ')} was {one} with A and {other} with B"
    return ""


def judge_exact(a: ExactBoot, b: ExactBoot, limits: ExactLimits) -> ExactChange:
    """Judge each window of B by the same window of A."""
    modules = changed_modules(a.identity, b.identity)
    paired = pairs(a, b)
    names_a, names_b = ([window.name for window in boot.windows] for boot in (a, b))
    missing = [f"{name} was measured with {side} only" for side, own, other in
               (("A", names_a, names_b), ("B", names_b, names_a)) for name in own if name not in other]  # fmt: skip
    windows = [
        _judge_window(one, other, paired, modules, a.identity, limits)
        for one in a.windows
        if (other := b.window(one.name)) is not None
    ]
    return ExactChange(tuple(windows), tuple(missing), modules)


def _judge_window(
    a: ExactWindow,
    b: ExactWindow,
    paired: Sequence[FunctionPair],
    modules: Sequence[str],
    identity: ExactIdentity,
    limits: ExactLimits,
) -> WindowChange:
    # TCP moves a fixed number of octets. Packets of another size for the same octets are no other amount of work.
    per_a, per_b = a.packets, a.packets if a.traffic == TCP else b.packets
    functions = _changes(a, b, paired, modules, identity, limits, (per_a, per_b))
    total_a, total_b = _total(a), _total(b)
    counted = total_a is not None and total_b is not None
    sum_a = total_a / per_a if counted and total_a is not None else None
    sum_b = total_b / per_b if counted and total_b is not None else None
    shift = 0.0
    if sum_a is not None and sum_b is not None:
        most = max(SHIFT, _SHIFT_SHARE * sum_a)
        shifting = [one.change for one in functions if one.comparison is Comparison.SHIFTING]
        # Without functions, the part that shifts is not known: all of the change may belong to it.
        moved = sum(shifting) if a.functions and b.functions else sum_b - sum_a
        # A decrease excuses nothing: where a driver falls into another rhythm, work moves between all functions.
        shift = min(max(moved, 0.0), most)
    rhythm = change_of_rhythm(a, b) if a.traffic in _FULL_LOAD else None
    usual = tolerance_of(identity.driver, a.name, rhythm is None, identity.processors)
    limit, tolerance = limits.of_sum(usual), limits.of_goodput(usual)
    unit = "answer" if a.traffic in _ANSWERED or a.is_event else "packet"
    found = WindowChange(a, b, unit, sum_a, sum_b, shift, tuple(functions), tolerance, limit, rhythm)
    result, why = _verdict(found)
    return replace(found, result=result, why=why)


def _total(window: ExactWindow) -> int | None:
    return window.pmu_instructions if window.instructions is None else window.instructions


def _changes(
    a: ExactWindow,
    b: ExactWindow,
    paired: Sequence[FunctionPair],
    modules: Sequence[str],
    identity: ExactIdentity,
    limits: ExactLimits,
    per: tuple[int, int],
) -> list[FunctionChange]:
    """Return every function that changed, the most telling first."""
    if not a.functions or not b.functions:
        return []
    counts_a, counts_b = whole(a), whole(b)
    found = []
    for pair in paired:
        one, other = counts_a.get(pair.a, 0) / per[0], counts_b.get(pair.b, 0) / per[1]
        if abs(other - one) < ROUNDING:
            continue
        was = pair.a if pair.a != pair.b else None
        comparison = _comparison(pair, modules, identity)
        limit = limits.of_function(pair.b) if a.one_by_one else None
        missed = str(limit) if limit is not None and other - one > limit.bound.most(one) else ""
        found.append(FunctionChange(pair.b, one, other, comparison, was, missed))
    return sorted(
        found, key=lambda one: (importance(one.missed, one.comparison, one.change, modules), -abs(one.change))
    )


def _comparison(pair: FunctionPair, modules: Sequence[str], identity: ExactIdentity) -> Comparison:
    names = {pair.a.module, pair.b.module}.intersection(modules)
    if names - {""}:
        return Comparison.CHANGED
    if is_of_driver(pair.a, identity) or is_of_driver(pair.b, identity):
        return Comparison.DRIVER
    if is_shifting(pair.b) and is_shifting(pair.a):
        return Comparison.SHIFTING
    return Comparison.CHANGED if names else Comparison.OTHER


def importance(missed: str, comparison: str, change: float, modules: Collection[str]) -> int:
    """Return the place of one function among the functions that changed: 0 is the first.

    ``modules`` is as in ``ExactChange``.
    A change of a module explains the others. A change of the whole kernel explains itself.
    """
    if missed:
        return 0
    if comparison == Comparison.CHANGED and "" not in modules:
        return OF_CHANGE
    return 3 if comparison == Comparison.SHIFTING and abs(change) <= SHIFT else 2


def _verdict(found: WindowChange) -> tuple[Relation, str]:
    """Return the relation of B to A, and the sentence: the limit that is missed, or the first function that changed."""
    grown = found.change_of_sum
    missed = [one for one in found.functions if one.missed]
    slower = []
    judged = 0.0 if grown is None else grown - found.shift
    if grown is not None and found.sum_a is not None and judged > found.limit.bound.most(found.sum_a):
        slower.append(f"instructions grow by more than {found.limit}")
    slower += [f"{one.function} grows by more than {one.missed}" for one in missed[:1]]
    rate = found.b.packets_per_second / found.a.packets_per_second - 1
    # Packets of TCP have other sizes in another batching: only its goodput counts.
    worst = found.change if found.a.traffic == TCP else min(found.change, rate)
    # The time of single frames is that of their instructions, which have a limit already.
    if worst < -found.tolerance and found.a.traffic != FRAME:
        slower.append(f"goodput falls by more than {percent(found.tolerance)}")
    facts = _facts(found)
    if slower:
        return Relation.SLOWER, f"{facts}: {', and '.join(slower)}"
    falls = grown is not None and found.sum_a is not None and -judged > found.limit.bound.most(found.sum_a)
    if falls or found.change > found.tolerance:
        return Relation.FASTER, facts
    return Relation.SAME, facts


def _facts(found: WindowChange) -> str:
    """Return the sentence ``gem_rx [macb] 151.00 -> 155.00 instructions per packet (+4.00); goodput unchanged``.

    An event is a time, during which the kernel mostly waits: its sentence has this time and names no function.
    """
    parts = []
    grown, functions = found.change_of_sum, () if found.a.is_event else found.functions
    if found.a.is_event:
        times = [f"{one.virtual_ns / 1e6:.3f} ms" for one in (found.a, found.b)]
        parts.append(f"first answer after {' -> '.join(dict.fromkeys(times))}")
    if functions:
        first = functions[0]
        parts.append(f"{first.text} instructions per {found.unit} ({first.change:+.2f})")
    if grown is None:
        parts.append("instructions not counted")
    elif functions and abs(grown - functions[0].change) >= ROUNDING:
        parts.append(f"sum {found.sum_a:.2f} -> {found.sum_b:.2f} ({grown:+.2f})")
    elif not functions:
        parts.append(f"{found.sum_b:.2f} instructions per {found.unit}" + (f" ({grown:+.2f})" if grown else ""))
    change = found.change
    parts.append("goodput unchanged" if abs(change) < UNCHANGED else f"goodput {change * 100:+.2f} %")
    if found.rhythm is not None:
        parts.append(f"another rhythm, {found.rhythm * 100:+.0f} % interrupts per {found.unit}")
    return "; ".join(parts)
