"""The daemon's control socket, and its client: one JSON object per line as request, one as answer."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_pinet.errors import ConfigError, LabError, PinetError

Operation = Callable[[Mapping[str, Any]], Awaitable[Any]]
TIMEOUT_S = 30.0
_log = logging.getLogger(__name__)


class ControlServer:
    """Answer ``{"op": NAME, ...}`` with ``{"result": ...}``, or ``{"error": TEXT, "mistake": BOOL}``."""

    def __init__(self, path: Path, operations: Mapping[str, Operation]) -> None:
        self._path = path
        self._operations = operations

    async def serve(self) -> None:
        """Start to accept clients."""
        await asyncio.start_unix_server(self._client, self._path)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            pass
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            operation = self._operations.get(request.get("op"))
            if operation is None:
                raise ConfigError(f"the lab's daemon has no operation {request.get('op')!r}")
            return {"result": await operation(request)}
        except PinetError as error:
            return {"error": str(error), "mistake": isinstance(error, ConfigError)}
        except Exception as error:  # after any error, the lab continues and the client gets the message
            _log.exception("control request failed")
            return {"error": f"the lab's daemon failed: {error!r}", "mistake": False}


def ask(path: Path, op: str, timeout_s: float = TIMEOUT_S, **arguments: Any) -> Any:
    """Send one request and return the answer.

    Raises ConfigError for a user's mistake, LabError if the daemon does not answer or the operation fails.
    """
    request = json.dumps({"op": op, **arguments}).encode() + b"\n"
    answer = b""
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(timeout_s)
            sock.connect(str(path))
            sock.sendall(request)
            while not answer.endswith(b"\n"):
                chunk = sock.recv(65536)
                if not chunk:
                    break
                answer += chunk
    except OSError as error:
        raise LabError(
            f"the virtual lab's daemon does not answer ({error})",
            "restart it: pinet lab down, pinet lab up",
        ) from None
    if not answer:
        raise LabError("the virtual lab's daemon closed the connection", f"look at {path.parent / 'daemon.log'}")
    reply = json.loads(answer)
    if "error" in reply:
        raise ConfigError(reply["error"]) if reply["mistake"] else LabError(reply["error"])
    return reply["result"]
