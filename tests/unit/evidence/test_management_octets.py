"""The octets of the ssh connections of a node, from recorded output of ``ss`` (iproute2 6.1, kernel 6.1)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_pinet.evidence.management_octets import COMMAND, HEADERS, parse_octets, read_octets
from tests.support.local_shell import LocalShell

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
