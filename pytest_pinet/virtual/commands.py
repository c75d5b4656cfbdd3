"""Run system tools from the daemon, in a namespace or on the host."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.namespaces import NetNamespace

TIMEOUT_S = 20.0


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
