"""The state of the links after the traffic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_pinet.evidence import interface
from pytest_pinet.measure.counters import CounterCheck
from tests.support.link_stand_in import TX, UP, link


def test_the_duplex_is_that_after_the_traffic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uncounted: Any = SimpleNamespace(capabilities=frozenset())
    here = link(tmp_path)
    here = replace(here, switches={end.port.switch: uncounted for end in here.ends})
    monkeypatch.setattr(interface, "read_interface", lambda *_: UP)
    cables = CounterCheck(here)
    assert cables.duplexes == ["full", "full"]
    monkeypatch.setattr(interface, "read_interface", lambda *_: replace(UP, duplex="half"))
    cables.check([], TX)
    assert cables.duplexes == ["half", "half"]
