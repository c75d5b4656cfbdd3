"""Delay of all frames to a board, at the switch port. The kernel of this machine has no netem.

A rule redirects each frame to a TAP device. This process reads it there, and sends it later through the port with a
mark that the rule lets pass.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.regressions.bench import Bench, Namespace
from pytest_pinet.errors import LabError

_TUNSETIFF = 0x400454CA
_TAP, _NO_INFO = 0x2, 0x1000
_MARK = 0x70
_LARGEST = 65_536
_TAP_QUEUE = 10_000


@contextmanager
def delayed(bench: Bench, node: str, seconds: Callable[[], float], interface: str = "onboard") -> Iterator[None]:
    """Delay what a node receives. ``seconds`` is read for each frame; frames keep their order."""
    namespace, port = bench.switch, bench.port(node, interface)
    tap, table = f"late-{port}", f"netdev late-{port}"
    with namespace.entered():
        reader = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.ioctl(reader, _TUNSETIFF, struct.pack("16sH", tap.encode(), _TAP | _NO_INFO))
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, _MARK)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 21)
    with namespace.entered():
        sender.bind((port, 0))
    namespace.run("ip", "link", "set", "dev", tap, "addrgenmode", "none")
    namespace.run("ip", "link", "set", "dev", tap, "txqueuelen", str(_TAP_QUEUE), "up")
    namespace.run(
        *("nft", "-f", "-"),
        text=f"table {table} {{ chain rx {{ type filter hook egress device {port} priority -20;"
        f' meta mark != {_MARK} fwd to "{tap}"\n}}\n}}\n',
    )
    ended, errors = threading.Event(), []

    def forward() -> None:
        try:
            _forward(reader, sender, seconds, ended)
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        _remove(namespace, table)
        thread.join(5)
        sender.close()
        os.close(reader)
    if errors:
        raise LabError(f"the delay ended early: {errors[0]}")


def _forward(reader: int, sender: socket.socket, seconds: Callable[[], float], ended: threading.Event) -> None:
    waiting: deque[tuple[float, bytes]] = deque()
    while not ended.is_set():
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.2
        if select.select([reader], [], [], pause)[0]:
            due = time.monotonic() + seconds()
            for _ in range(64):
                try:
                    waiting.append((due, os.read(reader, _LARGEST)))
                except BlockingIOError:
                    break
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            try:
                sender.send(waiting.popleft()[1])
            except OSError:
                # The port is down, or its queue is full: the frame is lost, as on a cable.
                continue


def _remove(namespace: Namespace, table: str) -> None:
    namespace.run("nft", "-f", "-", text=f"add table {table}\ndelete table {table}\n")
