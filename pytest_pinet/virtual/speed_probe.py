"""A short trial of the goodput that this machine can carry: TCP over a path like in a virtual lab.

``python -m pytest_pinet.virtual.speed_probe RATE`` (as root) connects two network namespaces to a bridge in a third
one, and shapes all ends to this layer 2 rate (bit/s). It prints the part of the rate that TCP got. The kernel removes
the namespaces when the process ends.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.link_models import goodput
from pytest_pinet.virtual.namespaces import NetNamespace, ip, tc
from pytest_pinet.virtual.shaping import node_queue, port_queue, token_bucket

# The least part that counts as full rate, since published values must be reproduced within 3 %.
ENOUGH = 0.97
# TCP reaches its full window in the warm-up. Then time windows follow until one shows enough: short other work on
# the machine must not make it look slow.
WARMUP_S, WINDOW_S, WINDOWS = 0.1, 0.25, 6
SILENCE_S = 2.0
_ADDRESSES = ("198.18.0.1", "198.18.0.2")
_CHUNK = 1 << 17


def carried(rate_bps: float) -> float:
    """Return the part of this layer 2 rate that TCP gets, at best. Raises LabError or OSError."""
    near, switch, far = NetNamespace(), NetNamespace(), NetNamespace()
    asyncio.run(_path(near, switch, far, rate_bps))
    best = 0.0
    for got_bps in _rates(near, far):
        best = max(best, got_bps / goodput(rate_bps))
        if best >= ENOUGH:
            break
    return best


async def _path(near: NetNamespace, switch: NetNamespace, far: NetNamespace, rate_bps: float) -> None:
    ports = {"p1": near, "p2": far}
    await ip(switch, ["link add name br0 type bridge stp_state 0 forward_delay 0", "link set dev br0 up"])
    for (port, end), address in zip(ports.items(), _ADDRESSES, strict=True):
        # The same congestion control as on virtual boards.
        end.set_sysctl("net.ipv4.tcp_congestion_control", "cubic")
        await ip(
            switch,
            [
                f"link add name {port} type veth peer name eth0 netns {end.path}",
                f"link set dev {port} master br0 up",
            ],
        )
        await ip(
            end,
            [
                "link set dev eth0 gso_max_segs 65535",
                f"address add {address}/24 dev eth0",
                "link set dev eth0 up",
            ],
        )
        await tc(end, [token_bucket("eth0", rate_bps, node_queue(rate_bps))])
    await tc(switch, [token_bucket(port, rate_bps, port_queue(rate_bps)) for port in ports])


def _rates(near: NetNamespace, far: NetNamespace) -> Iterator[float]:
    """Return the goodput (bit/s) of one connection in each time window after the warm-up."""
    with far.tcp_socket() as listener, near.tcp_socket() as client:
        listener.bind((_ADDRESSES[1], 0))
        listener.listen(1)
        for sock in (listener, client):
            sock.settimeout(SILENCE_S)
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        with server:
            server.settimeout(SILENCE_S)
            sender = threading.Thread(target=_send, args=(client,), daemon=True)
            sender.start()
            try:
                _receive(server, WARMUP_S)
                for _ in range(WINDOWS):
                    yield _receive(server, WINDOW_S)
            finally:
                # The shutdown ends the sender with an error.
                for sock in (server, client):
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)
                sender.join(SILENCE_S)


def _send(sock: socket.socket) -> None:
    chunk = bytes(_CHUNK)
    with suppress(OSError):
        while True:
            sock.sendall(chunk)


def _receive(sock: socket.socket, seconds: float) -> float:
    """Receive for some seconds, and return the rate (bit/s)."""
    buffer = bytearray(2 * _CHUNK)
    begin, count = time.monotonic(), 0
    while (now := time.monotonic()) < begin + seconds:
        got = sock.recv_into(buffer)
        if not got:
            raise LabError("the TCP connection of the trial was closed")
        count += got
    return count * 8 / (now - begin)


def main(arguments: Sequence[str]) -> int:
    """Print the part of the rate."""
    # After SIGTERM, the process exits through the usual cleanup.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with suppress(KeyboardInterrupt):
        try:
            sys.stdout.write(f"{carried(float(arguments[0])):.4f}\n")
        except (LabError, OSError, ValueError) as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
