"""The share of the full rate at which this machine can carry the links of a virtual lab. It is measured, not guessed.

A trial takes 0.5 s on a fast machine and 2 s on a slow one. Its result is stored for this host, so that only the first
lab with a faster link needs another trial.

``python -m pytest_pinet.virtual.scale RATE`` (as root) is the trial. It connects two network namespaces to a bridge in
a third one, shapes all ends to this layer 2 rate (bit/s), and prints the part of the rate that TCP got. The kernel
removes the namespaces when the process ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_pinet.errors import LabError, LeaseError
from pytest_pinet.execution.files import cache_home, write_file
from pytest_pinet.lab.contention import all_domains, exclusive, lab_key
from pytest_pinet.model.lab import Lab, Scale
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.virtual.link_models import goodput, node_queue, port_queue, token_bucket
from pytest_pinet.virtual.namespaces import NetNamespace, ip, tc

SMALL = 0.1
# Time limits: until no other measurement runs on the machine, which a trial would disturb; and for the trial itself.
PATIENCE_S = 1.0
TRIAL_S = 15.0
# Results expire: a slow machine may only have been busy, and a fast one may lose its processors to other work.
SLOW_FOR, FAST_FOR = timedelta(days=1), timedelta(days=30)
# The least part that counts as full rate, since published values must be reproduced within 3 %.
ENOUGH = 0.97
# TCP reaches its full window in the warm-up. Then time windows follow until one shows enough: short other work on
# the machine must not make it look slow.
WARMUP_S, WINDOW_S, WINDOWS = 0.1, 0.25, 6
SILENCE_S = 2.0
_ADDRESSES = ("198.18.0.1", "198.18.0.2")
_CHUNK = 1 << 17


@dataclass(frozen=True)
class Trial:
    """The result of a trial: at ``at`` (ISO 8601, UTC), TCP got ``part`` of the layer 2 rate ``rate_bps``."""

    rate_bps: float
    part: float
    at: str

    @property
    def enough(self) -> bool:
        return self.part >= ENOUGH

    def __str__(self) -> str:
        # The part can exceed 1 a little, because a token bucket lets more pass after an idle moment.
        return f"this machine carried {min(1.0, self.part) * 100:.3g} % of {Bitrate(self.rate_bps)} on {self.at[:10]}"


class Trials:
    """The trials of this host. A new kernel or a different number of processors makes old trials invalid."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or cache_home() / "pytest-pinet" / f"trials-{platform.node() or 'here'}.json"
        self._machine = f"{platform.release()} {platform.machine()}, {len(os.sched_getaffinity(0))} processors"

    def read(self) -> list[Trial]:
        """Return the stored trials. Empty if the file is missing, not readable, or of another machine."""
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            if stored["machine"] != self._machine:
                return []
            return [Trial(float(one["rate_bps"]), float(one["part"]), str(one["at"])) for one in stored["trials"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def of(self, rate_bps: float) -> Trial | None:
        """Return a valid trial for this rate: a faster link that was carried, or a slower link that was not."""
        now = datetime.now(UTC)
        for one in reversed(self.read()):
            applies = one.rate_bps >= 0.999 * rate_bps if one.enough else one.rate_bps <= 1.001 * rate_bps
            if applies and one.at > (now - (FAST_FOR if one.enough else SLOW_FOR)).isoformat():
                return one
        return None

    def add(self, trial: Trial) -> None:
        """Store a trial instead of old ones of the same rate. If storing fails, the next lab runs a new trial."""
        others = [one for one in self.read() if one.rate_bps != trial.rate_bps]
        stored = {"machine": self._machine, "trials": [asdict(one) for one in (*others, trial)]}
        with suppress(OSError):
            write_file(self._path, [f"{json.dumps(stored, indent=1)}\n".encode()])


def measured_scale(lab: Lab, fastest_bps: float, root: Sequence[str], trials: Trials | None = None) -> Scale:
    """Return full rate if this machine carries the lab's fastest link, SMALL if a trial shows that it does not.

    Without a trial, because of another measurement, the rate is full. ``root`` is the command prefix that runs a
    command as root. Raises LabError if the trial fails.
    """
    if fastest_bps <= 0:
        return Scale(1.0, "no two NICs of the lab are connected")
    trials = trials or Trials()
    known = trials.of(fastest_bps)
    if known is not None:
        return scale_for(known)
    domains = [name for name, members in all_domains(lab).items() if set(lab.nodes) <= set(members)]
    try:
        with exclusive(lab_key(lab, ""), domains, PATIENCE_S, lambda _: None):
            found = Trial(fastest_bps, _run_trial(fastest_bps, root), datetime.now(UTC).isoformat(timespec="seconds"))
    except LeaseError:
        return Scale(1.0, "not measured: another measurement runs on this machine")
    trials.add(found)
    return scale_for(found)


def scale_for(trial: Trial) -> Scale:
    """Return the scale that follows from a trial."""
    return Scale(1.0 if trial.enough else SMALL, str(trial))


def _run_trial(rate_bps: float, root: Sequence[str]) -> float:
    argv = [*root, sys.executable, "-m", "pytest_pinet.virtual.scale", f"{rate_bps:.0f}"]
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=TRIAL_S, cwd="/")
    except subprocess.TimeoutExpired:
        return 0.0
    try:
        return float(done.stdout)
    except ValueError:
        raise LabError(
            f"the trial of the link rates on this machine failed: {done.stderr.strip() or 'no output'}",
            "write 'scale: 0.1' or 'scale: 1' into the lab file",
        ) from None


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


def main(rate: str) -> None:
    """Print the part of the rate."""
    # After SIGTERM, the process exits through the usual cleanup.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with suppress(KeyboardInterrupt):
        try:
            sys.stdout.write(f"{carried(float(rate)):.4f}\n")
        except (LabError, OSError, ValueError) as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1])
