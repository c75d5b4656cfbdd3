"""An AgentX subagent: extends an SNMP agent by subtrees from a table of objects, and applies SETs in two phases."""

from __future__ import annotations

import asyncio
import bisect
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.agentx_protocol import (
    HEADER_SIZE,
    AgentxPdu,
    Oid,
    PduType,
    Reader,
    SnmpError,
    SnmpType,
    Value,
    header,
    open_session,
    register,
    response,
)

_log = logging.getLogger(__name__)
_NO_INSTANCE = Value(SnmpType.NO_SUCH_INSTANCE)
_END = Value(SnmpType.END_OF_MIB)


class Objects(Protocol):
    """The objects that a subagent serves."""

    @property
    def subtrees(self) -> Sequence[Oid]:
        """The subtrees that the subagent registers. No subtree lies within another."""

    def values(self, subtree: Oid) -> Mapping[Oid, Value]:
        """Return all present values of a subtree, by OID."""

    def test(self, changes: Sequence[tuple[Oid, Value]]) -> tuple[SnmpError, int]:
        """Check the changes as a whole. Return the first error and the number of its change, from 1 (no error: 0)."""

    async def commit(self, changes: Sequence[tuple[Oid, Value]]) -> None:
        """Apply the changes. Raises LabError."""


class SubAgent:
    """A session with an SNMP agent."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._tested: dict[int, list[tuple[Oid, Value]]] = {}

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Register all subtrees, then serve until ``close``. Raises LabError if the agent refuses."""
        self._writer = writer
        opened = await self._request(reader, open_session(b"pinet virtual switch"))
        for number, subtree in enumerate(self._objects.subtrees, start=2):
            await self._request(reader, register(opened.session, number, subtree))
        self._task = asyncio.create_task(self._serve(reader))

    async def close(self) -> None:
        """End the session."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _request(self, reader: asyncio.StreamReader, request: AgentxPdu) -> AgentxPdu:
        assert self._writer is not None
        self._writer.write(request.encoded())
        answer, body = await _read(reader)
        _, error, _ = body.numbers("IHH")
        if answer.type != PduType.RESPONSE or error:
            raise LabError(f"the SNMP agent of the switch refused the AgentX session (error {error})")
        return answer

    async def _serve(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                request, body = await _read(reader)
                answer = await self._answer(request, body)
                if answer is not None and self._writer is not None:
                    self._writer.write(answer.encoded())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the agent ended, for example because the switch was switched off
        except Exception:
            _log.exception("the AgentX subagent of the switch failed")

    async def _answer(self, request: AgentxPdu, body: Reader) -> AgentxPdu | None:
        match request.type:
            case PduType.GET:
                return response(request, [(start, self._get(start)) for start, _, _ in body.ranges()])
            case PduType.GET_NEXT:
                return response(request, [self._next(*one) for one in body.ranges()])
            case PduType.GET_BULK:
                return response(request, self._bulk(body))
            case PduType.TEST_SET:
                before = self._tested.get(request.transaction, [])
                changes = [*before, *body.varbinds()]
                error, index = self._objects.test(changes)
                self._tested[request.transaction] = changes
                return response(request, error=error, index=max(0, index - len(before)))
            case PduType.COMMIT_SET:
                try:
                    await self._objects.commit(self._tested.pop(request.transaction, []))
                except LabError as error:
                    _log.error("an SNMP SET request failed: %s", error)
                    return response(request, error=SnmpError.COMMIT_FAILED, index=1)
                return response(request)
            case PduType.UNDO_SET | PduType.CLEANUP_SET:
                self._tested.pop(request.transaction, None)
                return response(request) if request.type == PduType.UNDO_SET else None
        return None

    def _get(self, name: Oid) -> Value:
        for subtree in self._objects.subtrees:
            if name[: len(subtree)] == subtree:
                return self._objects.values(subtree).get(name, _NO_INSTANCE)
        return _NO_INSTANCE

    def _next(self, start: Oid, include: bool, end: Oid) -> tuple[Oid, Value]:
        for subtree in sorted(self._objects.subtrees):
            if start > subtree and start[: len(subtree)] != subtree:
                continue  # the whole subtree lies before ``start``
            values = self._objects.values(subtree)
            names = sorted(values)
            at = bisect.bisect_left(names, start) if include else bisect.bisect_right(names, start)
            if at < len(names):
                if end and names[at] >= end:
                    break
                return names[at], values[names[at]]
        return start, _END

    def _bulk(self, body: Reader) -> list[tuple[Oid, Value]]:
        plain, repetitions = body.numbers("HH")
        ranges = body.ranges()
        found = [self._next(*one) for one in ranges[:plain]]
        rest = ranges[plain:]
        for _ in range(repetitions):
            step = [self._next(*one) for one in rest]
            found += step
            rest = [(name, value == _END, end) for (name, value), (_, _, end) in zip(step, rest, strict=True)]
            if all(value == _END for _, value in step):
                break
        return found


async def _read(reader: asyncio.StreamReader) -> tuple[AgentxPdu, Reader]:
    pdu, length, order = header(await reader.readexactly(HEADER_SIZE))
    return pdu, Reader(await reader.readexactly(length), order)
