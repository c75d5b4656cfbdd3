"""The switch's byte counters compared with the bytes that iperf3 moved."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.evidence.interface import Moved
from pytest_pinet.evidence.octet_check import CableEnd, check_octets, factor, settled
from pytest_pinet.evidence.sockets import COMMAND, HEADERS, parse_octets, read_octets
from pytest_pinet.model.evidence import PortCounters
from tests.support.local_shell import LocalShell

PAYLOAD = 100_000_000
CABLES = [
    CableEnd("a:onboard", "port sw1/p1", Moved(PAYLOAD, 0), Moved(PAYLOAD, 0)),
    CableEnd("b:onboard", "port sw1/p2", Moved(0, PAYLOAD), Moved(0, PAYLOAD)),
]


def counted(rx: float, tx: float, discards: int = 0, epoch: str = "boot", frames: bool = False) -> PortCounters:
    return PortCounters(0.0, round(rx), round(tx), rx_discards=discards, epoch=epoch, frames=frames)


BEFORE = [counted(1000, 2000), counted(3000, 4000)]


def after(in_factor: float, out_factor: float, discards: int = 0) -> list[PortCounters]:
    """Return counters where the sender's port received, and the receiver's port sent, this multiple of the payload."""
    return [counted(1000 + in_factor * PAYLOAD, 2000, discards), counted(3000, 4000 + out_factor * PAYLOAD)]


def check(*reads: Sequence[PortCounters]) -> list[PortCounters]:
    """Check the counters with these readings; the last one repeats."""
    answers = list(reads)
    wire = factor(1500, 52, 1500)
    return check_octets(CABLES, BEFORE, lambda: answers.pop(0) if len(answers) > 1 else answers[0], wire, 0.3)


def test_the_factor_is_that_of_full_segments_with_a_frame_check_sequence() -> None:
    assert factor(1500, 52, 1500) == pytest.approx((1500 + 18) / (1500 - 52))
    assert factor(1500, 28, 64) == pytest.approx((64 + 28 + 18) / 64)


@pytest.mark.parametrize("counts", [1.0483, 1.007, 1.0])
def test_ports_that_count_frames_or_segments_agree(counts: float) -> None:
    assert check(after(counts, counts)) == after(counts, counts)


def test_stale_counters_are_read_again() -> None:
    assert check(after(0.7, 0.6), after(0.9, 0.9), after(1.0483, 1.0483)) == after(1.0483, 1.0483)


def test_traffic_over_another_nic_is_invalid() -> None:
    with pytest.raises(InvalidMeasurement, match=r"only 50.0 MB came in from a:onboard at port sw1/p1, for 100.0 "):
        check(after(0.5, 1.0483))


def test_loss_behind_the_first_port_is_named_with_its_discards() -> None:
    with pytest.raises(
        InvalidMeasurement, match=r"108.0 MB came in from a:onboard at .*\(this port discarded 77 frames"
    ):
        check(after(1.08, 1.0483, discards=77))


def test_loss_behind_the_last_port_is_the_receivers() -> None:
    says = r"112.0 MB went out to b:onboard at port sw1/p2, but only 100.0 MB arrived: the rest was lost on the cable"
    with pytest.raises(InvalidMeasurement, match=says):
        check(after(1.0483, 1.12))


def test_counters_that_started_anew_say_nothing() -> None:
    fresh = [counted(5, 5, epoch="reboot"), counted(5, 5, epoch="reboot")]
    assert check(fresh) == fresh


@pytest.mark.parametrize("counts", [1.0483 * 0.97, 1.0483 * 0.9])
def test_a_port_that_counts_frames_is_held_to_two_percent(counts: float) -> None:
    seen = [replace(reading, frames=True) for reading in after(counts, counts)]
    with pytest.raises(
        InvalidMeasurement, match=r"for 100.0 MB of payload that iperf3 moved: the traffic took another way"
    ):
        check(seen)
    full = [replace(reading, frames=True) for reading in after(1.0483, 1.0483)]
    assert check(full) == full


def test_a_narrow_counter_may_start_over_once() -> None:
    old = [replace(counter, rx_octets=2**32 - 1000, bits=32) for counter in BEFORE]
    rx = (2**32 - 1000 + round(1.0483 * PAYLOAD)) % 2**32
    new = [replace(old[0], rx_octets=rx), replace(old[1], tx_octets=4000 + round(1.0483 * PAYLOAD))]
    assert check_octets(CABLES, old, lambda: new, factor(1500, 52, 1500), 0.0) == new
    assert new[0].octets_since(old[0])[0] == round(1.0483 * PAYLOAD)


def test_a_narrow_counter_that_may_have_wrapped_twice_is_not_checked() -> None:
    moved = 5_000_000_000
    cables = [CableEnd("a:onboard", "port sw1/p1", Moved(moved, 0), Moved(moved, 0))]
    old = [replace(BEFORE[0], bits=32)]
    assert check_octets(cables, old, lambda: old, 1.05, 0.0) == old


def test_counters_that_still_move_are_waited_for() -> None:
    readings = [10_000_000, 20_000_000, 30_000_000, 30_000_100]
    clock = iter(range(0, -100, -10))

    def read() -> list[PortCounters]:
        # All are old, so there is no wait for newer ones.
        return [PortCounters(float(next(clock)) - 1e9, readings.pop(0), 0)]

    found = settled(read, 60.0)
    assert found[0].rx_octets == 30_000_100
    assert readings == []


def test_counters_of_this_moment_are_read_once() -> None:
    reads: list[int] = []

    def read() -> list[PortCounters]:
        reads.append(1)
        return BEFORE

    assert settled(read, 0.0) == BEFORE
    assert len(reads) == 1


RECORDED = """\
uptime 812.40
0      60     192.168.1.7:22 192.168.1.2:42150
\t cubic wscale:10,10 rto:204 rtt:3.011/3.409 ato:40 mss:1448 pmtu:1500 rcvmss:1448 advmss:1448 cwnd:18 \
bytes_sent:3241 bytes_acked:3181 bytes_received:3677 segs_out:26 segs_in:22 data_segs_out:23 data_segs_in:11 \
send 1567117901bps lastsnd:4 lastrcv:16 lastack:4 delivered:23 app_limited busy:60ms minrtt:0.015
0      0      192.168.1.7:22 192.168.1.9:55000
\t cubic rto:204 rtt:0.5/0.2 mss:1448 bytes_acked:100 bytes_received:200 segs_out:3 segs_in:4
"""


def test_headers_and_payload_of_every_connection_count() -> None:
    found = parse_octets(RECORDED)
    assert found is not None
    assert found.uptime_s == 812.4
    assert dict(found.octets) == {
        "192.168.1.7:22 192.168.1.2:42150": 3241 + 3677 + 48 * HEADERS,
        # A kernel before 4.19 does not report bytes_sent.
        "192.168.1.7:22 192.168.1.9:55000": 100 + 200 + 7 * HEADERS,
    }


def test_connections_that_began_later_count_from_their_begin() -> None:
    new = parse_octets(RECORDED)
    old = parse_octets("".join(RECORDED.splitlines(keepends=True)[:3]))
    assert new is not None
    assert old is not None
    assert new.octets_since(old) == 300 + 7 * HEADERS
    assert new.octets_since(new) == old.octets_since(new) == 0


@pytest.mark.parametrize("text", ["", "uptime 3.1\n", "0 0 a:22 b:1\n\t cubic mss:1448\n"])
def test_a_node_without_ss_is_not_counted(text: str) -> None:
    assert parse_octets(text) is None


@pytest.mark.parametrize(
    ("mounts", "cmdline", "counted"),
    [
        ("HOST:/srv / nfs4 rw,vers=4.2,port=PORT,clientaddr=10.0.0.9,addr=HOST 0 0", "quiet", True),
        ("HOST:/srv / nfs rw,vers=3,port=PORT,mountaddr=10.0.0.1,addr=HOST 0 0", "quiet", True),
        ("HOST:/srv / nfs4 rw,port=PORT,addr=127.0.0.9 0 0", "quiet", False),
        # Without an option, the port is 2049.
        ("HOST:/srv / nfs4 rw,addr=HOST 0 0", "quiet", False),
        ("overlay / overlay rw 0 0", "root=/dev/nfs", False),
        ("HOST:/home /home nfs4 rw,port=PORT,addr=HOST 0 0", "quiet", False),
        ("/dev/mmcblk0p2 / ext4 rw 0 0", "quiet", False),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_connections_of_an_nfs_root_count(
    tmp_path: Path, host: str, mounts: str, cmdline: str, counted: bool
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/cmdline").write_text(cmdline)
    with connection(host) as (server, _):
        port = server.getsockname()[1]
        text = mounts.replace("HOST", host).replace("PORT", str(port))
        (tmp_path / "proc/self/mounts").write_text(f"rootfs / rootfs rw 0 0\n{text}\n")
        shell = LocalShell(env={"PATH": "/usr/bin:/bin", "SSH_CONNECTION": f"{host} 1 {host} 2"})
        found = parse_octets(shell.run(COMMAND.replace("root=;", f"root={tmp_path};")).stdout)
    assert [name.rpartition(":")[2] for name in (found.octets if found else ())] == [str(port)] * counted


@contextmanager
def connection(host: str = "127.0.0.1") -> Iterator[tuple[socket.socket, socket.socket]]:
    """A TCP connection of this machine: the server's end, and the client's end."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, 0), family=family)
    with listening as listener, socket.create_connection(listener.getsockname()[:2]) as client:
        server, _ = listener.accept()
        with server:
            yield server, client


def test_ss_of_this_machine_counts_what_a_connection_moves() -> None:
    with connection() as (server, client):
        there, here = client.getsockname(), server.getsockname()
        shell = LocalShell(
            env={"PATH": "/usr/bin:/bin", "SSH_CONNECTION": f"{there[0]} {there[1]} {here[0]} {here[1]}"}
        )
        before = parse_octets(read_octets(shell))
        server.sendall(bytes(50_000))
        client.sendall(bytes(20_000))
        for end, length in ((client, 50_000), (server, 20_000)):
            end.settimeout(5)
            while length:
                length -= len(end.recv(length))
        after = parse_octets(read_octets(shell))
    assert before is not None
    assert after is not None
    assert 70_000 < after.octets_since(before) < 100_000
    assert after.uptime_s >= before.uptime_s
