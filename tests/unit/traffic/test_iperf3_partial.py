"""The traffic of a failed run until its failure, from recorded and unusual output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_pinet.traffic.iperf3_trouble import partial

DATA = Path(__file__).parents[2] / "data" / "iperf3"


@pytest.mark.parametrize("build", ["3.7", "3.9", "3.12-debian12", "3.16", "3.21"])
@pytest.mark.parametrize("case", ["cliINT", "cliTERM", "srvkill", "srvterm"])
def test_intervals_before_the_failure_are_kept(build: str, case: str) -> None:
    text = (DATA / build / f"{case}.json").read_text()
    expected = [i["sum"]["bytes"] * 8e-6 / i["sum"]["seconds"] for i in json.loads(text)["intervals"]]
    said = partial(text)
    assert expected or not said
    if expected:
        assert said.startswith("sent (Mbit/s) from 0.0 s on, every 1.0 s: ")
        rates = [float(word) for word in said.partition("s: ")[2].split()]
        assert rates == pytest.approx(expected, abs=0.051)


def test_both_directions_are_shown() -> None:
    text = (DATA / "pairs" / "bidir-3.18-3.18.client.json").read_text()
    lines = partial(text).splitlines()
    assert [line.split()[0] for line in lines] == ["sent", "received"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"intervals": 3}',
        '{"intervals": [3, {"sum": 4}, {"sum": {}}, {"sum": {"start": 0, "seconds": 0, "bytes": 1}}]}',
        '{"intervals": [{"sum": {"start": "0", "seconds": 1, "bytes": 1}}]}',
        '{"intervals": [{"sum": {"start": 0, "seconds": 1, "bytes": null}}]}',
        '{"intervals": [{"sum": {"start": -' + "9" * 400 + ', "seconds": 1, "bytes": 1}}]}',
        "[" * 100_000,
    ],
)
def test_odd_text_is_nothing(text: str) -> None:
    assert partial(text) == ""


def test_a_long_run_is_cut_in_its_middle() -> None:
    intervals = [{"sum": {"start": i / 10, "seconds": 0.1, "bytes": 12_000_000, "sender": False}} for i in range(3000)]
    said = partial(json.dumps({"intervals": intervals}))
    assert len(said) < 4100
    assert " ... " in said
