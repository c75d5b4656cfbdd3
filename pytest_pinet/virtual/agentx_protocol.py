"""AgentX packets (RFC 2741): the part of the protocol between SNMP agent and subagent that a subagent needs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

Oid = tuple[int, ...]

_HEADER = struct.Struct(">BBBBIIII")
HEADER_SIZE = _HEADER.size
_VERSION = 1
_NETWORK_BYTE_ORDER = 0x10
_INTERNET: Oid = (1, 3, 6, 1)


class PduType(IntEnum):
    """Types of the packets that a subagent sends or receives."""

    OPEN = 1
    REGISTER = 3
    GET = 5
    GET_NEXT = 6
    GET_BULK = 7
    TEST_SET = 8
    COMMIT_SET = 9
    UNDO_SET = 10
    CLEANUP_SET = 11
    RESPONSE = 18


class SnmpType(IntEnum):
    """SNMP types, and the codes for missing values."""

    INTEGER = 2
    OCTETS = 4
    OBJECT_ID = 6
    COUNTER32 = 65
    GAUGE32 = 66
    TIME_TICKS = 67
    COUNTER64 = 70
    NO_SUCH_INSTANCE = 129
    END_OF_MIB = 130


class SnmpError(IntEnum):
    """Reasons for refusing a SET (RFC 3416)."""

    NONE = 0
    WRONG_TYPE = 7
    WRONG_VALUE = 10
    INCONSISTENT_VALUE = 12
    COMMIT_FAILED = 14
    NOT_WRITABLE = 17
    INCONSISTENT_NAME = 18


@dataclass(frozen=True)
class Value:
    """A typed value. ``data`` is int, bytes, an OID or None, depending on ``kind``."""

    kind: int
    data: int | bytes | Oid | None = None


integer = partial(Value, SnmpType.INTEGER)
counter32 = partial(Value, SnmpType.COUNTER32)
counter64 = partial(Value, SnmpType.COUNTER64)
gauge = partial(Value, SnmpType.GAUGE32)
octets = partial(Value, SnmpType.OCTETS)


@dataclass(frozen=True)
class AgentxPdu:
    """A packet. ``payload`` follows the context, which is always the default context."""

    type: int
    session: int
    transaction: int
    packet: int
    payload: bytes = b""

    def encoded(self) -> bytes:
        head = (_VERSION, self.type, _NETWORK_BYTE_ORDER, 0)
        return _HEADER.pack(*head, self.session, self.transaction, self.packet, len(self.payload)) + self.payload


def header(data: bytes) -> tuple[AgentxPdu, int, str]:
    """Return the packet without its payload, the payload's length, and the byte order (``>`` or ``<``)."""
    order = ">" if data[2] & _NETWORK_BYTE_ORDER else "<"
    _, kind, _, _, session, transaction, packet, length = struct.unpack(f"{order}BBBBIIII", data)
    return AgentxPdu(kind, session, transaction, packet), length, order


def encode_oid(oid: Oid) -> bytes:
    """Encode an OID, in the short form if it is below ``internet``."""
    if oid[:4] == _INTERNET and len(oid) > 4 and 0 < oid[4] < 256:
        rest, prefix = oid[5:], oid[4]
    else:
        rest, prefix = oid, 0
    return struct.pack(f">BBBB{len(rest)}I", len(rest), prefix, 0, 0, *rest)


def encode_octets(data: bytes) -> bytes:
    """Encode a string with its length, padded to 4 bytes."""
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


def encode_varbind(name: Oid, value: Value) -> bytes:
    """Encode an OID with its value."""
    head = struct.pack(">HH", value.kind, 0) + encode_oid(name)
    match value.data:
        case None:
            return head
        case int():
            size = 8 if value.kind == SnmpType.COUNTER64 else 4
            return head + (value.data % (1 << 8 * size)).to_bytes(size, "big")
        case bytes():
            return head + encode_octets(value.data)
        case oid:
            return head + encode_oid(oid)


def response(
    request: AgentxPdu, varbinds: Iterable[tuple[Oid, Value]] = (), error: int = 0, index: int = 0
) -> AgentxPdu:
    """Return the response to a request. ``index`` is the number of the varbind with the error, from 1."""
    payload = struct.pack(">IHH", 0, error, index) + b"".join(encode_varbind(*one) for one in varbinds)
    return AgentxPdu(PduType.RESPONSE, request.session, request.transaction, request.packet, payload)


def open_session(name: bytes) -> AgentxPdu:
    """Return the first packet of a session. The agent's response holds the session number."""
    # No timeout, and an empty OID.
    return AgentxPdu(PduType.OPEN, 0, 0, 1, bytes(8) + encode_octets(name))


def register(session: int, packet: int, subtree: Oid) -> AgentxPdu:
    """Return the packet that registers a subtree. A longer OID takes precedence over the agent's own subtree."""
    priority = 127
    return AgentxPdu(PduType.REGISTER, session, 0, packet, bytes((0, priority, 0, 0)) + encode_oid(subtree))


class Reader:
    """A reader of the fields of a payload, from front to back."""

    def __init__(self, data: bytes, order: str) -> None:
        self._data = data
        self._order = order
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def numbers(self, codes: str) -> tuple[int, ...]:
        layout = struct.Struct(self._order + codes)
        found = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return found

    def oid(self) -> tuple[Oid, bool]:
        """Read an OID, and whether a search includes it."""
        count, prefix, include, _ = self.numbers("BBBB")
        rest = self.numbers(f"{count}I")
        return ((*_INTERNET, prefix, *rest) if prefix else rest), bool(include)

    def octets(self) -> bytes:
        (length,) = self.numbers("I")
        found = self._data[self._at : self._at + length]
        self._at += length + -length % 4
        return found

    def ranges(self) -> list[tuple[Oid, bool, Oid]]:
        """Read search ranges: start, whether it is included, and the excluded end (empty: no end)."""
        found = []
        while self.more:
            start, include = self.oid()
            end, _ = self.oid()
            found.append((start, include, end))
        return found

    def varbinds(self) -> list[tuple[Oid, Value]]:
        found = []
        while self.more:
            kind, _ = self.numbers("HH")
            name, _ = self.oid()
            found.append((name, Value(kind, self._value(kind))))
        return found

    def _value(self, kind: int) -> int | bytes | Oid | None:
        match kind:
            case SnmpType.INTEGER:
                return self.numbers("i")[0]
            case SnmpType.COUNTER32 | SnmpType.GAUGE32 | SnmpType.TIME_TICKS:
                return self.numbers("I")[0]
            case SnmpType.COUNTER64:
                return self.numbers("Q")[0]
            case SnmpType.OBJECT_ID:
                return self.oid()[0]
            case 4 | 64 | 68:  # octet string, IP address, opaque
                return self.octets()
            case _:
                return None


def bitmap(ports: Iterable[int], size: int) -> bytes:
    """Return a PortList (RFC 4363): port 1 is the highest bit of the first octet."""
    found = bytearray(size)
    for port in ports:
        found[(port - 1) // 8] |= 0x80 >> ((port - 1) % 8)
    return bytes(found)


def ports_of(data: Sequence[int]) -> frozenset[int]:
    """Return the ports in a PortList. The reverse of ``bitmap``."""
    return frozenset(8 * i + bit + 1 for i, octet in enumerate(data) for bit in range(8) if octet & 0x80 >> bit)
