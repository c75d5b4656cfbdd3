"""The IP addresses of the ends of a combination while it is cabled."""

from __future__ import annotations

import ipaddress
import zlib

from pytest_pinet.model.combination import Combination

# 198.18.0.0/15 is reserved for benchmarks of network devices (RFC 2544) and is not routed on the Internet.
BENCHMARK_NET = ipaddress.IPv4Network("198.18.0.0/15")


def addresses(combination: Combination) -> tuple[ipaddress.IPv4Interface, ...]:
    """Return one address for each end, from a block chosen by the combination's ends.

    The MAC addresses of the lab file count too: most boards have the same host name, and two desks with equal names may
    be in one network.

    All segments share one subnet. An end can therefore send ARP requests to other segments without a route, and must
    get no answer. Only if a node forwards between two segments, each segment has its own subnet.
    """
    topology = combination.topology
    groups = topology.segments if topology.forwards else (tuple(range(topology.ends)),)
    # Two more, for the network and broadcast addresses.
    sizes = [_power_of_two(len(group) + 2) for group in groups]
    block = _power_of_two(sum(sizes))
    names = [f"{end}{end.interface.mac or ''}" for end in combination.ends]
    seed = zlib.crc32("-".join(names).encode())
    base = int(BENCHMARK_NET.network_address) + block * (seed % (BENCHMARK_NET.num_addresses // block))
    found = {}
    for group, size in zip(groups, sizes, strict=True):
        prefix = 32 - (size.bit_length() - 1)
        for position, end in enumerate(group, start=1):
            found[end] = ipaddress.IPv4Interface((base + position, prefix))
        base += size
    return tuple(found[end] for end in range(topology.ends))


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
