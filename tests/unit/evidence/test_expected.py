"""Carrier changes at the start of a run after a deliberate link-down and link-up."""

from __future__ import annotations

from datetime import datetime

import pytest

from pytest_pinet.evidence.observer import CarrierReading, ExpectedChanges, carrier_events
from pytest_pinet.model.measurement import EventKind


def readings(*changes: int | None, down: int | None = None) -> list[CarrierReading]:
    """Return a reading per tenth of a second. In reading ``down`` the link is down."""
    return [CarrierReading(n / 10, 1000 + n, 1000 + n, n != down, count, 1000) for n, count in enumerate(changes)]


def events(expected: int, *changes: int | None, down: int | None = None) -> list[EventKind]:
    """Return the events of a run that begins with the second reading; the first is from before."""
    before, *after = readings(*changes, down=down)
    sifted = ExpectedChanges(expected, before)
    begins_with: list[CarrierReading] = []
    for reading in after:
        begins_with += [reading] if begins_with else sifted.after(reading)
    return [event.kind for event in carrier_events(begins_with, "sw1/p5", 0.0, lambda _: datetime(2026, 11, 22))]


@pytest.mark.parametrize("changes", [(4, 6, 6), (4, 4, 5, 6, 6), (4, 5, 5, 5, 6)])
def test_changes_up_to_the_expected_count_are_not_events(changes: tuple[int, ...]) -> None:
    assert events(6, *changes) == []


def test_one_more_drop_is_reported_at_any_time() -> None:
    assert events(6, 4, 8, 8) == [EventKind.LINK_DOWN]
    assert events(6, 4, 6, 8) == [EventKind.LINK_DOWN]
    assert events(6, 4, 7, 7, 8, down=1) == [EventKind.LINK_DOWN]


def test_a_driver_restart_right_after_expected_changes_is_reported() -> None:
    assert EventKind.RESTART in events(6, 4, 0, 2)
    assert EventKind.RESTART in events(6, 4, 6, 2)


def test_an_expected_driver_restart_is_not_an_event() -> None:
    assert events(2, 10, 2, 2) == []
    assert events(2, 10, 4, 4) == [EventKind.LINK_DOWN]


def test_a_device_without_such_a_count_is_watched_at_once() -> None:
    assert events(6, None, None, None) == []
    sifted = ExpectedChanges(6)
    assert [len(sifted.after(reading)) for reading in readings(None, None)] == [1, 1]


def test_without_any_reading_from_before_it_begins_with_the_first_that_has_them_all() -> None:
    sifted = ExpectedChanges(6)
    assert [len(sifted.after(reading)) for reading in readings(5, 6)] == [0, 1]
