"""What a session does otherwise while a build is under test: how links open, and what gate calls measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from pytest_pinet.ab.boards import Boards, CaseOf
from pytest_pinet.ab.boots import BuildBooter, RefusedBuild
from pytest_pinet.ab.measured_test import BootTrouble
from pytest_pinet.ab.options import ABOptions
from pytest_pinet.ab.pings import Pings
from pytest_pinet.ab.records import changed_record
from pytest_pinet.ab.rounds import Rounds
from pytest_pinet.ab.series import Rules, TurnSeries, connections_per_boot
from pytest_pinet.builds.matching import require_any_pi
from pytest_pinet.config.reference_data import ReferenceData
from pytest_pinet.errors import (
    BuildError,
    ChangedBuildError,
    ConfigError,
    InvalidMeasurement,
    LinkError,
    PinetError,
    first_line,
)
from pytest_pinet.judge.change import TOLERANCE
from pytest_pinet.judge.change_verdict import ChangeVerdict
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.judge.limits import most_specific
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.traffic_runner import ProgressOfWays
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Node
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.tolerance import Tolerance
from pytest_pinet.model.traffic import Direction, LadderTraffic, Traffic
from pytest_pinet.report.change import ChangeHeadRecord
from pytest_pinet.report.change_head import change_head
from pytest_pinet.report.record import ResultRecord
from pytest_pinet.report.text_wrap import first_paragraph
from pytest_pinet.tuning.registry import boot_part

_OTHERWISE = "it measures what it did not measure in earlier turns: between builds it must ask for the same in each"


@dataclass(frozen=True)
class MeasureContext:
    """What measuring takes of a session: ``progress`` gives who is told of rates, ``keep_raw`` keeps files by name."""

    access: LabAccess
    known: ReferenceData
    error_rate: float
    progress: Callable[[str, Traffic, Link], ProgressOfWays | None]
    keep_raw: Callable[[str, Mapping[str, str]], list[str]]


class ABController:
    """Two builds in turn (``rounds``), or one against the accepted baselines (then ``rounds`` is None)."""

    def __init__(
        self, asked: ABOptions, means: MeasureContext, case_of: CaseOf, on_boot: Callable[[str], None]
    ) -> None:
        self.asked = asked
        self._means = means
        self.boots = BuildBooter(asked, on_boot)
        self.rounds = None if asked.accepted else Rounds(self.boots, case_of, asked.most_boots)
        self.boards = self.rounds or Boards(case_of)
        # Why the run ends without having measured everything: a board cannot take the build, or the build changed.
        self.refused: PinetError | None = None
        # With xdist, in the controller.
        self.turns_of_workers = 0
        if asked.accepted:
            self.boots.next(Side.B)
        means.access.prepare = self.boots.prepare

    def is_told(self, item: pytest.Item) -> bool:
        """Whether a test reads what was found for it."""
        return self.rounds is not None and not self.rounds.is_measuring(item)

    def measured_link(self, item: pytest.Item) -> Link:
        """The link that was measured; raises how the test ended where that is not for its figures to say."""
        assert self.rounds is not None
        tested = self.rounds.tested(item)
        if tested.error is not None:
            raise tested.error
        assert tested.link is not None
        # It reads from its first gate call on.
        tested.calls = 0
        return tested.link

    @contextmanager
    def open(self, item: pytest.Item, combination: Combination) -> Iterator[Link]:
        """A link whose device under test runs the build of this turn. Raises PinetError.

        The run ends in one sentence where a board cannot take the build, before anything was touched there, and where
        the build is not any more what it was when the run began.
        """
        if boot := boot_part(combination.tuning):
            pytest.skip(f"{boot.key} takes a boot of its own: write it into the build, under config or cmdline")
        if self.refused is not None:
            pytest.exit(str(self.refused), returncode=pytest.ExitCode.USAGE_ERROR)
        # No board needs to be leased to know that none can run it.
        require_any_pi(self.asked.new)
        opened = False
        try:
            with self._means.access.open(combination) as link:
                opened = True
                if self.rounds is not None:
                    self.rounds.tested(item).link = link
                yield link
        except (RefusedBuild, ChangedBuildError) as error:
            self.refused = error.error if isinstance(error, RefusedBuild) else error
            pytest.exit(str(self.refused), returncode=pytest.ExitCode.USAGE_ERROR)
        except (LinkError, InvalidMeasurement) as error:
            if opened:
                raise
            self.boots.opening_error = error
            self.boots.look(combination)
            if self.rounds is None:
                self._tell_apart(combination, error)
            raise

    def _tell_apart(self, combination: Combination, error: PinetError) -> None:
        """Raise BuildError where the known-good build, booted once, has the link."""
        missing = self.boots.device_is_missing
        self.boots.next(Side.A)
        try:
            with self._means.access.open(combination):
                pass
        except PinetError:
            return
        finally:
            self.boots.next(Side.B)
        kind = BootTrouble(Side.B, error, opening=True, no_device=missing).kind
        message = f"{first_line(error)}; with the known-good build, booted right after it, the link is as it must be"
        raise BuildError(message, kind, error.excerpt) from error

    def ping(self, item: pytest.Item, measure: Callable[[], ResultRecord]) -> ResultRecord:
        """As ``measure``, for pings, which ``measure`` sends and judges by their limits."""
        rounds = self.rounds
        assert rounds is not None
        tested = rounds.tested(item)
        number, tested.calls = tested.calls, tested.calls + 1
        found = tested.series[number] if number < len(tested.series) else Pings()
        if not isinstance(found, Pings) or (number == len(tested.series) and not rounds.is_measuring(item)):
            raise ConfigError(f"{item.nodeid}: {_OTHERWISE}")
        if rounds.is_measuring(item) and not found.decided:
            found.take(self.boots.side, measure)
            if number == len(tested.series):
                tested.series.append(found)
        return found.record()

    def measure(self, item: pytest.Item, link: Link, traffic: Traffic, limits: Sequence[Limit]) -> ResultRecord:
        """One gate call of a test: a few connections of this boot, or, in its last run, what all boots came to."""
        rounds = self.rounds
        assert rounds is not None
        tested = rounds.tested(item)
        number, tested.calls = tested.calls, tested.calls + 1
        if isinstance(traffic, LadderTraffic):
            self.leave_out("a ladder")
        if number < len(tested.series):
            known = tested.series[number]
            if not isinstance(known, TurnSeries):
                raise ConfigError(f"{item.nodeid}: {_OTHERWISE}")
            series = known
            series.must_be(traffic, item.nodeid)
        elif rounds.is_measuring(item):
            series = self._new(link, traffic, limits)
        else:
            raise ConfigError(f"{item.nodeid}: {_OTHERWISE}")
        if rounds.is_measuring(item) and not series.decided:
            self._take(link, series)
            if number == len(tested.series):
                tested.series.append(series)
        return self._record(series)

    def _record(self, series: TurnSeries) -> ResultRecord:
        board = series.turns[-1].link.combination.dut.node.name
        return changed_record(series, self.asked, self.boots.of(board))

    def _new(self, link: Link, traffic: Traffic, limits: Sequence[Limit]) -> TurnSeries:
        assert self.rounds is not None
        means = self._means
        boot_s = self.boots.now(link.combination.dut.node.name).seconds
        tolerances = {way: _tolerance(link, traffic, way, limits) for way in (Direction.TX, Direction.RX)}
        rules = Rules(tolerances, means.known, means.error_rate, self.rounds.figures, self.asked.most_boots)
        return TurnSeries(traffic, rules, connections_per_boot(link, traffic, means.known, boot_s, self.rounds.calls))

    def _take(self, link: Link, series: TurnSeries) -> None:
        means = self._means
        boot = self.boots.now(link.combination.dut.node.name)
        raw: dict[str, str] = {}
        label = f"{boot.side}{boot.number} {link.id}"
        access = means.access
        tool = access.tool_for(series.traffic)
        try:
            with access.exclusive(link.combination):
                progress = means.progress(label, series.traffic, link)
                series.take(link, boot.number, boot.side, boot.started_s, tool, raw, progress, access.watch)
            access.check(link.combination)
        finally:
            series.files += means.keep_raw(f"{link.id}-{boot.side}{boot.number}", raw) if raw else []

    def leave_out(self, what: str) -> None:
        """Skip a test that measures what no two builds are compared by."""
        if self.rounds is not None:
            pytest.skip(f"{what} is not measured in turn: left out, but with --pinet-baseline accepted")

    def kept(self, nextitem: pytest.Item | None, nodes: Sequence[Node]) -> Sequence[Node]:
        """What stays booted and leased for the next test, which needs ``nodes``: those of its whole board."""
        return (*nodes, *self.boards.kept(nextitem))

    def unfinished(self) -> Iterator[tuple[pytest.Item, ResultRecord | PinetError]]:
        """What was found for each test so far, once no more boots are made; of what is not certain that it is not."""
        for one in self.rounds.all if self.rounds is not None else ():
            if isinstance(one.error, PinetError):
                yield one.item, one.error
                continue
            for series in one.series:
                series.give_up()
                if isinstance(series, Pings):
                    yield one.item, series.record()
                else:
                    yield one.item, self._record(series)

    def head(self, results: Sequence[ResultRecord], failed: int, interrupted: bool) -> ChangeHeadRecord:
        """The answer on the whole change; ``failed`` tests ended badly, whatever their figures."""
        sides = [self.asked.record(side) for side in (Side.A, Side.B)]
        turns = len(self.boots.made) + self.turns_of_workers
        head = change_head(sides[0], sides[1], results, self.asked.accepted, turns, failed, interrupted)
        # What is certain already stays so.
        if self.refused is not None and head["answer"] != ChangeVerdict.REGRESSION:
            head["sentence"] = f"No answer on {self.asked.name(Side.B)}: {first_paragraph(str(self.refused))}."
        return head


def _tolerance(link: Link, traffic: Traffic, way: Direction, limits: Sequence[Limit]) -> float:
    """What somebody said of this combination; of two builds measured in turn less is tolerated than between days."""
    found = most_specific(limits, MetricKey(link.combination.identity, traffic, way), Metric.TOLERANCE)
    bound = found.bound if found is not None else None
    return bound.relative.fraction if isinstance(bound, Tolerance) else TOLERANCE
