"""AgentX packets (RFC 2741), as far as a subagent needs them: the words that an SNMP agent and its extension speak."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

Oid = tuple[int, ...]

_HEADER = struct.Struct(">BBBBIIII")
HEADER_SIZE = _HEADER.size
_VERSION = 1
_NETWORK_BYTE_ORDER = 0x10
_INTERNET: Oid = (1, 3, 6, 1)


class PduType(IntEnum):
    """The packets that a subagent sends or gets."""

    OPEN = 1
    CLOSE = 2
    REGISTER = 3
    GET = 5
    GET_NEXT = 6
    GET_BULK = 7
    TEST_SET = 8
    COMMIT_SET = 9
    UNDO_SET = 10
    CLEANUP_SET = 11
    RESPONSE = 18


class Kind(IntEnum):
    """SNMP types, and the three words for what is not there."""

    INTEGER = 2
    OCTETS = 4
    OBJECT_ID = 6
    COUNTER32 = 65
    GAUGE32 = 66
    TIME_TICKS = 67
    COUNTER64 = 70
    NO_SUCH_INSTANCE = 129
    END_OF_MIB = 130


class Trouble(IntEnum):
    """Why a SET is refused (RFC 3416)."""

    NONE = 0
    WRONG_TYPE = 7
    WRONG_VALUE = 10
    INCONSISTENT_VALUE = 12
    COMMIT_FAILED = 14
    NOT_WRITABLE = 17
    INCONSISTENT_NAME = 18


@dataclass(frozen=True)
class Value:
    """A typed value; ``data`` is int, bytes, an OID or None after ``kind``."""

    kind: int
    data: int | bytes | Oid | None = None


@dataclass(frozen=True)
class Pdu:
    """A packet; ``payload`` comes after the context, which is the default one always."""

    type: int
    session: int
    transaction: int
    packet: int
    payload: bytes = b""

    def encoded(self) -> bytes:
        head = (_VERSION, self.type, _NETWORK_BYTE_ORDER, 0)
        return _HEADER.pack(*head, self.session, self.transaction, self.packet, len(self.payload)) + self.payload


def header(data: bytes) -> tuple[Pdu, int, str]:
    """The packet without its payload, the payload's length, and the byte order of both ends (``>`` or ``<``)."""
    order = ">" if data[2] & _NETWORK_BYTE_ORDER else "<"
    _, kind, _, _, session, transaction, packet, length = struct.unpack(f"{order}BBBBIIII", data)
    return Pdu(kind, session, transaction, packet), length, order


def encode_oid(oid: Oid) -> bytes:
    """A name, shortened where it lies below ``internet``."""
    if oid[:4] == _INTERNET and len(oid) > 4 and 0 < oid[4] < 256:
        rest, prefix = oid[5:], oid[4]
    else:
        rest, prefix = oid, 0
    return struct.pack(f">BBBB{len(rest)}I", len(rest), prefix, 0, 0, *rest)


def encode_octets(data: bytes) -> bytes:
    """A string with its length, filled up to words."""
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


def encode_varbind(name: Oid, value: Value) -> bytes:
    """A name and its value."""
    head = struct.pack(">HH", value.kind, 0) + encode_oid(name)
    match value.data:
        case None:
            return head
        case int():
            return head + struct.pack(">Q" if value.kind == Kind.COUNTER64 else ">I", value.data & _mask(value.kind))
        case bytes():
            return head + encode_octets(value.data)
        case oid:
            return head + encode_oid(oid)


def response(request: Pdu, varbinds: Iterable[tuple[Oid, Value]] = (), error: int = 0, index: int = 0) -> Pdu:
    """The answer to a request; ``index`` counts varbinds from 1 and says which one the error is about."""
    payload = struct.pack(">IHH", 0, error, index) + b"".join(encode_varbind(*one) for one in varbinds)
    return Pdu(PduType.RESPONSE, request.session, request.transaction, request.packet, payload)


def open_session(name: bytes) -> Pdu:
    """The first packet; the agent's answer holds the number of the session."""
    payload = struct.pack(">BBBB", 0, 0, 0, 0) + struct.pack(">BBBB", 0, 0, 0, 0) + encode_octets(name)
    return Pdu(PduType.OPEN, 0, 0, 1, payload)


def register(session: int, packet: int, subtree: Oid) -> Pdu:
    """Take over a subtree; a deeper one wins over what the agent itself has."""
    priority = 127
    return Pdu(PduType.REGISTER, session, 0, packet, struct.pack(">BBBB", 0, priority, 0, 0) + encode_oid(subtree))


class Reader:
    """Takes a payload apart, from front to back."""

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
        """An OID and whether a search includes it."""
        count, prefix, include, _ = self.numbers("BBBB")
        rest = self.numbers(f"{count}I")
        return ((*_INTERNET, prefix, *rest) if prefix else rest), bool(include)

    def octets(self) -> bytes:
        (length,) = self.numbers("I")
        found = self._data[self._at : self._at + length]
        self._at += length + -length % 4
        return found

    def ranges(self) -> list[tuple[Oid, bool, Oid]]:
        """Search ranges: from where, whether that itself counts, up to before what (empty: no end)."""
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
            case Kind.INTEGER:
                return self.numbers("i")[0]
            case Kind.COUNTER32 | Kind.GAUGE32 | Kind.TIME_TICKS:
                return self.numbers("I")[0]
            case Kind.COUNTER64:
                return self.numbers("Q")[0]
            case Kind.OBJECT_ID:
                return self.oid()[0]
            case 4 | 64 | 68:  # octet string, IP address, opaque
                return self.octets()
            case _:
                return None


def _mask(kind: int) -> int:
    return 0xFFFFFFFFFFFFFFFF if kind == Kind.COUNTER64 else 0xFFFFFFFF


def integer(value: int) -> Value:
    """An INTEGER."""
    return Value(Kind.INTEGER, value)


def gauge(value: int) -> Value:
    """A Gauge32, which is an Unsigned32 too."""
    return Value(Kind.GAUGE32, value)


def octets(value: bytes) -> Value:
    """An OCTET STRING."""
    return Value(Kind.OCTETS, value)


def bitmap(ports: Iterable[int], size: int) -> bytes:
    """A PortList (RFC 4363): port 1 is the highest bit of the first octet."""
    found = bytearray(size)
    for port in ports:
        found[(port - 1) // 8] |= 0x80 >> ((port - 1) % 8)
    return bytes(found)


def ports_of(data: Sequence[int]) -> frozenset[int]:
    """The reverse of ``bitmap``."""
    return frozenset(8 * i + bit + 1 for i, octet in enumerate(data) for bit in range(8) if octet & 0x80 >> bit)
