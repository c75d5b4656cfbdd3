"""Traffic tools are entry points: our own, other packages', and the errors of unusable ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.lab import Lab
from pytest_pinet.traffic.http import Http
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.tool import make_tool
from tests.support import replay_tool

LAB = Lab("bench", "bench.yaml", {}, {})
MODULE = """
import no_such_module_at_all
"""
OTHERS = """
text = "no tool"
class Half:
    def __init__(self, lab): pass
    def prepare(self, job): pass
def broken(lab): raise RuntimeError("no licence")
def no_argument(): pass
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of installed packages on Python's path."""
    (tmp_path / "tools_no_import.py").write_text(MODULE)
    (tmp_path / "tools_others.py").write_text(OTHERS)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_our_own_tools_are_registered_as_any_other() -> None:
    assert isinstance(make_tool("iperf3", LAB), Iperf3)
    assert isinstance(make_tool("wrk", LAB), Http)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("tools_no_import:Tool", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("tools_others:Missing", "cannot be imported: AttributeError: module 'tools_others' has no attribute 'Mis"),
        ("tools_others:text", "is not callable; expected a callable that takes the lab and returns a traffic tool"),
        ("tools_others:broken", "cannot be made: RuntimeError: no licence"),
        ("tools_others:no_argument", "cannot be made: TypeError: no_argument() takes 0 positional arguments but 1 was"),
        ("tools_others:Half", "is not a traffic tool: Half has no method 'measure'"),
    ],
)
def test_a_tool_that_cannot_be_used_is_one_sentence(installed: Path, target: str, says: str) -> None:
    replay_tool.install(installed, "odd", target)
    with pytest.raises(ConfigError) as caught:
        make_tool("odd", LAB)
    assert str(caught.value).startswith(f"traffic tool 'odd' of package pinet-odd 1.0 {says}")
    assert "\n" not in str(caught.value)


def test_the_error_of_an_unknown_name_suggests_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"^unknown traffic tool 'ipref3', did you mean 'iperf3'\?"):
        make_tool("ipref3", LAB)


def test_a_name_that_two_packages_register_is_refused(installed: Path) -> None:
    replay_tool.install(installed, "iperf3", "tools_others:Half")
    with pytest.raises(ConfigError, match=r"^traffic tool 'iperf3' is in package pinet-iperf3 1\.0 and in package pyt"):
        make_tool("iperf3", LAB)
