"""Byte counters that wrap or restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_pinet.evidence.counting import NARROW, grown, link_speed, since


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        (10, 30, 20),
        (NARROW - 10, 30, 40),
        (NARROW + 10, NARROW + 30, 20),
        # No 32-bit counter holds this value: it restarted, and the difference is negative.
        (NARROW + 50, 30, 30 - NARROW - 50),
    ],
)
def test_the_difference_of_a_counter(old: int, new: int, moved: int) -> None:
    assert since(old, new) == moved


@given(st.integers(0, NARROW - 1), st.integers(0, NARROW - 1))
def test_a_narrow_counter_tells_what_was_moved_up_to_its_size(start: int, moved: int) -> None:
    assert since(start, (start + moved) % NARROW) == moved
    assert grown(start, (start + moved) % NARROW, moved) == moved


@given(st.integers(0, 2 * NARROW), st.integers(0, NARROW), st.integers(0, NARROW // 2))
def test_a_difference_is_never_more_than_possible(old: int, fell: int, most: int) -> None:
    found = grown(old, max(0, old - fell), most)
    assert found is None or 0 <= found <= most


@pytest.mark.parametrize(
    ("text", "mbps"),
    [("1000", 1000), ("2500", 2500), ("0", None), ("-1", None), ("65535", None), ("4294967295", None), ("", None)],
)
def test_an_unknown_speed_is_none(text: str, mbps: int | None) -> None:
    assert link_speed(text) == mbps
