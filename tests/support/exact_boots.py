"""Exact boots as values, from the tables of measured boots (shared/facts/exact-boards.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_pinet.model.exact import ExactBoot, ExactIdentity, ExactWindow, Function
from pytest_pinet.model.traffic import Direction

PACKETS = 20_000
IDENTITY = ExactIdentity(
    board="macb",
    machine="virt",
    nic="gem",
    model="",
    driver="macb",
    driver_modules=("macb",),
    driver_functions="macb_|gem_",
    qemu="7.2.22",
    processors=1,
    traffic="0123",
    plugin_api=1,
    no_functions="",
    kernel="6.1.0-56-arm64",
    banner="Linux version 6.1.0-56-arm64",
    image="4567",
    cmdline="nokaslr",
    modules={"macb": "89ab", "phylink": "cdef", "pktgen": "0011"},
)
# Instructions for each packet that macb receives; the last line stands for all the others.
RECEIVE = {
    "gem_rx [macb]": 151.0,
    "macb_poll [macb]": 60.0,
    "net_rx_action": 111.0,
    "__slab_free": 112.45,
    "___slab_alloc": 40.0,
    "kmem_cache_alloc_node": 80.0,
    "hrtimer_start_range_ns": 0.02,
    "skb_release_data": 4197.53,
}


def named(name: str) -> Function:
    """Return the function of a line such as ``gem_rx [macb]``."""
    function, _, module = name.partition(" [")
    return Function(module.removesuffix("]"), function)


def window(
    per_packet: Mapping[str, float],
    traffic: str = "frame",
    direction: Direction = Direction.RX,
    octets: int = 60,
    packets: int = PACKETS,
    rate: float = 5297.0,
) -> ExactWindow:
    """Return a window with these instructions for each packet, at this rate (packets in a virtual second)."""
    counts = {named(name): round(value * packets) for name, value in per_packet.items()}
    return ExactWindow(traffic, direction, octets, packets, round(packets / rate * 1e9), sum(counts.values()), counts)


def boot(*windows: ExactWindow, identity: ExactIdentity = IDENTITY) -> ExactBoot:
    """Return a boot with these windows; by default the received packets of macb."""
    return ExactBoot(identity, windows or (window(RECEIVE),))


def with_module(name: str, digest: str = "ffff") -> ExactIdentity:
    """Return the identity with another build of this module."""
    return replace(IDENTITY, modules={**IDENTITY.modules, name: digest})


KNOWN_GOOD = boot()
# Four nops in the receive path of macb. SLUB shifts, as with any other binary.
FOUR_NOPS = boot(
    window({**RECEIVE, "gem_rx [macb]": 155.0, "___slab_alloc": 76.0}, rate=5296.0), identity=with_module("macb")
)
