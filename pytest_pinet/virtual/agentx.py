"""An AgentX subagent (RFC 2741): extends an SNMP agent by the objects of a switch, and applies SETs in two phases.

It holds the part of the protocol that a subagent needs.
"""

from __future__ import annotations

import asyncio
import bisect
import logging
import struct
from collections.abc import Iterable
from enum import IntEnum

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.switch_objects import Oid, SnmpError, SnmpType, SwitchObjects, Value

_VERSION = 1
_NETWORK_BYTE_ORDER = 0x10
_HEADER = "BBBBIIII"
_HEADER_SIZE = 20
_PRIORITY = 127
_INTERNET: Oid = (1, 3, 6, 1)
# The layout of numbers by type.
_NUMBERS: dict[int, str] = {
    SnmpType.INTEGER: "i",
    SnmpType.COUNTER32: "I",
    SnmpType.GAUGE32: "I",
    SnmpType.TIME_TICKS: "I",
    SnmpType.COUNTER64: "Q",
}
_NO_INSTANCE = Value(SnmpType.NO_SUCH_INSTANCE)
_END = Value(SnmpType.END_OF_MIB)
_log = logging.getLogger(__name__)


class PduType(IntEnum):
    """Types of the packets that a subagent of net-snmp sends or receives.

    net-snmp divides a GETBULK request of a client into packets of type GET_NEXT.
    """

    OPEN = 1
    REGISTER = 3
    GET = 5
    GET_NEXT = 6
    TEST_SET = 8
    COMMIT_SET = 9
    UNDO_SET = 10
    CLEANUP_SET = 11
    RESPONSE = 18


def encode_packet(kind: PduType, session: int, transaction: int, number: int, payload: bytes) -> bytes:
    """Encode a packet in the default context."""
    head = (_VERSION, kind, _NETWORK_BYTE_ORDER, 0, session, transaction, number, len(payload))
    return struct.pack(f">{_HEADER}", *head) + payload


def encode_oid(oid: Oid) -> bytes:
    """Encode an OID, in the short form if it is below ``internet``."""
    rest, prefix = oid, 0
    if oid[:4] == _INTERNET and len(oid) > 4 and 0 < oid[4] < 256:
        rest, prefix = oid[5:], oid[4]
    return struct.pack(f">BBBB{len(rest)}I", len(rest), prefix, 0, 0, *rest)


def encode_octets(data: bytes) -> bytes:
    """Encode a string with its length, padded to 4 bytes."""
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


def encode_varbind(name: Oid, value: Value) -> bytes:
    """Encode an OID with its value: a number, a string or a code for a missing value."""
    data = b""
    if isinstance(value.data, bytes):
        data = encode_octets(value.data)
    elif isinstance(value.data, int):
        size = struct.calcsize(_NUMBERS[value.kind])
        data = (value.data % (1 << 8 * size)).to_bytes(size, "big")
    return struct.pack(">HH", value.kind, 0) + encode_oid(name) + data


class Packet:
    """A received packet, in the byte order of its header. The fields of its ``body`` are read from front to back."""

    def __init__(self, head: bytes, body: bytes = b"") -> None:
        self._order = ">" if head[2] & _NETWORK_BYTE_ORDER else "<"
        fields: tuple[int, ...] = struct.unpack(self._order + _HEADER, head)
        self.type = fields[1]
        self.session, self.transaction, self.number, self.length = fields[4:]
        self.body = body
        self._at = 0

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> Packet:
        """Receive a packet."""
        packet = cls(await reader.readexactly(_HEADER_SIZE))
        packet.body = await reader.readexactly(packet.length)
        return packet

    def answered(self, varbinds: Iterable[tuple[Oid, Value]] = (), error: int = 0, index: int = 0) -> bytes:
        """Encode the response. ``index`` is the number of the varbind with the error, from 1."""
        payload = struct.pack(">IHH", 0, error, index) + b"".join(encode_varbind(*one) for one in varbinds)
        return encode_packet(PduType.RESPONSE, self.session, self.transaction, self.number, payload)

    def numbers(self, codes: str) -> tuple[int, ...]:
        """Read numbers with this layout of ``struct``."""
        layout = struct.Struct(self._order + codes)
        found = layout.unpack_from(self.body, self._at)
        self._at += layout.size
        return found

    def oid(self) -> tuple[Oid, bool]:
        """Read an OID, and whether a search includes it."""
        count, prefix, include, _ = self.numbers("BBBB")
        rest = self.numbers(f"{count}I")
        return ((*_INTERNET, prefix, *rest) if prefix else rest), bool(include)

    def ranges(self) -> list[tuple[Oid, bool, Oid]]:
        """Read search ranges: start, whether it is included, and the excluded end (empty: no end)."""
        found = []
        while self._at < len(self.body):
            start, include = self.oid()
            found.append((start, include, self.oid()[0]))
        return found

    def varbinds(self) -> list[tuple[Oid, Value]]:
        """Read OIDs with their values. The value is None if no object accepts its type."""
        found = []
        while self._at < len(self.body):
            kind, _ = self.numbers("HH")
            name, _ = self.oid()
            found.append((name, Value(kind, self._value(kind))))
        return found

    def _value(self, kind: int) -> int | bytes | None:
        if code := _NUMBERS.get(kind):
            return self.numbers(code)[0]
        match kind:
            case SnmpType.OBJECT_ID:
                self.oid()
            case SnmpType.OCTETS | SnmpType.IP_ADDRESS | SnmpType.OPAQUE:
                (length,) = self.numbers("I")
                begin = self._at
                self._at += length + -length % 4
                return self.body[begin : begin + length]
        return None


class SubAgent:
    """A session with an SNMP agent."""

    def __init__(self, objects: SwitchObjects) -> None:
        self._objects = objects
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._tested: dict[int, list[tuple[Oid, Value]]] = {}

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Register all subtrees, then serve until ``close``. Raises LabError if the agent refuses."""
        self._writer = writer

        async def request(kind: PduType, session: int, number: int, payload: bytes) -> int:
            writer.write(encode_packet(kind, session, 0, number, payload))
            answer = await Packet.read(reader)
            _, error, _ = answer.numbers("IHH")
            if answer.type != PduType.RESPONSE or error:
                raise LabError(f"the SNMP agent of the switch refused the AgentX session (error {error})")
            return answer.session

        # No timeout, and an empty OID.
        session = await request(PduType.OPEN, 0, 1, bytes(8) + encode_octets(b"pinet virtual switch"))
        for number, subtree in enumerate(self._objects.subtrees, start=2):
            # A longer OID takes precedence over the agent's own subtree.
            await request(PduType.REGISTER, session, number, bytes((0, _PRIORITY, 0, 0)) + encode_oid(subtree))
        self._task = asyncio.create_task(self._serve(reader, writer))

    async def close(self) -> None:
        """End the session."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                answer = await self._answer(await Packet.read(reader))
                if answer is not None:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the agent ended, for example because the switch was switched off
        except Exception:
            _log.exception("the AgentX subagent of the switch failed")

    async def _answer(self, request: Packet) -> bytes | None:
        match request.type:
            case PduType.GET:
                return request.answered((start, self._get(start)) for start, _, _ in request.ranges())
            case PduType.GET_NEXT:
                return request.answered(self._next(*one) for one in request.ranges())
            case PduType.TEST_SET:
                before = self._tested.get(request.transaction, [])
                changes = [*before, *request.varbinds()]
                error, index = self._objects.test(changes)
                self._tested[request.transaction] = changes
                return request.answered(error=error, index=max(0, index - len(before)))
            case PduType.COMMIT_SET:
                try:
                    await self._objects.commit(self._tested.pop(request.transaction, []))
                except LabError as error:
                    _log.error("an SNMP SET request failed: %s", error)
                    return request.answered(error=SnmpError.COMMIT_FAILED, index=1)
                return request.answered()
            case PduType.UNDO_SET | PduType.CLEANUP_SET:
                self._tested.pop(request.transaction, None)
                return request.answered() if request.type == PduType.UNDO_SET else None
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
