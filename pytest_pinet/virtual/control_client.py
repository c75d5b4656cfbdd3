"""Send requests to the daemon of a running lab."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from pytest_pinet.errors import ConfigError, LabError

TIMEOUT_S = 30.0


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
        raise LabError(f"the virtual lab's daemon does not answer ({error})", "pinet lab down, then up again") from None
    if not answer:
        raise LabError("the virtual lab's daemon closed the connection", f"look at {path.parent / 'daemon.log'}")
    reply = json.loads(answer)
    if "error" in reply:
        raise ConfigError(reply["error"]) if reply["mistake"] else LabError(reply["error"])
    return reply["result"]
