"""A client of QMP, QEMU's control protocol: one JSON object per line, over a private socket pair."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pytest_pinet.errors import LabError

ANSWER_TIMEOUT_S = 10.0
_LARGEST_LINE = 1 << 20


class Qmp:
    """A QMP connection. ``on_event`` is called with the name and the data of each event."""

    def __init__(self, on_event: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._on_event = on_event
        self._answers: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def connect(self, sock: socket.socket) -> None:
        """Open the connection on our end of the socket pair. Raises LabError if QEMU does not answer."""
        reader, self._writer = await asyncio.open_connection(sock=sock, limit=_LARGEST_LINE)
        self._task = asyncio.get_running_loop().create_task(self._listen(reader))
        await self.ask("qmp_capabilities")

    async def ask(self, command: str, **arguments: Any) -> Any:
        """Run a command and return QEMU's answer. Raises LabError."""
        if self._writer is None:
            raise LabError(f"QEMU is not there any more, so it cannot do {command}")
        async with self._lock:
            with suppress(ConnectionError):
                request = {"execute": command, "arguments": arguments}
                self._writer.write(json.dumps(request).encode() + b"\n")
                await self._writer.drain()
            try:
                answer = await asyncio.wait_for(self._answers.get(), ANSWER_TIMEOUT_S)
            except TimeoutError:
                raise LabError(f"QEMU did not answer {command} within {ANSWER_TIMEOUT_S:g} s") from None
        if "error" in answer:
            raise LabError(f"QEMU refused {command}: {answer['error'].get('desc')}")
        return answer.get("return")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._writer is not None:
            self._writer.close()
        self._task = self._writer = None

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                said = json.loads(line)
                if "event" in said:
                    self._on_event(said["event"], said.get("data", {}))
                elif "QMP" not in said:  # the greeting
                    self._answers.put_nowait(said)
        self._answers.put_nowait({"error": {"desc": "it has ended"}})
