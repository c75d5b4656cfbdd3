"""Output of ``ss`` on real senders (iproute2 6.1), and unusual output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.evidence.sockets import ask_sockets, parse_sockets
from pytest_pinet.judge.preconditions import socket_trouble
from pytest_pinet.model.measurement import Sockets
from tests.support.local_shell import LocalShell

DATA = Path(__file__).parents[2] / "data" / "ss"


def recorded(name: str, streams: int = 1) -> Sockets:
    found = parse_sockets((DATA / f"{name}.txt").read_text(), streams)
    assert found is not None
    return found


def test_the_data_connection_is_distinguished_from_the_control_connection() -> None:
    found = recorded("tcp.server")
    assert replace(found, rtt_s=None, rtt_min_s=None, while_busy=None) == Sockets(
        connections=1,
        mss=1448,
        cwnd_bytes=226 * 1448,
        retransmits=0,
        receiver_limited=0.0,
        sender_limited=0.0,
    )
    assert found.rtt_s == pytest.approx(0.002036)
    assert found.rtt_min_s == pytest.approx(14e-6)
    assert found.while_busy is not None
    assert found.while_busy.bps == pytest.approx(954.1e6, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "mss"),
    [
        ("mss1000.server", 988),
        ("nostamps-mtu1400.server", 1360),
        ("window64k.server", 1448),
        ("bidir.server", 1448),
        ("bidir.client", 1448),
    ],
)
def test_the_mss_in_use_is_read(name: str, mss: int) -> None:
    assert recorded(name).mss == mss


@pytest.mark.parametrize("missing", ["bytes_acked", "busy"])
def test_a_kernel_that_does_not_say_when_it_had_data_gives_no_rate_of_that_time(missing: str) -> None:
    text = (DATA / "tcp.server.txt").read_text().replace(f" {missing}:", " other:")
    found = parse_sockets(text, 1)
    assert found is not None
    assert found.while_busy is None


def test_how_long_a_small_window_was_waited_for_is_read() -> None:
    found = recorded("window64k.server")
    assert found.receiver_limited == pytest.approx(0.387, abs=0.001)
    assert found.sender_limited == pytest.approx(0.484, abs=0.001)


def test_all_streams_are_counted() -> None:
    found = recorded("streams4.server", 4)
    assert found.connections == 4
    assert found.cwnd_bytes == (143 + 464 + 261 + 137) * 1448
    assert found.rtt_s == pytest.approx((4.926 + 4.905 + 4.905 + 4.904) / 4e3)


@pytest.mark.parametrize("name", ["tcp.client", "streams4.client", "mss1000.client"])
def test_a_receiver_has_no_sending_sockets(name: str) -> None:
    assert parse_sockets((DATA / f"{name}.txt").read_text(), 1) is None


def test_buffers_are_read_at_both_ends() -> None:
    sent, received = recorded("window64k-buffers"), parse_sockets((DATA / "window64k-buffers.txt").read_text(), 1, True)
    assert (sent.sndbuf_bytes, sent.mss) == (131072, 61685)
    assert received is not None
    assert (received.rcvbuf_bytes, received.mss) == (131072, 32748)
    assert recorded("tcp.server").sndbuf_bytes is None


def test_retransmits_are_those_in_all() -> None:
    text = (DATA / "tcp.server.txt").read_text().replace(" unacked:135", " unacked:135 retrans:2/17")
    found = parse_sockets(text, 1)
    assert found is not None
    assert found.retransmits == 17


@pytest.mark.parametrize("text", ["", "\n", "hello", "\t mss:x bytes_sent:1000000", "\t cubic bytes_sent:1000000"])
def test_odd_text_gives_no_sockets(text: str) -> None:
    assert parse_sockets(text, 1) is None


def test_an_old_kernel_tells_less() -> None:
    # 3.x: no bytes_sent, no minrtt.
    found = parse_sockets("ESTAB 0 0 10.0.0.1:1 10.0.0.2:2\n\t cubic rtt:1.5/2 mss:1448 cwnd:10 bytes_acked:999999", 1)
    assert found == Sockets(1, 1448, rtt_s=0.0015, cwnd_bytes=14480, retransmits=0)


def test_an_end_without_ss_gives_no_sockets() -> None:
    assert parse_sockets(ask_sockets(LocalShell(env={"PATH": "/nonexistent"}), 1), 1) is None


@pytest.mark.parametrize(
    ("mss", "mtu", "timestamps", "asked", "trouble"),
    [
        (1448, 1500, True, None, None),
        (1460, 1500, False, None, None),
        (988, 1500, True, 1000, None),
        (1388, 1500, True, None, "MTU 1500 allows 1448"),
        (1448, 9000, True, None, "MTU 9000 allows 8948"),
        (536, 1500, True, 1000, "mss=1000 bytes was requested"),
    ],
)
def test_a_smaller_mss_than_expected_is_named(
    mss: int, mtu: int, timestamps: bool, asked: int | None, trouble: str | None
) -> None:
    found = socket_trouble(Sockets(1, mss), mtu, timestamps, asked, "pi4b-1")
    expected = [] if trouble is None else [f"segments of pi4b-1 carried {mss} bytes, though {trouble}"]
    assert [one.text for one in found] == expected


def test_an_mss_above_the_mtu_is_named_with_what_the_mtu_allows() -> None:
    (trouble,) = socket_trouble(Sockets(1, 1448), 1500, True, 8000, "pi4b-1")
    assert trouble.text == (
        "mss=8000 bytes was requested, but segments of pi4b-1 carried 1448 bytes: MTU 1500 allows no more than mss=1460"
    )


@pytest.mark.parametrize(
    "word",
    ["mss:" + "9" * 400, "rtt:" + "9" * 400, "wscale:²,10", "retrans:0/12x", "skmem:(r0,rb" + "9" * 5000 + ",t0)"],
)
def test_a_value_that_no_kernel_prints_is_no_value(word: str) -> None:
    line = f"\t cubic wscale:10,10 mss:1448 bytes_sent:120104416 {word}"
    found = parse_sockets(f"ESTAB 0 0 a:1 b:2\n{line}\n", 1)
    assert found is None or (found.mss, found.rcvbuf_bytes, found.rtt_s, found.retransmits) == (1448, None, None, 0)


# The sender's view of a receiver with tcp_rmem of 4096 bytes (Linux 6.1). Its window has room for one segment.
SMALL_WINDOW = """\
ESTAB 0      33580  198.19.21.106:22021 198.19.21.105:41381
\t skmem:(r0,rb131072,t0,tb69120,f1108,w68524,o0,bl0,d0) cubic wscale:2,10 rto:208 rtt:5.764/6.378 ato:40 mss:730 \
pmtu:1500 rcvmss:536 advmss:1448 cwnd:10 bytes_sent:2785680 bytes_retrans:17520 bytes_acked:2766700 busy:1624ms \
rwnd_limited:1532ms(94.3%) unacked:2 retrans:0/24 minrtt:0.227 snd_wnd:1460
"""


@pytest.mark.parametrize(
    ("old", "new", "trouble"),
    [
        ("", "", 0),
        (" snd_wnd:1460", "", 0),
        (" snd_wnd:1460", " snd_wnd:64256", 1),
        ("1532ms(94.3%) unacked:2 retrans:0/24 minrtt:0.227 snd_wnd:1460", "20ms(1.2%)", 1),
    ],
)
def test_a_window_that_is_too_small_for_whole_segments_is_no_trouble_of_the_path(
    old: str, new: str, trouble: int
) -> None:
    assert old in SMALL_WINDOW
    sockets = parse_sockets(SMALL_WINDOW.replace(old, new), 1)
    assert sockets is not None
    assert sockets.mss == 730
    assert len(socket_trouble(sockets, 1500, True)) == trouble
