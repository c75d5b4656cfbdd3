"""A pytest plugin (``-p tests.support.recorded_exact``) that boots nothing: exact boots are values or recorded files.

The name of a build is the name of its boots: a value of ``BOOTS``, ``lacking`` for a kernel that no board can run,
``meeting`` for a build that boots only if both NICs do at the same time, or ``error KIND`` for a build that breaks. A
build without a boot of its own, and the stock kernel, are the known-good boot. ``heavier`` has a
function of the kernel with more instructions, ``moved`` has it only without a meaningless change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from pytest_pinet.errors import BuildError, CapabilityError, LabError
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import ExactBoot, MadeExactBoot
from pytest_pinet.model.traffic import Direction
from pytest_pinet.session.exact_gate import PlannedExactBoot
from tests.support.exact_boots import FOUR_NOPS, KNOWN_GOOD, RECEIVE, boot, window, with_module

TRANSMIT = {"macb_start_xmit [macb]": 320.0, "pktgen_xmit [pktgen]": 210.0, "dev_queue_xmit": 1800.0}


def _both_ways(received: ExactBoot, **transmitted: float) -> ExactBoot:
    sent = {**TRANSMIT, **{f"{name} [macb]": value for name, value in transmitted.items()}}
    windows = window(sent, direction=Direction.TX, rate=13_690.0), received.windows[0]
    return ExactBoot(received.identity, windows)


GOOD = _both_ways(KNOWN_GOOD)
BOOTS: Mapping[str, ExactBoot] = {
    "good": GOOD,
    "nops": _both_ways(FOUR_NOPS),
    "slow": _both_ways(
        boot(
            window({**RECEIVE, "gem_rx [macb]": 151.0 + 480, "macb_poll [macb]": 61.0}, rate=4890.0),
            identity=with_module("macb"),
        ),
        macb_start_xmit=324.0,
    ),
    "heavier": _both_ways(boot(window({**RECEIVE, "skb_release_data": 4300.0}), identity=with_module("macb"))),
    "qemu10": replace(GOOD, identity=replace(GOOD.identity, qemu="10.0.2")),
}


class RecordedMachines:
    """Implements ``ExactMachines``. The known-good build is cached from its second use on."""

    nics: Sequence[str] = ("macb", "igb")

    def __init__(self) -> None:
        self._booted: set[str] = set()
        self._both = threading.Barrier(2)

    def stock_release(self, say: Callable[[str], None]) -> str:
        return GOOD.identity.kernel

    def known_good(self, nic: str, build: Build | None, new: Build, say: Callable[[str], None]) -> PlannedExactBoot:
        name = "good" if build is None else build.name
        planned = self._planned(nic, name, 0 if name in self._booted else 2)
        self._booted.add(name)
        return planned

    def boot(self, nic: str, build: Build, say: Callable[[str], None]) -> PlannedExactBoot:
        return self._planned(nic, build.name, 1)

    def stop(self) -> None:
        self._both.abort()

    def _planned(self, nic: str, name: str, boots: int) -> PlannedExactBoot:
        if nic == "igb" and name != "meeting":
            raise CapabilityError("igb needs QEMU 8.0 or later, found 7.2.22")

        if name == "lacking":
            raise CapabilityError("the kernel has no network namespaces (CONFIG_NET_NS)")

        def make(number: int) -> MadeExactBoot:
            if name == "meeting":
                # Both NICs boot at the same time, or the run fails.
                self._both.wait(20)
            if name == "unsteady":
                raise LabError("macb is not exact on this machine: tcp-tx: packets was 5500 in one boot and 5501")
            if name.startswith("error "):
                kind = name.removeprefix("error ")
                raise BuildError(f"kernel 6.1.0-56-arm64 on the exact board {nic}: {kind}", kind, "the last line")
            own = "heavier" if name == "moved" and not number else name
            return MadeExactBoot(BOOTS.get(own, GOOD), 42.0, cached=not boots)

        return PlannedExactBoot(lambda number: boots if number == 0 else min(boots, 1), make)


@pytest.hookimpl
def pytest_pinet_exact_machines(config: pytest.Config) -> RecordedMachines:
    """Return the recorded boots."""
    return RecordedMachines()
