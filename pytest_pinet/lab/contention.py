"""Contention domains: measurements that would disturb each other happen one after the other.

A domain is a file lock on the runner's host, so workers of one run and several runs of one host exclude each other. The
kernel drops the lock when its holder dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pytest_pinet.errors import LeaseError
from pytest_pinet.lab.deadline import Deadline


def _lock_file(lab_key: str, domain: str) -> Path:
    """One file for all users of this host; who comes first makes it, for everybody."""
    folder = Path(tempfile.gettempdir()) / "pinet-locks"
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)
    file = folder / hashlib.sha256(f"{lab_key}\n{domain}".encode()).hexdigest()[:16]
    if not file.exists():
        file.touch()
        file.chmod(0o666)
    return file


@contextmanager
def _locked(path: Path, domain: str, deadline: Deadline, on_wait: Callable[[str], None]) -> Iterator[None]:
    # Not for appending: the kernel refuses O_CREAT on another user's file in a sticky folder.
    with path.open("r+") as file:
        told = False

        def try_lock() -> bool:
            nonlocal told
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    told = True
                    on_wait(f"waiting for contention domain {domain}: another measurement runs in it")
                return False
            return True

        if not deadline.wait_until(try_lock):
            raise LeaseError(
                f"waited {deadline.seconds:.0f} s for contention domain {domain}: another measurement runs in it",
                "wait longer with --pinet-acquire-timeout",
            )
        yield


@contextmanager
def exclusive(lab_key: str, domains: Iterable[str], timeout_s: float, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold all these domains of a lab (``lab_key`` tells labs apart). Raises LeaseError at the deadline."""
    deadline = Deadline(timeout_s)
    with ExitStack() as stack:
        # Sorted, so that two measurements never wait for each other.
        for domain in sorted(domains):
            stack.enter_context(_locked(_lock_file(lab_key, domain), domain, deadline, on_wait))
        yield
