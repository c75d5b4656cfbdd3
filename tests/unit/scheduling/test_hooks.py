"""The controller ends its workers when a run was interrupted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_pinet.scheduling.hooks import STOP_FILE, end_workers


@pytest.mark.parametrize("moment", ["while the stop file is written", "while workers are stopped", "during the wait"])
def test_a_second_ctrl_c_ends_the_wait_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    said: list[str] = []

    def reach(now: str) -> None:
        said.append(now)
        if now == moment:
            raise KeyboardInterrupt

    def touch(_: Path) -> None:
        reach("while the stop file is written")

    channel = SimpleNamespace(isclosed=lambda: False)
    worker = SimpleNamespace(
        workerinput={"workerid": "gw0"},
        channel=channel,
        gateway=SimpleNamespace(hasreceiver=lambda: True),
        shutdown=lambda: reach("while workers are stopped"),
    )
    monkeypatch.setattr(Path, "touch", touch)
    for name in ("QUIET_S", "UNDO_S"):
        monkeypatch.setattr(f"pytest_pinet.scheduling.hooks.{name}", 0.0)
    end_workers([worker], tmp_path, lambda _: reach("during the wait"))
    assert said[-1] == moment
    assert not (tmp_path / STOP_FILE).exists()
