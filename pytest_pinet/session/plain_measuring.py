"""The usual way to measure: each gate call measures at once, and limits and baselines judge its values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from pytest_pinet.config.calibration import ReferenceData
from pytest_pinet.errors import DroppedLink
from pytest_pinet.history.differences import Settings
from pytest_pinet.judge.baseline import Reference
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import fitted
from pytest_pinet.judge.starts import cap_for
from pytest_pinet.judge.turns import Side
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.path_setup import set_up
from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.measure import figures as measure_figures
from pytest_pinet.measure import kselftest as measure_kselftest
from pytest_pinet.measure import measurement
from pytest_pinet.measure.background import background
from pytest_pinet.measure.comparison import StateComparison, compare, compared_record
from pytest_pinet.measure.link_result import settings_of
from pytest_pinet.measure.traffic_runner import MeasureContext, ProgressOfWays
from pytest_pinet.model.lab import Node
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import USUAL_PATH, Kselftest, Traffic
from pytest_pinet.report.progress import Progress
from pytest_pinet.session.hook_calls import GateCall, GateJob
from pytest_pinet.session.parametrizer import case_of
from pytest_pinet.session.results import RAW_KEY, ResultBuilder, evidence_of
from pytest_pinet.session.run_recorder import RunRecorder


class PlainMeasuring:
    """Implements ``MeasuringMode`` for runs without a build under test."""

    def __init__(self, recorder: RunRecorder, results: ResultBuilder, progress: Progress) -> None:
        self.recorder = recorder
        self.access = recorder.access
        self.references = ReferenceData(recorder.lab)
        self.error_rate: float = recorder.config.getoption("--pinet-error-rate")
        self.shards: int = recorder.config.getoption("--pinet-shards")
        self.progress = progress
        self._results = results
        self._link_ups = recorder.config.getoption("--pinet-confirm") == "link-up"
        self._strict = bool(recorder.config.getoption("--pinet-strict"))

    def is_measuring(self, item: pytest.Item) -> bool:
        return True

    def open(self, item: pytest.Item, case: CombinationCase) -> AbstractContextManager[Link]:
        return self.access.open(case.combination, case.request.reset, case.request.link_required)

    def kept_nodes(self, nextitem: pytest.Item | None) -> Sequence[Node]:
        case = case_of(nextitem)
        return case.combination.nodes if case is not None else ()

    def measure(self, call: GateCall, job: GateJob) -> ResultRecord:
        combination = call.link.combination
        raw = call.item.stash[RAW_KEY] = {}
        started = datetime.now(UTC)
        with self.access.exclusive(combination), self.progress:
            try:
                with self.recorder.hooks.measurement(call, job):
                    record = self._measured(call, job, raw)
            except DroppedLink as error:
                if not isinstance(job, Traffic):
                    # Two states of a test are no history of the board.
                    raise
                # A failure as any other: with settings, for a second board, and for what is known of this board.
                record = measurement.of_dropped_link(call.link, job, call.profile.name, started, error)
                if evidence := evidence_of(error):
                    raw["evidence.txt"] = evidence
        record = self._results.with_files(call.item, record, raw)
        self.access.check(combination)
        return record

    def _measured(self, call: GateCall, job: GateJob, raw: dict[str, str]) -> ResultRecord:
        """Measure and judge. ``raw`` gets the files that are kept."""
        if isinstance(job, Kselftest):
            return measure_kselftest.measure(call.link, job, raw, self.recorder.warn, self.access.watch)
        setup = USUAL_PATH if isinstance(job, StateComparison) else job.setup
        with set_up(call.link, setup) as link, background(link, setup.background, raw) as notes:
            record = self._judged(replace(call, link=link), job, raw)
        return record.replace(notes=[*record.notes, *notes])

    def _judged(
        self, call: GateCall, job: Traffic | StateComparison | measure_figures.Probe, raw: dict[str, str]
    ) -> ResultRecord:
        link = call.link
        if isinstance(job, measure_figures.Probe):
            plan = GatePlan(call.limits, call.profile, {}, False, self.error_rate, self._strict)
            # Baselines were recorded at full link rate.
            known = self.references.of_figure if link.scale == 1 else lambda *_: Reference()
            return measure_figures.measure(link, job, plan, known, raw, self.access.watch)
        traffic = job if isinstance(job, Traffic) else job.traffic
        references = self.references.of_traffic(link.combination.identity, traffic)
        context = self.context(link.id, link, traffic, raw)
        if isinstance(job, StateComparison):
            return self._compared(context, replace(job, error_rate=self.error_rate, references=references))
        budget = fitted(call.profile, traffic.seconds_with(cap_for(link.path.speed_mbps)))
        key = MetricKey(link.combination.identity, traffic, traffic.direction)
        costs = self.references.of_cost_baselines(key) if link.scale == 1 else {}
        plan = GatePlan(call.limits, budget, references, self._link_ups, self.error_rate, self._strict, costs)
        return measurement.measure(context, traffic, plan)

    def _compared(self, context: MeasureContext, job: StateComparison) -> ResultRecord:
        # State B may have another MTU, and the physical limit depends on the MTU.
        link = measured = context.link
        combination = link.combination
        settings: dict[Side, Settings] = {}

        def on_state(side: Side) -> None:
            nonlocal measured
            measured = replace(link, combination=combination) if side is Side.B else measured
            if side not in settings:
                settings[side] = settings_of(link)

        found = compare(context, job, on_state)
        return compared_record(measured, job.traffic, found, settings)

    def context(self, label: str, link: Link, traffic: Traffic, raw: dict[str, str]) -> MeasureContext:
        """Return what measuring this traffic needs. Its progress is shown with ``label``."""
        progress = self._progress_of(label, link, traffic)
        return MeasureContext(link, self.access.tool_for(traffic), raw, progress, self.access.watch)

    def _progress_of(self, label: str, link: Link, traffic: Traffic) -> ProgressOfWays | None:
        """Return what shows the progress of this traffic; None if no progress is shown."""
        if not self.progress.shown:
            return None
        total_s = traffic.seconds_with(cap_for(link.path.speed_mbps))

        def show(number: int, elapsed_s: float, goodput: Any, retransmits: int | None, now_bps: float | None) -> None:
            name = label if number == 1 else f"{label} #{number}"
            self.progress.update(name, elapsed_s, total_s, goodput, retransmits, now_bps)

        return show
