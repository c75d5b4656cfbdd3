from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_pinet.model.quantities import (
    RATE_FORM,
    Bitrate,
    CpuCost,
    Duration,
    Share,
    parse_duration,
    parse_minimum,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("2.3 Gbit/s", 2.3e9),
        ("2.3G", 2.3e9),
        ("940 Mbit/s", 940e6),
        ("940m", 940e6),
        ("100 Mbps", 100e6),
        ("56 kbit/s", 56e3),
        ("300 bit/s", 300),
        ("1e3 Mbit/s", 1e9),
        ("  0 Mbit/s ", 0),
    ],
)
def test_a_rate_is_decimal(text: str, bps: float) -> None:
    assert Bitrate.parse(text).bps == pytest.approx(bps, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("900", f"'900' has no unit; expected {RATE_FORM}"),
        ("fast", f"'fast' is not a bit rate; expected {RATE_FORM}"),
        ("", f"'' is not a bit rate; expected {RATE_FORM}"),
        ("-5 Mbit/s", f"'-5' is negative; expected {RATE_FORM}"),
        ("nan Mbit/s", f"'nan' is not a finite number; expected {RATE_FORM}"),
        ("inf Gbit/s", f"'inf' is not a finite number; expected {RATE_FORM}"),
        ("nan", f"'nan' is not a finite number; expected {RATE_FORM}"),
        ("1e308 Gbit/s", f"'1e308' is not a finite number; expected {RATE_FORM}"),
        ("1e Gbit/s", f"'1e' is not {RATE_FORM}"),
        ("10 MB/s", f"'10 MB/s' is not a bit rate; expected {RATE_FORM}"),
    ],
)
def test_other_texts_are_refused_as_rate_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Bitrate.parse(text)


@given(st.floats(min_value=1, max_value=1e12))
@example(1_048_999.0)  # was shown as 1.0 Mbit/s
@example(9_995_000.0)
def test_a_rate_reads_back_what_it_shows(bps: float) -> None:
    assert Bitrate.parse(str(Bitrate(bps))).bps == pytest.approx(bps, rel=0.006, abs=50)


@given(st.floats(min_value=0, max_value=1))
def test_a_share_reads_back_what_it_shows(fraction: float) -> None:
    assert Share.parse(str(Share(fraction))).fraction == pytest.approx(fraction, rel=1e-5, abs=1e-9)


@given(st.text(max_size=30))
def test_any_text_is_a_finite_minimum_or_a_value_error(text: str) -> None:
    try:
        minimum = parse_minimum(text)
    except ValueError:
        return
    value = minimum.bps if isinstance(minimum, Bitrate) else minimum.fraction
    assert math.isfinite(value)
    assert value >= 0


@pytest.mark.parametrize(
    ("bps", "text"),
    [
        (941.48e6, "941.5 Mbit/s"),
        (2.3537e9, "2.35 Gbit/s"),
        (999.96e6, "1.00 Gbit/s"),
        (999.94e6, "999.9 Mbit/s"),
        (94.15e6, "94.2 Mbit/s"),
        (56e3, "56.0 kbit/s"),
        (12, "12 bit/s"),
        (0, "0 bit/s"),
    ],
)
def test_a_rate_is_shown_in_the_unit_that_fits(bps: float, text: str) -> None:
    assert str(Bitrate(bps)) == text


def test_rates_are_ordered() -> None:
    assert Bitrate.mbps(941) < Bitrate.parse("1G")


@pytest.mark.parametrize(("text", "fraction"), [("94%", 0.94), ("94 %", 0.94), ("100%", 1), ("0%", 0)])
def test_a_share_is_a_percentage(text: str, fraction: float) -> None:
    assert Share.parse(text).fraction == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["101%", "nan%", "-1%", "%", "94", "1e400%"])
def test_other_texts_are_refused_as_share(text: str) -> None:
    with pytest.raises(ValueError, match="a share such as '94%'"):
        Share.parse(text)


def test_a_minimum_is_a_share_or_a_rate() -> None:
    assert parse_minimum("94%") == Share(0.94)
    assert parse_minimum("2.3G") == Bitrate(2.3e9)


@pytest.mark.parametrize(("text", "size"), [("65536", 65536), ("64K", 65536), ("1M", 1048576), ("64KiB", 65536)])
def test_sizes_are_binary(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["-1", "1.5K", "64 Kbit", "", "nan"])
def test_other_texts_are_refused_as_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size such as"):
        parse_size(text)


@pytest.mark.parametrize(("text", "seconds"), [("500 ms", 0.5), ("10 s", 10), ("2min", 120), ("1 h", 3600)])
def test_durations_become_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["10", "-1 s", "nan s", "inf min", "1e308 h", "soon"])
def test_other_texts_are_refused_as_duration(text: str) -> None:
    with pytest.raises(ValueError, match="a duration such as '500 ms', '10 s' or '2 min'"):
        parse_duration(text)


@given(st.floats(min_value=1e-6, max_value=1e3))
def test_a_duration_reads_back_what_it_shows(seconds: float) -> None:
    assert Duration.parse(str(Duration(seconds))).seconds == pytest.approx(seconds, rel=0.006)


def test_a_duration_is_shown_as_people_write_it() -> None:
    assert [str(Duration(s)) for s in (0.005, 0.0004, 1.0, 12.5)] == ["5 ms", "0.4 ms", "1 s", "12.5 s"]


@pytest.mark.parametrize("text", ["40%", "40 %", " 40%"])
def test_a_cost_of_processor_time_is_a_part_of_a_core(text: str) -> None:
    assert CpuCost.parse(text) == CpuCost(40.0)
    assert str(CpuCost.parse("140%")) == "140% of a core per Gbit/s"


@pytest.mark.parametrize("text", ["40", "", "-1%", "nan%", "inf%", "x%"])
def test_other_texts_are_refused_as_processor_cost(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a part of a core|is not a part of a core"):
        CpuCost.parse(text)
