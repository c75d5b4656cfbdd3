"""``from pytest_pinet import ...``: each listed name exists and is imported when used."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest

import pytest_pinet
from pytest_pinet import Bitrate, Direction, PinetError, PingResult, Result, TrafficResult, Verdict, doing, errors
from pytest_pinet.execution import trace

ROOT = Path(__file__).parents[3]


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
