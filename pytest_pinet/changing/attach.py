"""What connects a build under test to a session; imported only where one is asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_pinet.changing.asked import Asked
from pytest_pinet.changing.boards import CaseOf
from pytest_pinet.changing.control import Changing, Means
from pytest_pinet.changing.telling import Telling
from pytest_pinet.errors import ConfigError
from pytest_pinet.judge.settle import cap_for
from pytest_pinet.known import Known
from pytest_pinet.lab.link import Link
from pytest_pinet.lab_access import LabAccess
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.report.progress import Progress
from pytest_pinet.run_keeper import RunKeeper
from pytest_pinet.runs import ProgressOfWays

# Label and seconds of a measurement: who is told of its rates.
Shown = Callable[[str, int], ProgressOfWays]


def attach_build(
    config: pytest.Config,
    lab: Lab | None,
    asked: Asked,
    access: LabAccess,
    known: Known,
    keeper: RunKeeper,
    case_of: CaseOf,
    progress: Progress,
    shown: Shown,
) -> Changing:
    """Have this session measure a build. Raises ConfigError without a lab."""
    if lab is None:
        raise ConfigError("--pinet-build: no lab to boot it in: pass --pinet-lab FILE, or set PINET_LAB")

    def progress_of(label: str, traffic: Traffic, link: Link) -> ProgressOfWays | None:
        return shown(label, traffic.seconds_with(cap_for(link.path.speed_mbps))) if progress.shown else None

    means = Means(
        access,
        known,
        config.getoption("--pinet-error-rate"),
        progress_of,
        lambda name, raw: keeper.folder.write_raw(name, raw),
    )
    changing = Changing(asked, means, case_of, progress.show)
    keeper.head = changing.head
    config.pluginmanager.register(changing.boards, "pinet-boards")
    config.pluginmanager.register(Telling(config, changing), "pinet-telling")
    return changing
