"""Contention domains: measurements that would disturb each other run one after the other.

On one host a domain is a queue (``turn``), which all runs and their workers share. Between several runner hosts a
domain is a labgrid place named ``domain-NAME``, if the lab's admin created one.

A queue is a set of tickets in a folder that all users share. A ticket is a numbered file, locked by the process that
waits or measures. The lowest number goes first. When the process dies, the kernel drops the lock, and the ticket loses
its turn.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import ipaddress
import os
import socket
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.errors import LeaseError
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab

# If a worker of our own run holds the same thing for this long, it hangs.
SIBLING_S = 3600.0


class Patience:
    """Is over when others have held the resource for ``timeout_s``; time for workers of our own run does not count.

    The tests of these workers end by themselves. The clock therefore stands still while such a worker holds the
    resource, but for no longer than ``sibling_s`` without a break.
    """

    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout_s = timeout_s
        self.sibling_s = max(timeout_s, SIBLING_S)
        self._clock = clock
        self._looked = clock()
        self._holder = ""
        self._sibling = False
        self._counted_s = self._siblings_s = self._stretch_s = 0.0

    def look(self, holder: str, sibling: bool) -> None:
        """Update the times. ``holder`` must differ if the same holder released and acquired again."""
        now = self._clock()
        passed, self._looked = now - self._looked, now
        if self._sibling:
            self._siblings_s += passed
            self._stretch_s += passed
        else:
            self._counted_s += passed
        if holder != self._holder:
            self._holder, self._stretch_s = holder, 0.0
        self._sibling = sibling

    @property
    def hangs(self) -> bool:
        """Return whether a worker of our own run has held the resource for too long."""
        return self._sibling and self._stretch_s >= self.sibling_s

    @property
    def over(self) -> bool:
        return self.hangs or (not self._sibling and self._counted_s >= self.timeout_s)

    @property
    def remaining_s(self) -> float:
        """The time until it is over, if the holder stays the same."""
        left = self.sibling_s - self._stretch_s if self._sibling else self.timeout_s - self._counted_s
        return max(0.0, left)

    @property
    def waited_s(self) -> float:
        """The total time waited, for holders of any kind."""
        return self._counted_s + self._siblings_s

    @property
    def waited(self) -> str:
        """The time waited, in words: ``7 s``, ``7 s, and 90 s for workers of this run``."""
        if not self._siblings_s:
            return f"{self._counted_s:.0f} s"
        return f"{self._counted_s:.0f} s, and {self._siblings_s:.0f} s for workers of this run"

    @property
    def progress(self) -> str:
        """The progress in words: ``waited 7 s of 900 s``."""
        if self._sibling:
            return f"a worker of this run; waited {self._stretch_s:.0f} s for it"
        return f"waited {self._counted_s:.0f} s of {self.timeout_s:.0f} s"


PLACE_PREFIX = "domain-"
THIS_HOST = "this host"
_COORDINATOR_PORT = "20408"
_POLL_S = 0.02
_FOR_ALL = 0o1777  # sticky, so that users cannot remove the files of others


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
    if host.lower() == "localhost":
        # RFC 6761, section 6.3. A container's /etc/hosts may lack the name.
        return f"{THIS_HOST}:{port}"
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


def queue_folder() -> Path:
    """Return the folder where all users of this host queue, whatever their ``TMPDIR``."""
    # A service may have a private ``/tmp``. On Debian and Raspberry Pi OS all users may write to /run/lock, on other
    # systems not.
    locks = Path("/run/lock")
    shared = locks.is_dir() and stat.S_IMODE(locks.stat().st_mode) == _FOR_ALL
    return (locks if shared else Path("/tmp")) / "pinet"


@dataclass(frozen=True)
class _Queue:
    """The tickets of one domain. The tickets of all domains share one folder."""

    folder: Path
    name: str

    @classmethod
    def of(cls, key: str, domain: str) -> _Queue:
        folder = queue_folder()
        with suppress(FileExistsError):
            folder.mkdir()
            # The first user makes the folder writable for all. The mode of an existing folder is never changed: it may
            # be a link that another user made.
            folder.chmod(_FOR_ALL)
        return cls(folder, hashlib.sha256(f"{key}\n{domain}".encode()).hexdigest()[:16])

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder, so that one process at a time draws or reads tickets; held for microseconds only."""
        door = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(door, fcntl.LOCK_EX)
            yield
        finally:
            os.close(door)

    def tickets(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self.name}-*"))

    def draw(self, text: str) -> tuple[Path, int]:
        """Draw a ticket behind all others; return its path and the descriptor that keeps it locked."""
        with self.alone():
            last = max((int(path.name.rpartition("-")[2]) for path in self.tickets()), default=0)
            own = self.folder / f"{self.name}-{last + 1:010d}"
            # Readable for all users, whatever the umask, because all users check the lock.
            descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            os.fchmod(descriptor, 0o644)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, text.encode())
        return own, descriptor

    def ahead(self, own: Path) -> tuple[Path, str] | None:
        """Return the first ticket ahead of this one and its text, or None when it is this ticket's turn."""
        with self.alone():
            # The oldest locked ticket has the turn.
            return next(((t, text) for t in self.tickets() if t < own and (text := _text(t)) is not None), None)


def _text(ticket: Path) -> str | None:
    """Return the text of a ticket, or None if its holder is dead or done; then the ticket is removed."""
    try:
        with ticket.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                # Read through the open file: the holder may have finished and removed the ticket meanwhile.
                return file.read()
    except OSError:
        return None
    # A ticket of another user stays, since the folder is sticky. It does no harm.
    with suppress(OSError):
        ticket.unlink()
    return None


@contextmanager
def turn(
    key: str, domain: str, patience: Patience, on_wait: Callable[[str], None], identity: Identity | None
) -> Iterator[None]:
    """Queue for a domain, then hold it for the block. Raises LeaseError when ``patience`` is over."""
    queue = _Queue.of(key, domain)
    who = f"process {os.getpid()} since {time.strftime('%T')}"
    own, descriptor = queue.draw(f"{who}\n{identity or ''}")
    try:
        reported = ""
        while (ahead := queue.ahead(own)) is not None:
            ticket, text = ahead
            holder, _, theirs = text.partition("\n")
            patience.look(ticket.name, identity is not None and Identity.parse(theirs).is_sibling_of(identity))
            if patience.over:
                raise _too_long(domain, holder, patience)
            if reported != holder:
                reported = holder
                on_wait(f"waiting for contention domain {domain}: held by {holder}")
            time.sleep(_POLL_S)
        yield
    finally:
        with suppress(FileNotFoundError):
            own.unlink()
        os.close(descriptor)


def _too_long(domain: str, holder: str, patience: Patience) -> LeaseError:
    if patience.hangs:
        return LeaseError(
            f"waited {patience.sibling_s:.0f} s for contention domain {domain}, held by {holder}, a worker of this run",
            "check whether a test of that worker hangs; if it measures for so long, increase --pinet-acquire-timeout",
        )
    return LeaseError(
        f"waited {patience.waited} for contention domain {domain}, held by {holder}: another measurement runs in it",
        "increase --pinet-acquire-timeout",
    )
