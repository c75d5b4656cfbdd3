"""The end of an event loop. A module of its own, because asyncio takes longer to import than the help of a command."""

from __future__ import annotations

import asyncio


async def end_other_tasks(grace_s: float = 0.0) -> None:
    """Let the other tasks of this loop end within ``grace_s``, then cancel them.

    asyncio prints an error about a task that is lost with its loop.
    """
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, late = await asyncio.wait(others, timeout=grace_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
