from __future__ import annotations

from itertools import pairwise

import pytest

from pytest_pinet.errors import UnsupportedError
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3_version import Version, check

ENDS = ("pi4b-1", "pi5-1")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("iperf 3.12 (cJSON 1.7.15)\nLinux vm 6.18.44 #1 SMP\n", Version(3, 12)),
        ("iperf 3.9", Version(3, 9)),
        ("iperf 3.17.1 (cJSON 1.7.15)", Version(3, 17, 1)),
        ("iperf 3.16-beta1", Version(3, 16)),
    ],
)
def test_the_version_is_read(text: str, version: Version) -> None:
    assert Version.parse(text) == version
    assert str(version) in text


@pytest.mark.parametrize("text", ["", "iperf version 2.1.8", "sh: iperf3: not found", "3.12", "iperf 3"])
def test_other_texts_are_refused_as_version(text: str) -> None:
    with pytest.raises(ValueError, match="does not name an iperf version"):
        Version.parse(text)


def test_versions_are_numbers_not_text() -> None:
    ascending = [Version.parse(f"iperf {t}") for t in ("3.7", "3.9", "3.12", "3.17", "3.17.1", "3.21", "4.0")]
    assert all(a < b for a, b in pairwise(ascending))
    assert [v.threaded for v in ascending] == [False, False, False, True, True, True, True]


@pytest.mark.parametrize("direction", [Direction.TX, Direction.RX])
def test_one_way_works_from_3_7(direction: Direction) -> None:
    check(Traffic(direction), Version(3, 7), Version(3, 21), ENDS)
    with pytest.raises(UnsupportedError, match=r"iperf3 needs iperf3 3\.7 or newer on both ends .* pi5-1 has 3\.6"):
        check(Traffic(direction), Version(3, 7), Version(3, 6), ENDS)


@pytest.mark.parametrize("udp", [False, True])
@pytest.mark.parametrize(("client", "server"), [("3.9", "3.12"), ("3.12", "3.9"), ("3.10", "3.10"), ("3.7", "3.21")])
def test_bidir_needs_3_11_on_both_ends(client: str, server: str, udp: bool) -> None:
    versions = (Version.parse(f"iperf {client}"), Version.parse(f"iperf {server}"))
    with pytest.raises(UnsupportedError) as caught:
        check(Traffic(Direction.BIDIR, udp=udp), *versions, ENDS)
    assert str(caught.value) == (
        "--bidir needs iperf3 3.11 or newer on both ends "
        "(3.7 to 3.10 repeat JSON keys, so that one direction is lost): "
        f"pi4b-1 has {client}, pi5-1 has {server}"
    )


def test_bidir_works_from_3_11() -> None:
    check(Traffic(Direction.BIDIR), Version(3, 11), Version(3, 12), ENDS)
