"""The boots of both builds on an exact board: one of each, and more until the answer on each window is certain."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from pytest_pinet.ab.boots import known_good_error
from pytest_pinet.builds.archives import Unreadable
from pytest_pinet.builds.module_code import compare_modules
from pytest_pinet.errors import BuildError, ConfigError, InvalidMeasurement, PinetError, UnsupportedError
from pytest_pinet.exact.board import ExactBoard
from pytest_pinet.exact.measure import ExactBench, stock_build, stock_release
from pytest_pinet.exact.payload import OPTIONAL, VLAN_MODULE, Payload, module_names
from pytest_pinet.judge.exact import (
    MOST_BOOTS,
    ExactChange,
    ExactLimits,
    changed_modules,
    differs_beside_build,
    judge_exact,
)
from pytest_pinet.judge.turns import Side
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import VLAN, ExactIdentity, MadeExactBoot
from pytest_pinet.session.exact_gate import PlannedExactBoot

Say = Callable[[str], None]
# The first boots of a known-good build prove that the board is exact.
_PROOF = 2


class QemuMachines:
    """Implements ``ExactMachines``.

    A known-good build that consists of modules replaces modules of the stock kernel, as the build under test does. The
    build under test replaces modules of the known-good kernel.
    """

    def __init__(self, boards: Mapping[str, ExactBoard]) -> None:
        self._boards = boards
        self._stock: Build | None = None
        self._benches: dict[str, ExactBench] = {}
        self._kernels: dict[str, Build] = {}
        self._pages_kib: dict[str, int] = {}
        # The optional modules that both builds have, by NIC: equal traffic is compared.
        self._optional: dict[str, Collection[str]] = {}
        self._stop = threading.Event()

    @property
    def nics(self) -> Sequence[str]:
        return tuple(self._boards)

    def stock_release(self, say: Say) -> str:
        return stock_release(say)

    def known_good(self, nic: str, build: Build | None, new: Build, say: Say) -> PlannedExactBoot:
        bench = self._bench(nic)
        kernel = build if build is not None and build.kernel is not None else self._stock_kernel(say)
        self._kernels[nic] = kernel
        self._optional[nic] = module_names(kernel, build).intersection(module_names(kernel, new), OPTIONAL)
        if VLAN in bench.board.nic.windows and VLAN_MODULE not in self._optional[nic]:
            say(f"{nic}: no traffic in a VLAN, because not both builds have the module {VLAN_MODULE}")
        payload = bench.payload(kernel, build, self._optional[nic])
        self._pages_kib[nic] = payload.pages_kib
        return self._planned(bench, payload, say, proves=True)

    def boot(self, nic: str, build: Build, say: Say) -> PlannedExactBoot:
        bench = self._bench(nic)
        payload = bench.payload(self._kernels[nic], build, self._optional[nic])
        if (known := self._pages_kib[nic]) != payload.pages_kib:
            raise ConfigError(
                f"{build} has pages of {payload.pages_kib} KiB, but {self._kernels[nic]}, with which it is compared, "
                f"has pages of {known} KiB: they run on different processors, whose counts differ; name a known-good "
                f"kernel with pages of {payload.pages_kib} KiB (--against)"
            )
        return self._planned(bench, payload, say)

    def _planned(self, bench: ExactBench, payload: Payload, say: Say, proves: bool = False) -> PlannedExactBoot:
        def boots(number: int) -> int:
            if proves and not number:
                return 0 if bench.is_proved(payload) else _PROOF
            return int(not bench.is_measured(payload.vary(number)))

        def make(number: int) -> MadeExactBoot:
            booted = bench.known_good if proves and not number else bench.measured
            # The reason for more boots stays on the line of progress.
            return booted(payload.vary(number), say if number == 0 else lambda _: None, [self._stop])

        return PlannedExactBoot(boots, make, payload.files)

    def stop(self) -> None:
        self._stop.set()

    def _bench(self, nic: str) -> ExactBench:
        if nic not in self._benches:
            self._benches[nic] = ExactBench(self._boards[nic])
        return self._benches[nic]

    def _stock_kernel(self, say: Say) -> Build:
        if self._stock is None:
            self._stock = stock_build(say)
        return self._stock


# One for each of the processors that even a small machine has. More wait for room (``exact/qemu.py``).
_AT_ONCE = 2
# A boot by the number of its meaningless change.
Turn = tuple[int, Side]


class ExactSeries:
    """The boots of both builds for one NIC. Each test that judges them has its own limits, and may need more boots."""

    def __init__(
        self, nic: str, a: PlannedExactBoot, b: PlannedExactBoot, name_of_a: str, say: Callable[[str], None]
    ) -> None:
        """``name_of_a`` is empty if A is the build under test, too."""
        self._nic = nic
        self._plans = {Side.A: a, Side.B: b}
        self._name_of_a = name_of_a
        self._say = say
        self._boots: dict[Turn, MadeExactBoot] = {}
        self._broken: PinetError | None = None
        self._lock = threading.Lock()

    @property
    def boots(self) -> Mapping[Turn, MadeExactBoot]:
        """All boots so far, by the numbers of their meaningless changes."""
        return dict(sorted(self._boots.items()))

    @property
    def identity(self) -> ExactIdentity | None:
        """What ran with B; None before its first boot has ended."""
        made = self._boots.get((0, Side.B))
        return None if made is None else made.boot.identity

    def judge(self, limits: ExactLimits) -> ExactChange:
        """Boot both builds until the answer on each window is certain, and return it.

        Raises BuildError, UnsupportedError and LabError of the boots, and InvalidMeasurement.
        """
        with self._lock:
            if self._broken is not None:
                # An exact board gives the same result each time.
                raise self._broken
            self._make([(0, Side.A)])
            self._make([(0, Side.B)])
            found = self._judged(limits)
            more = [(number, side) for number in range(1, MOST_BOOTS) for side in Side]
            if found.uncertain:
                # What is known costs no boot.
                self._make([turn for turn in more if not self._plans[turn[1]].boots(turn[0])])
                found = self._judged(limits)
            more = [turn for turn in more if turn not in self._boots]
            if found.uncertain and more:
                self._say(self._why(found, len(more)))
            while found.uncertain and more:
                self._make(more[:_AT_ONCE])
                more = more[_AT_ONCE:]
                found = self._judged(limits)
            return found

    def _why(self, found: ExactChange, more: int) -> str:
        """Return why both builds boot again, in a sentence that fits in one line of progress."""
        first, *others = (one.b.name for one in found.uncertain)
        windows = f"{first} and {len(others)} more" if others else first
        return f"{self._nic}: {windows} beyond the limit; up to {more} more boots decide"

    def _make(self, turns: Sequence[Turn]) -> None:
        """Make these boots at the same time, unless they were made before.

        If both builds fail, the known-good build, which comes first, is to blame.
        """
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            boots = {
                (number, side): threads.submit(self._plans[side].make, number)
                for number, side in turns
                if (number, side) not in self._boots
            }
        for (number, side), made in boots.items():
            try:
                self._boots[number, side] = made.result()
            except UnsupportedError as error:
                self._broken = error
                raise
            except BuildError as error:
                if side is Side.B or not self._name_of_a:
                    self._broken = error
                    raise
                self._broken = known_good_error(error, self._name_of_a)
                raise self._broken from error

    @cached_property
    def _code(self) -> Mapping[str, Sequence[str]] | None:
        """The functions with other code in B, by module; None if this is not known of each changed module.

        It is never known of the functions of a changed kernel image.
        """
        a, b = (self._boots[0, side].boot.identity for side in Side)
        modules_a, modules_b = (self._plans[side].modules for side in Side)
        try:
            found = {name: compare_modules(modules_a[name], modules_b[name]) for name in changed_modules(a, b) if name}
        except (KeyError, Unreadable):
            return None
        return {name: (*one.changed, *one.came, *one.went) for name, one in found.items()}

    def _judged(self, limits: ExactLimits) -> ExactChange:
        a, b = ({number: made.boot for (number, own), made in self.boots.items() if own is side} for side in Side)
        if why := differs_beside_build(a[0].identity, b[0].identity):
            raise InvalidMeasurement(f"{self._nic}: {why}")
        found = judge_exact(a[0], b[0], limits, (a, b), self._code)
        if found.missing or not found.windows:
            why = "; ".join(found.missing) or "neither boot has a window of traffic"
            raise InvalidMeasurement(f"{self._nic}: the boots cannot be compared: {why}")
        return found
