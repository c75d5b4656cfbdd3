"""What connects a build under test to a session; imported only where one is asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_pinet.ab.boards import CaseOf
from pytest_pinet.ab.controller import ABController, MeasureContext
from pytest_pinet.ab.options import ABOptions
from pytest_pinet.ab.worker_report import WorkerReport
from pytest_pinet.config.reference_data import ReferenceData
from pytest_pinet.errors import ConfigError
from pytest_pinet.judge.warmup import cap_for
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.traffic_runner import ProgressOfWays
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.report.progress import Progress
from pytest_pinet.session.run_recorder import RunRecorder

# Label and seconds of a measurement: who is told of its rates.
Shown = Callable[[str, int], ProgressOfWays]


def attach_build(
    config: pytest.Config,
    lab: Lab | None,
    asked: ABOptions,
    access: LabAccess,
    known: ReferenceData,
    keeper: RunRecorder,
    case_of: CaseOf,
    progress: Progress,
    shown: Shown,
) -> ABController:
    """Have this session measure a build. Raises ConfigError without a lab."""
    if lab is None:
        raise ConfigError("--pinet-build: no lab to boot it in: pass --pinet-lab FILE, or set PINET_LAB")

    def progress_of(label: str, traffic: Traffic, link: Link) -> ProgressOfWays | None:
        return shown(label, traffic.seconds_with(cap_for(link.path.speed_mbps))) if progress.shown else None

    means = MeasureContext(
        access,
        known,
        config.getoption("--pinet-error-rate"),
        progress_of,
        lambda name, raw: keeper.folder.write_raw(name, raw),
    )
    changing = ABController(asked, means, case_of, progress.show)
    keeper.head = changing.head
    config.pluginmanager.register(changing.boards, "pinet-boards")
    config.pluginmanager.register(WorkerReport(config, changing), "pinet-telling")
    return changing
