"""Judge a new build against the known-good one on an exact board, where each boot repeats to the last digit.

Where frames come one by one, a driver handles each in the same way with any other binary, so a change of one
instruction in a driver is certain from one boot of each build. All other counts also depend on where memory lies and
when a timer fires, which differs in any other binary. If one of these exceeds its limit, both builds are booted again,
each time with another meaningless change (``exact/payload.py``). A window is slower, or faster, only if each boot of B
exceeds each boot of A by more than the limit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product

from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.exact_functions import (
    ROUNDING,
    SHIFT,
    FunctionPair,
    changes,
    counts_of,
    explaining,
    functions_of,
    pairs,
)
from pytest_pinet.judge.statistics import percent
from pytest_pinet.model.exact import (
    Comparison,
    ExactBoot,
    ExactIdentity,
    ExactWindow,
    Function,
    FunctionChange,
    InstructionLimit,
)
from pytest_pinet.model.quantities import Growth, Share

TCP = "tcp"
_ANSWERED = ("request", "bulk")
# Each build is booted at most so often.
MOST_BOOTS = 5
DEFAULT_SOURCE = "default"
# Smaller changes of instructions and of goodput are no regression by default.
LEAST = 0.01
# A short path may grow by this many instructions, whatever share that is.
_LEAST_GROWTH = 20.0
# A larger window shifts by more: four packets belong to a request and its answer.
_SHIFT_SHARE = 0.01
# A smaller change of goodput or of a rate is "unchanged" in words.
UNCHANGED = 0.0005
INSTRUCTIONS, GOODPUT = "instructions", "goodput"
# Why a window has no verdict.
UNJUDGED = "not judged, since no known-good build is named"


@dataclass(frozen=True)
class ExactLimits:
    """The limits of a gate: on instructions, and the share by which goodput may fall. None is the default."""

    instructions: tuple[InstructionLimit, ...] = ()
    tolerance: float | None = None

    @property
    def of_sum(self) -> InstructionLimit:
        """The limit on the sum of all functions. The limit that was written last counts."""
        own = [limit for limit in self.instructions if not limit.function]
        return own[-1] if own else InstructionLimit(Growth(Share(LEAST), _LEAST_GROWTH), DEFAULT_SOURCE)

    @property
    def of_goodput(self) -> float:
        """The share by which goodput and packets per second may fall."""
        return LEAST if self.tolerance is None else self.tolerance

    def of_function(self, function: Function) -> InstructionLimit | None:
        """Return the limit on one function, or None. Of several globs, the one that was written last counts."""
        own = [one for one in self.instructions if one.function and fnmatchcase(function.name, one.function)]
        return own[-1] if own else None


@dataclass(frozen=True)
class WindowChange:
    """One window of both builds and the verdict on B.

    After several boots of each build, these are the two boots that differ least; ``variations`` are the numbers of
    their meaningless changes. ``sum_a`` and ``sum_b`` are all instructions for each packet, None if neither the plugin
    nor the guest counted them. ``shift`` is the part of their change that any other binary has. ``functions`` are all
    that changed, the most telling first. ``unit`` is ``packet`` or ``answer``. ``is_certain``: more boots cannot change
    the result.
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
    variations: tuple[int, int] = (0, 0)
    result: Relation = Relation.GO_ON
    why: str = ""
    is_certain: bool = True

    @property
    def change(self) -> float:
        """The relative change of virtual goodput, B over A minus one."""
        return self.b.goodput_bps / self.a.goodput_bps - 1

    @property
    def change_of_sum(self) -> float | None:
        """The change of all instructions for each packet."""
        return None if self.sum_a is None or self.sum_b is None else self.sum_b - self.sum_a

    @property
    def judged(self) -> float:
        """The part of the change of all instructions that is judged."""
        return 0.0 if self.change_of_sum is None else self.change_of_sum - self.shift

    @property
    def rate(self) -> float:
        """The relative change of what is judged of the time: goodput, or packets per second if these fell more."""
        # Packets of TCP have other sizes in another batching: only its goodput counts.
        other = self.change if self.a.traffic == TCP else self.b.packets_per_second / self.a.packets_per_second - 1
        return min(self.change, other)


@dataclass(frozen=True)
class ExactChange:
    """All windows of both builds. ``missing`` names the windows that not all boots have, one sentence each.

    ``modules`` are the modules that the build changes (empty: the kernel image).
    """

    windows: tuple[WindowChange, ...]
    missing: tuple[str, ...]
    modules: tuple[str, ...]

    @property
    def uncertain(self) -> list[WindowChange]:
        """The windows that exceed a limit in all boots so far, but may do so by chance."""
        return [one for one in self.windows if not one.is_certain]


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


Boots = Mapping[int, ExactBoot]


def judge_exact(
    a: ExactBoot,
    b: ExactBoot,
    limits: ExactLimits,
    more: tuple[Boots, Boots] = ({}, {}),
    code: Mapping[str, Collection[str]] | None = None,
) -> ExactChange:
    """Judge each window of B by the same window of A.

    ``more`` are further boots of A and of B by the number of their meaningless change. ``code`` are the names of the
    functions whose code differs, by module; None if this is not known.
    """
    boots = {0: a, **more[0]}, {0: b, **more[1]}
    names_a, names_b = (
        [window.name for window in own[0].windows if all(boot.window(window.name) for boot in own.values())]
        for own in boots
    )
    missing = [f"{name} was measured with {side} only" for side, own, other in
               (("A", names_a, names_b), ("B", names_b, names_a)) for name in own if name not in other]  # fmt: skip
    comparison = _Comparison(*boots, limits, None if code is None else functions_of(code))
    windows = tuple(comparison.judged(name) for name in names_a if name in names_b)
    return ExactChange(windows, tuple(missing), comparison.modules)


def unjudged(found: ExactChange) -> ExactChange:
    """Return the same windows without a verdict: no known-good build is named."""
    windows = tuple(replace(one, result=Relation.INCONCLUSIVE, why=UNJUDGED) for one in found.windows)
    return replace(found, windows=windows)


class _Comparison:
    """Compares windows of boots of A and of B by the numbers of their meaningless changes."""

    def __init__(self, a: Boots, b: Boots, limits: ExactLimits, code: Collection[Function] | None) -> None:
        self._a, self._b, self._limits, self._code = a, b, limits, code
        self._identity = a[0].identity
        # Each boot is compared with several others.
        self._counts_a, self._counts_b = ({number: counts_of(boot) for number, boot in own.items()} for own in (a, b))
        self._paired: dict[tuple[int, int], list[FunctionPair]] = {}
        self.modules = changed_modules(a[0].identity, b[0].identity)

    def judged(self, name: str) -> WindowChange:
        shown = self._compared(name, 0, 0)
        slower, faster, note = _slower(shown), _faster(shown), ""
        enough = min(len(self._a), len(self._b)) >= MOST_BOOTS
        exact = _exact(shown)
        if exact.intersection(slower):
            slower, enough = {what: text for what, text in slower.items() if what in exact}, True
        elif not slower and exact.intersection(faster):
            enough = True
        elif slower or faster:
            every = [self._compared(name, *numbers) for numbers in product(self._a, self._b)]
            shown = min(every, key=lambda one: (len(_slower(one)) + len(_faster(one)), _distance(one)))
            for one in every:
                slower = {what: text for what, text in slower.items() if what in _slower(one)}
                faster &= _faster(one)
            note = f"; these two of {len(self._a)} + {len(self._b)} boots differ least" if len(every) > 1 else ""
        result = Relation.SLOWER if slower else Relation.FASTER if faster else Relation.SAME
        # One function is enough for a sentence. The list of functions has the others.
        rest = [what for what in slower if what not in (INSTRUCTIONS, GOODPUT)][1:]
        texts = [text for what, text in slower.items() if what not in rest]
        reasons = f": {', and '.join(texts)}" if texts else ""
        why = f"{_facts(shown, result, slower)}{note}{reasons}"
        # A function that misses its limit in these two boots only misses none.
        functions = [one if str(one.function) in slower else replace(one, missed="") for one in shown.functions]
        certain = enough or result is Relation.SAME
        return replace(shown, functions=tuple(functions), result=result, why=why, is_certain=certain)

    def _compared(self, name: str, number_a: int, number_b: int) -> WindowChange:
        """Return what changed in a window from one boot of A to one boot of B."""
        boots = self._a[number_a], self._b[number_b]
        a, b = (window for boot in boots if (window := boot.window(name)) is not None)
        # TCP moves a fixed number of octets. Packets of another size for the same octets are no other amount of work.
        per_a, per_b = a.packets, a.packets if a.traffic == TCP else b.packets
        if (numbers := (number_a, number_b)) not in self._paired:
            self._paired[numbers] = pairs(self._counts_a[number_a], self._counts_b[number_b])
        functions = changes(
            a,
            b,
            self._paired[numbers],
            self.modules,
            self._identity,
            self._limits.of_function,
            (per_a, per_b),
            self._code,
        )
        total_a, total_b = _total(a), _total(b)
        sum_a, sum_b, shift = None, None, 0.0
        if total_a is not None and total_b is not None:
            sum_a, sum_b = total_a / per_a, total_b / per_b
            most = max(SHIFT, _SHIFT_SHARE * sum_a)
            shifting = [one.change for one in functions if one.comparison is Comparison.SHIFTING]
            # Without functions, the part that shifts is not known: all of the change may belong to it.
            moved = sum(shifting) if a.functions and b.functions else sum_b - sum_a
            # A decrease excuses nothing.
            shift = min(max(moved, 0.0), most)
        unit = "answer" if a.traffic in _ANSWERED or a.is_event else "packet"
        limit, tolerance = self._limits.of_sum, self._limits.of_goodput
        return WindowChange(a, b, unit, sum_a, sum_b, shift, tuple(functions), tolerance, limit, numbers)


def _total(window: ExactWindow) -> int | None:
    return window.pmu_instructions if window.instructions is None else window.instructions


def _slower(found: WindowChange) -> dict[str, str]:
    """Return the limits that B misses, in words, by what they limit: instructions, goodput, or a function."""
    reasons = {}
    if found.sum_a is not None and found.judged > found.limit.bound.most(found.sum_a):
        reasons[INSTRUCTIONS] = f"instructions grow by more than {found.limit}"
    for one in found.functions:
        if one.missed:
            reasons[str(one.function)] = f"{one.function} grows by more than {one.missed}"
    # Without a time of its own, the time is that of the instructions, which have a limit already.
    if found.rate < -found.tolerance and found.a.is_timed:
        reasons[GOODPUT] = f"goodput falls by more than {percent(found.tolerance)}"
    return reasons


def _faster(found: WindowChange) -> set[str]:
    """Return what is better with B by more than the limit would allow it to be worse."""
    fewer = found.sum_a is not None and -found.judged > found.limit.bound.most(found.sum_a)
    sooner = found.change > found.tolerance and found.a.is_timed
    return ({INSTRUCTIONS} if fewer else set()) | ({GOODPUT} if sooner else set())


def _exact(found: WindowChange) -> set[str]:
    """Return what is certain from these two boots, because functions of modules alone decide it."""
    if not found.a.one_by_one:
        return set()
    exact = Comparison.DRIVER, Comparison.CHANGED
    own = [
        one
        for one in found.functions
        if one.comparison in exact and (one.module or one.comparison is not Comparison.CHANGED)
    ]
    grown = sum(one.change for one in own)
    exceeds = found.sum_a is not None and abs(grown) > found.limit.bound.most(found.sum_a)
    same_way = grown * found.judged > 0
    return {str(one.function) for one in own if one.missed} | ({INSTRUCTIONS} if exceeds and same_way else set())


def _distance(found: WindowChange) -> float:
    return abs(found.judged / found.sum_a) if found.sum_a else abs(found.rate)


def _facts(found: WindowChange, result: Relation, slower: Collection[str]) -> str:
    """Return the sentence ``gem_rx [macb] 151.00 -> 155.00 instructions per packet (+4.00); goodput unchanged``.

    It names the function that misses its limit, or else the one that explains most of what was judged. An event is a
    time, during which the kernel mostly waits: it names a function only if the instructions decide.
    """
    parts = []
    grown = found.change_of_sum
    functions = explaining(found.functions, found.shift, result)
    if slower and not {INSTRUCTIONS, GOODPUT}.intersection(slower):
        functions = [one for one in found.functions if str(one.function) in slower]
    if found.a.is_event:
        times = [f"{one.virtual_ns / 1e6:.3f} ms" for one in (found.a, found.b)]
        parts.append(f"first answer after {' -> '.join(dict.fromkeys(times))}")
        functions = functions if INSTRUCTIONS in slower else []
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
    return "; ".join(parts)
