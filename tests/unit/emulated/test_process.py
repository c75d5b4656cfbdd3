"""QMP: commands, answers, events, and the end of QEMU."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pytest_pinet.emulated.process import Qmp
from pytest_pinet.errors import LabError

GREETING: Mapping[str, Any] = {"QMP": {"version": {}}}


def exchange(
    answers: Callable[[str], list[Mapping[str, Any] | None]], commands: list[str]
) -> tuple[list[str], list[tuple[str, Mapping[str, Any]]]]:
    """Return the result of each command, and the events.

    The far end sends the results of ``answers`` (None: it ends).
    """
    events: list[tuple[str, Mapping[str, Any]]] = []

    async def far_end(sock: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=sock)
        writer.write(json.dumps(GREETING).encode() + b"\r\n")
        while line := await reader.readline():
            for answer in answers(json.loads(line)["execute"]):
                if answer is None:
                    writer.close()
                    return
                writer.write(json.dumps(answer).encode() + b"\r\n")
        writer.close()

    async def run() -> list[str]:
        ours, theirs = socket.socketpair()
        for sock in (ours, theirs):
            sock.setblocking(False)
        server = asyncio.get_running_loop().create_task(far_end(theirs))
        qmp = Qmp(lambda name, data: events.append((name, data)))
        found = []
        try:
            await qmp.connect(ours)
            for command in commands:
                try:
                    found.append(str(await qmp.run(command)))
                except LabError as error:
                    found.append(str(error))
        finally:
            qmp.close()
            await server
        return found

    return asyncio.run(asyncio.wait_for(run(), 10)), events


def test_events_do_not_disturb_the_order_of_answers() -> None:
    event = {"event": "SHUTDOWN", "data": {"guest": True, "reason": "guest-reset"}}
    found, events = exchange(lambda command: [event, {"return": command}], ["a", "b"])
    assert found == ["a", "b"]
    assert events == [("SHUTDOWN", {"guest": True, "reason": "guest-reset"})] * 3


def test_an_error_answer_is_raised_with_its_text() -> None:
    def answers(command: str) -> list[Mapping[str, Any] | None]:
        return [{"return": {}} if command == "qmp_capabilities" else {"error": {"desc": "Device 'x' not found"}}]

    assert exchange(answers, ["set_link"])[0] == ["QEMU refused the command set_link: Device 'x' not found"]


def test_a_command_fails_when_qemu_ends() -> None:
    def answers(command: str) -> list[Mapping[str, Any] | None]:
        return [{"return": {}} if command == "qmp_capabilities" else None]

    assert "QEMU has ended" in exchange(answers, ["stop"])[0][0]


def test_a_connection_fails_when_qemu_ends_at_once() -> None:
    with pytest.raises(LabError, match="QEMU has ended"):
        exchange(lambda _: [None], [])
