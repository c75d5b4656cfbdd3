"""Network namespaces without a name, and system tools that run in them.

A file descriptor keeps each namespace alive, so none outlives the process that made it: the daemon of a virtual lab.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_pinet.errors import LabError

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)  # os.setns exists only from Python 3.12
_OWN = "/proc/thread-self/ns/net"
TIMEOUT_S = 20.0


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


@contextmanager
def _returning() -> Iterator[None]:
    """Move this thread back into its present namespace at the end."""
    home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _check(_libc.setns(home, _CLONE_NEWNET), "setns")
        os.close(home)


class NetNamespace:
    """A network namespace, kept alive by a file descriptor of this process."""

    def __init__(self) -> None:
        with _returning():
            _check(_libc.unshare(_CLONE_NEWNET), "unshare")
            self.fd = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def path(self) -> str:
        """A path for ``ip`` and ``nsenter``, valid while this process lives."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Move this thread into the namespace for a while. The code inside must not await."""
        with _returning():
            _check(_libc.setns(self.fd, _CLONE_NEWNET), "setns")
            yield

    def tcp_socket(self) -> socket.socket:
        """Open a TCP socket in this namespace. The socket stays there when the thread leaves."""
        with self.entered():
            # The protocol must be named. Without it, asyncio leaves Nagle's algorithm on: 40 ms for each ssh command.
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)

    def set_sysctl(self, name: str, value: str) -> bool:
        """Write a sysctl of this namespace. Return False if the kernel refuses."""
        try:
            with self.entered():
                (Path("/proc/sys") / name.replace(".", "/")).write_text(value)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the descriptor. The kernel removes the namespace when it has no other user."""
        os.close(self.fd)


async def run(argv: Sequence[str], text: str = "") -> str:
    """Run a command and return its output. Raises LabError if the command fails or does not end."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(text.encode()), TIMEOUT_S)
    except TimeoutError:
        process.kill()
        raise LabError(f"`{' '.join(argv)}` did not end within {TIMEOUT_S:g} s") from None
    if process.returncode != 0:
        raise LabError(f"`{' '.join(argv)}` failed: {err.decode(errors='replace').strip()}")
    return out.decode(errors="replace")


async def ip(namespace: NetNamespace, lines: Iterable[str]) -> None:
    """Run lines of ``ip`` in a namespace, in one process."""
    await _batch(namespace, "ip", lines)


async def tc(namespace: NetNamespace, lines: Iterable[str]) -> None:
    """Run lines of ``tc`` in a namespace, in one process."""
    await _batch(namespace, "tc", lines)


async def nft(namespace: NetNamespace, rules: str) -> None:
    """Load a rule set in a namespace, atomically."""
    await run(["nsenter", f"--net={namespace.path}", "nft", "-f", "-"], rules)


async def _batch(namespace: NetNamespace, tool: str, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if text:
        await run(["nsenter", f"--net={namespace.path}", tool, "-batch", "-"], text)
