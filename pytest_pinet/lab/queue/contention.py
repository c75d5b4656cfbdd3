"""Contention domains: measurements that would disturb each other run one after the other.

On one host a domain is a queue (``host_queue``), which all runs and their workers share. Between several runner hosts a
domain is a labgrid place named ``domain-NAME``, if the lab's admin created one.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pytest_pinet.errors import LeaseError
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.queue.host_queue import queue_folder, turn
from pytest_pinet.lab.queue.wait_budget import Patience
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab

PLACE_PREFIX = "domain-"
THIS_HOST = "this host"
_COORDINATOR_PORT = "20408"


def all_domains(lab: Lab) -> Mapping[str, tuple[str, ...]]:
    """Return the domains of a lab, each with its nodes.

    One host carries all nodes that a launcher makes. This host is a domain even if the lab file does not say so.
    """
    everything = set(lab.nodes)
    if lab.launcher is None or any(everything <= set(members) for members in lab.domains.values()):
        return lab.domains
    return {**lab.domains, "host": tuple(lab.nodes)}


def domains_of(lab: Lab, combination: Combination) -> list[str]:
    """Return the domains in which a combination measures: the domains of its nodes."""
    names = {node.name for node in combination.nodes}
    return [domain for domain, members in all_domains(lab).items() if names & set(members)]


def lab_key(lab: Lab, address: str) -> str:
    """Return a key for the domains of a lab, which no other lab has: the resolved address of its coordinator.

    All labs that a launcher makes share the key of this host, whatever their coordinators.
    """
    return THIS_HOST if lab.launcher is not None else _resolved(address)


@functools.cache
def _resolved(address: str) -> str:
    """Return ``host:port`` of a coordinator, the same for all names of its host; if unresolved, the address itself."""
    host, _, port = address.rpartition(":") if address.rpartition(":")[2].isdecimal() else (address, "", "")
    port = port or _COORDINATOR_PORT
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
    except OSError:
        return address
    if any(_is_here(family, where) for family, _, _, _, where in found):
        return f"{THIS_HOST}:{port}"
    return f"{min(str(where[0]) for *_, where in found)}:{port}"


def _is_here(family: int, where: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> bool:
    """Return whether this is an address of this host. Sends nothing: a datagram socket only looks up the route."""
    if ipaddress.ip_address(str(where[0]).partition("%")[0]).is_loopback:
        return True
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(where)
        except OSError:
            return False
        return bool(probe.getsockname()[0] == where[0])


@contextmanager
def exclusive(
    key: str,
    domains: Iterable[str],
    timeout_s: float,
    on_wait: Callable[[str], None],
    identity: Identity | None = None,
) -> Iterator[None]:
    """Hold all these domains of a lab on this host; ``key`` identifies the lab.

    Raises LeaseError after ``timeout_s``, as ``Patience`` counts; ``identity`` identifies workers of our own run.
    Without domains, it does nothing.
    """
    patience = Patience(timeout_s)
    with ExitStack() as stack:
        # Sorted, so that two measurements never wait for each other.
        for domain in sorted(domains):
            try:
                stack.enter_context(turn(key, domain, patience, on_wait, identity))
            except OSError as error:
                where = error.filename or queue_folder()
                raise LeaseError(
                    f"cannot queue for contention domain {domain}: {where}: {error.strerror}",
                    f"the admin of this host: make {queue_folder()} a folder of mode 1777 that runners may write to",
                ) from error
        yield
