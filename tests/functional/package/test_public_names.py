"""``from pytest_pinet import ...``: each listed name exists, also for type checkers, and is imported when used."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest

import pytest_pinet
from pytest_pinet import Bitrate, Direction, PinetError, PingResult, Result, TrafficResult, Verdict, doing, errors
from pytest_pinet.execution import trace

ROOT = Path(__file__).parents[3]
USER_FILE = """
from pytest_pinet import (
    Bitrate, ComparisonResult, Direction, ExactGate, ExactResult, Gate, HttpResult, LadderResult, Limit, Link,
    LinkError, PinetError, PingResult, Result, TrafficResult, Tune, Verdict, doing,
)

def test_right(link: Link, gate: Gate, tune: Tune, way: str) -> None:
    with doing("measure"), tune(link, mtu=9000):
        tcp: TrafficResult = gate.tcp(link, way, streams=2, min={"tx": "94%"}, latency="5 ms")
    ladder: LadderResult = gate.udp_ladder(link, "rx", rates=["10M"], loss="0.1%", marginal="2%")
    http: HttpResult = gate.http(link, size="100K", requests="100/s", cpu="40%")
    ping: PingResult = gate.ping(link, count=3, loss="0%")
    states: ComparisonResult = gate.compare(link, tolerance="3%")
    every: list[Result] = [tcp, ladder, http, ping, states, gate.udp(link, bitrate="5M", loss="1%")]
    rate: Bitrate = every[0]["tx"]
    good: bool = every[0].verdict is Verdict.PASS and every[0].goodput[Direction.TX] == rate

def test_exact(exact_gate: ExactGate) -> None:
    found: ExactResult = exact_gate(instructions={"gem_rx": "1%", "macb_*": 4}, tolerance="1%")["frame-60-rx"]
    before, after = found.functions["gem_rx [macb]"]

def test_wrong(link: Link, gate: Gate) -> None:
    gate.tcp(link, minimum="94%")  # wrong keyword
    gate.tcp(link, min=94)  # wrong type
    gate.tcp(link, streams="2")  # wrong type
    gate.ping(link, min="94%")  # wrong keyword
    gate.tcp(link).verdict = Verdict.FAIL  # frozen
    from pytest_pinet import NoSuchName  # wrong name
"""


def test_every_listed_name_is_there_and_no_other() -> None:
    assert sorted(pytest_pinet.__all__) == pytest_pinet.__all__ == dir(pytest_pinet)
    for name in pytest_pinet.__all__:
        assert getattr(pytest_pinet, name) is not None
    with pytest.raises(AttributeError, match="module 'pytest_pinet' has no attribute 'NoSuchName'"):
        _ = pytest_pinet.NoSuchName  # type: ignore[attr-defined]
    assert doing is trace.doing
    assert isinstance(pytest_pinet.__version__, str)


def test_the_whole_exception_tree_is_public() -> None:
    tree = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, PinetError)}
    assert tree <= set(pytest_pinet.__all__)


def test_the_package_imports_nothing_until_a_name_is_used() -> None:
    code = (
        "import sys; before = set(sys.modules); import pytest_pinet; "
        "new = set(sys.modules) - before - {'pytest_pinet'}; "
        "assert not new, new; "
        "from pytest_pinet import Verdict, LinkError; "
        "new = {m.split('.')[1] for m in sys.modules if m.startswith('pytest_pinet.')}; "
        "assert new == {'model', 'errors', 'execution'}, new"
    )
    # Without `site`, which imports modules itself, so the package is found through its path.
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"], check=False
    )
    assert done.returncode == 0


def test_type_checkers_see_the_names_and_refuse_wrong_calls(tmp_path: Path) -> None:
    file = tmp_path / "test_user.py"
    file.write_text(USER_FILE)
    # With this project's options, so that mypy uses the cache of `make lint`.
    command = [sys.executable, "-m", "mypy", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    # mypy's cache tells the errors of an equal file of an earlier run with the path of that file.
    refused = set(re.findall(rf"^\S*/{file.name}:(\d+): error: ", done.stdout, re.MULTILINE))
    wrong = [str(number) for number, line in enumerate(USER_FILE.splitlines(), 1) if "  # " in line]
    assert len(wrong) == 6
    assert refused == set(wrong), done.stdout + done.stderr


def test_a_result_is_frozen_and_says_which_directions_it_has() -> None:
    goodput = MappingProxyType({Direction.TX: Bitrate.mbps(94)})
    result = TrafficResult("pi4b:onboard/pair/tcp-P1-tx", Verdict.PASS, "tx is 94.0 Mbit/s", goodput, {}, None)
    assert isinstance(result, Result)
    assert result["tx"] == result[Direction.TX] == Bitrate.mbps(94)
    for wrong in ("rx", "sideways"):
        with pytest.raises(KeyError, match=f"pair/tcp-P1-tx has no goodput in direction '{wrong}'; it has tx"):
            _ = result[wrong]
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.verdict = Verdict.FAIL  # type: ignore[misc]
    values = {"loss": 0.1, "latency": 0.2, "rtt_min": 0.1, "rtt_max": 0.3}
    ping = PingResult("pi4b:onboard/pair/ping", Verdict.PASS, "", MappingProxyType({}), values)
    assert (ping.loss, ping.min_s, ping.mean_s, ping.max_s, ping.mdev_s) == (0.1, 0.1, 0.2, 0.3, None)
    with pytest.raises(KeyError, match="it has none"):
        _ = ping["tx"]
