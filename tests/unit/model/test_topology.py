"""Topologies, and the keys of metrics."""

from __future__ import annotations

import re

import pytest

from pytest_pinet.model.metric_key import CombinationId, MetricKey, metric_keys
from pytest_pinet.model.topology import FORM, all_names, parse_topology
from pytest_pinet.model.traffic import Direction, Traffic


def sends(name: str, direction: Direction) -> list[tuple[int, int]]:
    """Return sender and receiver of every one-way flow."""
    return [
        (run.a, run.b) if way is Direction.TX else (run.b, run.a)
        for run in parse_topology(name).runs(direction)
        for way in run.direction.parts
    ]


@pytest.mark.parametrize(
    ("name", "direction", "flows"),
    [
        ("pair", Direction.TX, [(0, 1)]),
        ("pair", Direction.BIDIR, [(0, 1), (1, 0)]),
        ("pairs:3", Direction.TX, [(0, 1), (2, 3), (4, 5)]),
        ("pairs:2", Direction.RX, [(1, 0), (3, 2)]),
        ("opposed", Direction.TX, [(0, 1), (3, 2)]),
        ("incast:3", Direction.RX, [(1, 0), (2, 0), (3, 0)]),
        ("outcast:2", Direction.TX, [(0, 1), (0, 2)]),
        ("mesh:3", Direction.BIDIR, [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)]),
        ("chain", Direction.TX, [(3, 1)]),
        ("chain", Direction.RX, [(1, 3)]),
    ],
)
def test_each_topology_has_its_flows(name: str, direction: Direction, flows: list[tuple[int, int]]) -> None:
    assert sends(name, direction) == flows


@pytest.mark.parametrize("name", ["pair", "pairs:5", "opposed", "incast:7", "outcast:2", "mesh:4", "chain"])
def test_every_end_is_in_exactly_one_segment(name: str) -> None:
    topology = parse_topology(name)
    assert sorted(end for segment in topology.segments for end in segment) == list(range(topology.ends))


@pytest.mark.parametrize("name", ["pairs:3", "opposed", "incast:4", "outcast:4", "mesh:3"])
def test_flows_stay_in_their_segment(name: str) -> None:
    topology = parse_topology(name)
    for run in topology.runs(topology.directions[0]):
        assert any({run.a, run.b} <= set(segment) for segment in topology.segments)


def test_a_chain_needs_one_node_less_than_it_has_ends() -> None:
    assert (parse_topology("chain").ends, parse_topology("chain").nodes) == (4, 3)
    assert parse_topology("incast:5").nodes == 6


def test_a_number_left_out_is_the_smallest_and_stands_in_the_name() -> None:
    names = [parse_topology(kind).name for kind in ("pairs", "incast", "outcast", "mesh")]
    assert names == ["pairs:2", "incast:2", "outcast:2", "mesh:3"]
    assert parse_topology("incast") == parse_topology("incast:2")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("star", f"'star' is not a topology; expected {FORM}"),
        ("pair:2", f"'pair:2' is not a topology; expected {FORM}"),
        ("incast:1", "'incast:1': the N of topology incast:N must be 2 to 64, such as 'incast:3'"),
        ("mesh:x", "'mesh:x': the N of topology mesh:N must be 3 to 64, such as 'mesh:4'"),
        ("pairs:", "'pairs:': the N of topology pairs:N must be 2 to 64, such as 'pairs:3'"),
    ],
)
def test_an_unknown_topology_is_refused_with_the_accepted_ones(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_topology(text)


def test_an_impossible_direction_is_refused() -> None:
    with pytest.raises(ValueError, match=r"direction 'tx' is not possible in topology incast:2; accepted: rx"):
        parse_topology("incast:2").runs(Direction.TX)


def test_globs_are_matched_against_real_names() -> None:
    assert all(parse_topology(name).name == name for name in all_names())


PAIR = CombinationId("pi4b", "onboard", "pair")
TX, RX, BIDIR = Direction.TX, Direction.RX, Direction.BIDIR


@pytest.mark.parametrize(
    ("traffic", "direction", "text", "both_ways"),
    [
        (TX, TX, "pi4b:onboard/pair/tcp-P1-tx", False),
        (RX, RX, "pi4b:onboard/pair/tcp-P1-rx", False),
        (BIDIR, BIDIR, "pi4b:onboard/pair/tcp-P1-bidir", True),
        (BIDIR, TX, "pi4b:onboard/pair/tcp-P1-bidir-tx", True),
        (BIDIR, RX, "pi4b:onboard/pair/tcp-P1-bidir-rx", True),
        # In topology `opposed` the second pair runs in the other direction.
        (TX, RX, "pi4b:onboard/pair/tcp-P1-tx", False),
    ],
)
def test_text(traffic: Direction, direction: Direction, text: str, both_ways: bool) -> None:
    key = MetricKey(PAIR, Traffic(traffic), direction)
    assert (str(key), key.both_ways) == (text, both_ways)


def test_each_direction_has_a_key() -> None:
    assert [str(key) for key in metric_keys(PAIR, Traffic(BIDIR)).values()] == [
        "pi4b:onboard/pair/tcp-P1-bidir-tx",
        "pi4b:onboard/pair/tcp-P1-bidir-rx",
    ]
    assert list(metric_keys(PAIR, Traffic(RX))) == [RX]


def test_a_tuning_is_part_of_the_combination() -> None:
    assert str(CombinationId("pi4b", "usb", "chain", "mtu=9000")) == "pi4b:usb/chain/mtu=9000"
