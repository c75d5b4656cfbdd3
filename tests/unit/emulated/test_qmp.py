"""The QEMU protocol: questions, answers, events and the end."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pytest_pinet.emulated.qmp import Qmp
from pytest_pinet.errors import LabError

GREETING: Mapping[str, Any] = {"QMP": {"version": {}}}


def talk(
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
                    found.append(str(await qmp.ask(command)))
                except LabError as error:
                    found.append(str(error))
        finally:
            qmp.close()
            await server
        return found

    return asyncio.run(asyncio.wait_for(run(), 10)), events


def test_answers_belong_to_their_questions_whatever_events_come_between() -> None:
    event = {"event": "SHUTDOWN", "data": {"guest": True, "reason": "guest-reset"}}
    found, events = talk(lambda command: [event, {"return": command}], ["a", "b"])
    assert found == ["a", "b"]
    assert events == [("SHUTDOWN", {"guest": True, "reason": "guest-reset"})] * 3


def test_a_refusal_is_told_in_qemu_s_words() -> None:
    def answers(command: str) -> list[Mapping[str, Any] | None]:
        return [{"return": {}} if command == "qmp_capabilities" else {"error": {"desc": "Device 'x' not found"}}]

    assert talk(answers, ["set_link"])[0] == ["QEMU refused set_link: Device 'x' not found"]


def test_an_end_of_qemu_ends_the_question() -> None:
    def answers(command: str) -> list[Mapping[str, Any] | None]:
        return [{"return": {}} if command == "qmp_capabilities" else None]

    assert "it has ended" in talk(answers, ["stop"])[0][0]


def test_a_qemu_that_does_not_even_greet_is_told() -> None:
    with pytest.raises(LabError, match="it has ended"):
        talk(lambda _: [None], [])
