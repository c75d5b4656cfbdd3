"""From connections on connections, link-ups and boots to the calibration file."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from pytest_pinet.calibration.connections import CalibrationOutcome, Levels, fresh_of, outcome, table
from pytest_pinet.cli.noise import check_writable
from pytest_pinet.config.calibration import read_calibration, write_calibration
from pytest_pinet.errors import ConfigError
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.spread import smallest_margin
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.measurement import Sample
from tests.support.judge_connections import single, with_samples

FIGURE = "pi4b:onboard/pair/tcp-P1-tx"
STANDARD = PROFILES["standard"]
BUILD: dict[str, str | None] = {"uname": "Linux 6.12.1 aarch64", "driver": "bcmgenet", "firmware": None}


def series(
    levels: Levels, connections: float, links: float = 0.0, boots: float = 0.0, seed: int = 1
) -> list[Connection]:
    """Yield connections on a 940 Mbit/s link with these relative standard deviations."""
    draw = random.Random(seed)

    def made() -> Iterator[Connection]:
        for boot in range(levels.boots + 1):
            of_boot = draw.gauss(0, boots)
            for link_up in range(levels.links + 1):
                of_link = draw.gauss(0, links)
                for run in range(levels.runs):
                    rate = 940e6 * math.exp(of_boot + of_link + draw.gauss(0, connections))
                    samples = tuple(Sample(n / 10, 0.1, round(rate / 80), warmup=n < 2) for n in range(30))
                    yield single(samples, fresh_of(boot, link_up, run))

    return list(made())


def found(levels: Levels, connections: float, links: float = 0.0, boots: float = 0.0) -> CalibrationOutcome:
    made = series(levels, connections, links, boots)
    return outcome(FIGURE, made, STANDARD, date(2026, 11, 21), BUILD)


def test_each_connection_records_what_was_fresh() -> None:
    fresh = [one.fresh for one in series(Levels(runs=2, links=1, boots=1), 0.001)]
    same = Fresh.CONNECTION
    assert fresh == [same, same, Fresh.LINK, same, Fresh.BOOT, same, Fresh.LINK, same]


def test_the_duration_grows_with_every_level() -> None:
    assert Levels(5, 3, 1).connections == 40
    one = Levels(5, 0, 0).seconds(2, 3, 30.0)
    assert 34 < one < 45
    assert Levels(5, 1, 0).seconds(2, 3, 30.0) > 2 * one - 10
    assert Levels(5, 0, 1).seconds(2, 3, 30.0) > 2 * one + 20


def test_noise_between_connections_has_its_degrees_of_freedom() -> None:
    parts = found(Levels(runs=20, links=3, boots=0), connections=0.01).components
    assert parts.connections.sd == pytest.approx(0.01, rel=0.25)
    assert parts.connections.freedom == 76
    assert parts.links is not None
    assert parts.links.freedom == 3
    assert parts.boots is None


def test_noise_of_link_ups_does_not_count_as_noise_of_connections() -> None:
    parts = found(Levels(runs=5, links=30, boots=0), connections=0.002, links=0.01).components
    assert parts.connections.sd == pytest.approx(0.002, rel=0.25)
    assert parts.links is not None
    assert parts.links.sd == pytest.approx(0.01, rel=0.4)


def test_a_noisier_link_gets_a_wider_tolerance_and_more_repeats() -> None:
    quiet = found(Levels(5, 3, 0), connections=0.001)
    rough = found(Levels(5, 3, 0), connections=0.03, links=0.01)
    assert quiet.calibration.tolerance.fraction == 0.03
    assert quiet.calibration.repeats == 1
    assert rough.calibration.tolerance.fraction > 0.03
    assert rough.calibration.repeats > 1
    assert rough.seconds == rough.calibration.repeats * 3


def test_the_gate_reads_the_written_noise(tmp_path: Path) -> None:
    file = tmp_path / "lab.calibration.yaml"
    one = found(Levels(5, 3, 1), connections=0.01, links=0.002)
    other = replace(one.calibration, id="pi5:onboard/pair/tcp-P1-rx")
    write_calibration(file, [other])
    write_calibration(file, [one.calibration])
    read = read_calibration(file)
    assert set(read) == {FIGURE, other.id}
    assert read[FIGURE].build == BUILD
    # The file rounds to a millionth of a percent.
    assert read[FIGURE].judged_noise.connections == pytest.approx(one.components.connections.sd, abs=1e-8)
    assert smallest_margin(read[FIGURE].judged_noise, STANDARD) == pytest.approx(
        one.calibration.margin.fraction, abs=1e-6
    )


def test_too_few_connections_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two connections of one link-up are needed"):
        found(Levels(runs=1, links=3, boots=0), connections=0.01)


def test_the_table_shows_every_level_in_80_columns() -> None:
    lines = table([found(Levels(5, 3, 1), 0.01, 0.002, 0.003), found(Levels(5, 0, 0), 0.001)])
    assert all(len(line) <= 80 for line in lines)
    assert lines[3].startswith(f"{FIGURE}, 9")
    assert "(32)" in lines[4]
    assert "(6)" in lines[4]
    assert "(1)" in lines[4]
    assert lines[6].split()[3:6] == ["-", "-", "3.0"]


def test_the_table_counts_excluded_connections() -> None:
    levels = Levels(5, 3, 0)
    made = series(levels, 0.001)
    stalled = tuple(replace(s, bytes=0) if 10 <= n < 20 else s for n, s in enumerate(made[1].samples))
    one = outcome(FIGURE, [made[0], with_samples(made[1], stalled), *made[2:]], STANDARD, date(2026, 11, 21), BUILD)
    assert table([one])[-1] == "  left out: 1 of 20 connections, which stalled or were disturbed"
    assert one.components.connections.sd < 0.002
    assert one.goodput.bps == pytest.approx(940e6, rel=0.005)


def test_an_unwritable_file_is_refused_before_a_measurement(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"^cannot write .+/file/lab\.calibration\.yaml: "):
        check_writable(tmp_path / "file" / "lab.calibration.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("calibration: 5\n")
    with pytest.raises(ConfigError, match=r"broken\.yaml:1"):
        check_writable(broken)
    check_writable(tmp_path / "fresh.yaml")
    assert not (tmp_path / "fresh.yaml").exists()
