"""Limits that are a share of published goodput: whose goodput, and where there is no such limit."""

from __future__ import annotations

import pytest

from pytest_pinet.catalogue.published import of_published, usual
from pytest_pinet.config import labfile
from pytest_pinet.matrix.expansion import combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.limits import Limit, Metric, Origin, parse_limit
from pytest_pinet.model.quantities import Bitrate, PublishedShare
from pytest_pinet.model.traffic import Direction
from tests.support.gate_project import LAB_FILE

TX, RX, BIDIR = Direction.TX, Direction.RX, Direction.BIDIR
LINK = Bitrate.mbps(941.5)
SHARE = parse_limit(Metric.GOODPUT, "90% of published", Origin.MARKER, "min of the marker")


@pytest.fixture(scope="module")
def lab() -> Lab:
    # The only lab with a Wi-Fi adapter.
    return labfile.load(LAB_FILE.with_name("published.yaml"))


@pytest.mark.parametrize(
    ("board", "nic", "way", "mbps"),
    [
        ("pi4b", "ax88179", TX, 736),  # at the stock clock, not at 2 GHz
        ("pi4b", "ax88179", BIDIR, 163),  # of the direction that gets less
        ("pi4b", "genet", TX, 949),  # not "at least 900"
        ("pi3b+", "lan7515", RX, 224),  # not that of a switch without flow control
        ("pi5", "rtl8125", TX, None),
    ],
)
def test_the_first_source_of_a_board_s_nic_counts(board: str, nic: str, way: Direction, mbps: float | None) -> None:
    assert usual(board, nic, way) == (None if mbps is None else Bitrate.mbps(mbps))


@pytest.mark.parametrize(
    ("id_", "way", "words"),
    [
        ("pi4b:ax88179/pair", TX, "90% of 736.0 Mbit/s"),
        # 949 Mbit/s is published, without TCP timestamps.
        ("pi4b:onboard/pair", RX, "90% of 941.5 Mbit/s"),
        ("pi5:onboard/pair", BIDIR, None),
        ("pi3b:usb-802.11n/pair", TX, None),
    ],
)
def test_a_share_is_one_of_the_lower_of_link_and_published_goodput(
    lab: Lab, id_: str, way: Direction, words: str | None
) -> None:
    plain = Limit(Bitrate.mbps(1), Origin.LAB_FILE, "lab.yaml:1")
    found = list(of_published([plain, SHARE], combination(lab, id_), way))
    assert found[0] is plain
    thresholds = [limit.threshold(LINK) for limit in found[1:]]
    assert [str(one) for one in thresholds] == ([] if words is None else [f"{words} (min of the marker)"])


def test_its_text_reads_back() -> None:
    assert str(SHARE.bound) == "90% of published"
    assert PublishedShare.parse(str(SHARE.bound)) == SHARE.bound


def test_an_emulated_board_has_no_such_limit() -> None:
    emulated = labfile.load(LAB_FILE.with_name("emulated.yaml"))
    assert not list(of_published([SHARE], combination(emulated, "virt:e1000e/pair"), TX))
