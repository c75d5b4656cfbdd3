"""Drops of the tested link alone are the device's fault, or its cable's; drops of other links are the lab's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_pinet.judge.events import DropRule
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import figures, strictly
from pytest_pinet.judge.profile import PROFILES, drops_limit
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.limits import Limit, Metric, Origin, parse_arguments, parse_limit
from pytest_pinet.model.measurement import Event, EventKind
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict
from tests.support import link_stand_in
from tests.support.link_stand_in import TX, flow, key, one_connection

GOOD = one_connection(flow())
DROPPED = Event(EventKind.LINK_DOWN, 0.2, 1.2, "link dropped for 1.2 s at 14:03:07, s/p1")


def lost(*ends: int) -> Connection:
    """Return a connection in which the links of these ends dropped, once for each; without ends, a driver restarted."""
    return replace(one_connection(flow(), excluded=DROPPED.text), link_events=(DROPPED,), dropped=ends)


def at_most(count: int) -> Limit:
    return Limit(count, Origin.LAB_FILE, "lab.yaml:9", metric=Metric.MAX_DROPS)


@pytest.mark.parametrize(
    ("connections", "device", "lab"),
    [
        ([lost(0)], False, False),
        ([lost(0), GOOD], False, False),
        # One disturbance can take a link down several times. The fresh link-up that follows decides.
        ([lost(0, 0, 0)], False, False),
        ([lost(0), lost(0)], True, False),
        ([lost(0), GOOD, lost(0)], True, False),
        # The peer's link, or both at once: the peer, the switch or its power supply.
        ([lost(1), lost(1)], False, True),
        ([lost(0, 1), lost(0, 1)], False, True),
        ([lost(0), lost(1)], False, True),
        # A driver that was restarted is no dropped link.
        ([lost(), lost()], False, True),
    ],
)
def test_a_second_drop_of_the_tested_link_alone_is_the_device_s_fault(
    connections: Sequence[Connection], device: bool, lab: bool
) -> None:
    rule = DropRule({0})
    assert (rule.too_many(connections), rule.lab_is_faulty(connections)) == (device, lab)


def test_both_ends_of_a_direct_cable_lose_their_carrier_at_once() -> None:
    assert DropRule({0, 1}).too_many([lost(0, 1), lost(0, 1)])


@pytest.mark.parametrize(
    ("own", "most", "connections", "device"),
    [
        ({0}, 1, [lost(0, 0, 0, 0, 0)], True),
        ({0}, 5, [lost(0, 0, 0, 0, 0)], False),
        ({0}, 5, [lost(0, 0, 0), GOOD, lost(0, 0, 0)], True),
        # Each end of a direct cable reports each drop.
        ({0, 1}, 2, [lost(0, 0, 1, 1)], False),
        ({0, 1}, 1, [lost(0, 0, 1, 1)], True),
        # Drops of the peer's link are no drops of the device under test.
        ({0}, 1, [lost(0, 0, 1)], False),
    ],
)
def test_a_limit_counts_all_drops_also_in_one_connection(
    own: set[int], most: int, connections: Sequence[Connection], device: bool
) -> None:
    assert DropRule(own, at_most(most)).too_many(connections) is device


@pytest.mark.parametrize(("most", "drops", "device"), [(0, 1, True), (0, 0, False), (3, 3, False), (3, 4, True)])
def test_a_limit_says_how_often_the_link_may_drop(most: int, drops: int, device: bool) -> None:
    assert DropRule({0}, at_most(most)).too_many([GOOD, *[lost(0)] * drops]) is device


def test_the_strictest_limit_of_both_directions_holds() -> None:
    written = parse_arguments({"max_drops": {"tx": 2, "rx": 1}}, Origin.MARKER)
    keys = [key("pi4b", "onboard", way) for way in (Direction.TX, Direction.RX)]
    assert [limit.bound for limit in (drops_limit(written, keys), drops_limit(written, keys[:1])) if limit] == [1, 2]
    assert drops_limit([], keys) is None


@pytest.mark.parametrize("value", [-1, 11, "2", 1.5, True])
def test_a_number_of_drops_is_a_whole_number(value: object) -> None:
    with pytest.raises(ValueError, match="is no number of link drops; expected a whole number from 0 to 10"):
        parse_limit(Metric.MAX_DROPS, value, Origin.CALL, "here")


def test_a_link_that_dropped_once_is_marginal_and_strictly_a_failure() -> None:
    limits = parse_arguments({"min": "90%"}, Origin.MARKER)
    good = one_connection(flow(payload=117_000_000))
    found = figures(link_stand_in.facts(), TX, [lost(0), *[good] * 6], GatePlan(limits, PROFILES["fast"]))
    assert found.verdict is Verdict.MARGINAL
    strict = strictly(found)
    assert (strict.verdict, strict.directions[Direction.TX].verdict) == (Verdict.FAIL, Verdict.FAIL)
    assert "link dropped for 1.2 s" in strict.reason
    assert strict.reason.endswith("marginal results fail (--pinet-strict)")


def test_a_pass_stays_a_pass_when_strict() -> None:
    limits = parse_arguments({"min": "90%"}, Origin.MARKER)
    found = figures(
        link_stand_in.facts(), TX, [one_connection(flow(payload=117_000_000))] * 6, GatePlan(limits, PROFILES["fast"])
    )
    assert strictly(found) == found
