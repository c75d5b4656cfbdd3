"""At which share of their rate a machine can carry the links of a virtual lab: tried out, never guessed.

``python -m pytest_pinet.virtual.scale RATE`` (as root) makes one cable of that layer 2 rate (bit/s) between two network
namespaces and prints which part of it TCP got. All of it goes with the process.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pytest_pinet.errors import LabError, LeaseError
from pytest_pinet.lab.contention import all_domains, exclusive, lab_key
from pytest_pinet.model.lab import Lab
from pytest_pinet.virtual.commands import ip, tc
from pytest_pinet.virtual.link_models import goodput
from pytest_pinet.virtual.namespaces import NetNamespace
from pytest_pinet.virtual.shaping import node_queue, token_bucket

SMALL = 0.1
# What may be missing at full rate: published figures are to come out within 3 %.
ENOUGH = 0.97
SECONDS = 2
# For the machine to be free of measurements of others, and for the trial itself.
PATIENCE_S = 120.0
TRIAL_S = 30.0
_ADDRESSES = ("198.18.0.1", "198.18.0.2")
_POLL_S = 0.05


def found_scale(lab: Lab, fastest_bps: float, root: Sequence[str]) -> float:
    """1 on a machine that carries the lab's fastest link, SMALL on one that does not, or is never free for a trial.

    ``root`` are the words that make a command run as root. Raises LabError when the trial fails.
    """
    if fastest_bps <= 0:
        return 1.0
    domains = [name for name, members in all_domains(lab).items() if set(lab.nodes) <= set(members)]
    try:
        with exclusive(lab_key(lab, ""), domains, PATIENCE_S, lambda _: None):
            return scale_for(_tried(fastest_bps, root))
    except LeaseError:
        return SMALL


def scale_for(part: float) -> float:
    """``part`` is what TCP got of the fastest link."""
    return 1.0 if part >= ENOUGH else SMALL


def _tried(rate_bps: float, root: Sequence[str]) -> float:
    argv = [*root, sys.executable, "-m", "pytest_pinet.virtual.scale", f"{rate_bps:.0f}"]
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=TRIAL_S, cwd="/")
    except subprocess.TimeoutExpired:
        return 0.0
    try:
        return float(done.stdout)
    except ValueError:
        raise LabError(
            f"what this machine carries could not be tried out: {done.stderr.strip() or 'no answer'}",
            "write 'scale: 0.1' or 'scale: 1' into the lab file",
        ) from None


def part_of(report: Mapping[str, Any], rate_bps: float) -> float:
    """Which part of a layer 2 rate a report of iperf3 says that its receiver got, by its goodput."""
    try:
        got = float(report["end"]["sum_received"]["bits_per_second"])
    except (KeyError, TypeError, ValueError):
        raise LabError(f"iperf3: {report.get('error', 'its report has no figure')}") from None
    return got / goodput(rate_bps)


async def _cable(ends: tuple[NetNamespace, NetNamespace], rate_bps: float) -> None:
    near, far = ends
    await ip(near, [f"link add name eth0 type veth peer name eth0 netns {far.path}"])
    for end, address in zip(ends, _ADDRESSES, strict=True):
        # As on virtual boards.
        end.set_sysctl("net.ipv4.tcp_congestion_control", "cubic")
        await ip(end, ["link set dev lo up", f"address add {address}/24 dev eth0", "link set dev eth0 up"])
        await tc(end, [token_bucket("eth0", rate_bps, node_queue(rate_bps))])


def _inside(end: NetNamespace, *argv: str) -> subprocess.Popen[str]:
    """A process that dies with this one."""
    words = ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net={end.path}", *argv]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def try_out(rate_bps: float) -> float:
    """Send TCP through one cable of this rate. Raises LabError."""
    ends = (NetNamespace(), NetNamespace())
    asyncio.run(_cable(ends, rate_bps))
    deadline = time.monotonic() + TRIAL_S / 2
    server = _inside(ends[1], "iperf3", "-s", "-1", "-B", _ADDRESSES[1])
    try:
        while True:
            client = _inside(ends[0], "iperf3", "-c", _ADDRESSES[1], "-t", str(SECONDS), "-J")
            try:
                report = json.loads(client.communicate(timeout=max(1.0, deadline - time.monotonic()))[0])
            except subprocess.TimeoutExpired:
                return 0.0
            finally:
                client.kill()
                client.wait()
            # The server may not listen yet.
            if "error" not in report or time.monotonic() > deadline or server.poll() is not None:
                return part_of(report, rate_bps)
            time.sleep(_POLL_S)
    finally:
        server.kill()
        server.wait()


def main(arguments: Sequence[str]) -> int:
    """Print the part."""
    # A terminated one ends what it started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with suppress(KeyboardInterrupt):
        try:
            sys.stdout.write(f"{try_out(float(arguments[0]))}\n")
        except (LabError, OSError, ValueError) as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
