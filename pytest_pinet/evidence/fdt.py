"""Reads and writes flattened device trees: .dtb files, and the tree a kernel booted with (/sys/firmware/fdt).

The format is that of the Devicetree Specification 0.4, chapter 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType

MAGIC = b"\xd0\x0d\xfe\xed"
_BEGIN_NODE, _END_NODE, _PROPERTY, _NOP, _END = 1, 2, 3, 4, 9
# The firmware of a Raspberry Pi accepts no deeper tree; a damaged file must not take all memory.
_DEEPEST = 64

# magic, size, structure, strings, reservations, version, last compatible version, processor, sizes of the last two
_HEAD = struct.Struct(">4s9I")
_VERSION, _OLDEST_READER = 17, 16

# The properties of each node by its path. A property without a value is empty.
DeviceTree = Mapping[str, Mapping[str, bytes]]


class NotDeviceTree(Exception):
    """The data are no whole device tree. The text says why."""


def read_device_tree(data: bytes) -> DeviceTree:
    """Return the nodes of a device tree, in their order. Raises NotDeviceTree."""
    if data[:4] != MAGIC:
        raise NotDeviceTree("it does not begin like a device tree")
    try:
        return _nodes(data)
    except (struct.error, ValueError, IndexError):
        raise NotDeviceTree("it is truncated or damaged") from None


def _nodes(data: bytes) -> DeviceTree:
    total, structs, strings = struct.unpack_from(">3I", data, 4)
    if total > len(data):
        raise ValueError
    found: dict[str, Mapping[str, bytes]] = {}
    open_nodes: list[tuple[str, dict[str, bytes]]] = []
    at = structs
    while True:
        (token,) = struct.unpack_from(">I", data, at)
        at += 4
        if token == _BEGIN_NODE:
            name, at = _text(data, at)
            path = f"{open_nodes[-1][0].rstrip('/')}/{name}" if open_nodes else "/"
            open_nodes.append((path, {}))
            if len(open_nodes) > _DEEPEST:
                raise ValueError
            found[path] = MappingProxyType(open_nodes[-1][1])
            at += -at % 4
        elif token == _PROPERTY:
            size, name_at = struct.unpack_from(">2I", data, at)
            at += 8
            if at + size > len(data):
                raise ValueError
            open_nodes[-1][1][_text(data, strings + name_at)[0]] = data[at : at + size]
            at += size + -size % 4
        elif token == _END_NODE:
            open_nodes.pop()
        elif token == _END:
            return MappingProxyType(found)
        elif token != _NOP:
            raise ValueError


def _text(data: bytes, at: int) -> tuple[str, int]:
    """Return a text that ends with a zero byte, and the offset behind it."""
    end = data.index(b"\0", at)
    return data[at:end].decode("ascii", "replace"), end + 1


def write_device_tree(tree: DeviceTree) -> bytes:
    """Return a device tree as the octets of a .dtb file. Parents need not stand before their children."""
    children: dict[str, list[str]] = {path: [] for path in tree}
    for path in tree:
        if path != "/":
            children[path.rpartition("/")[0] or "/"].append(path)
    strings = bytearray()
    offsets: dict[str, int] = {}

    def offset_of(name: str) -> int:
        if name not in offsets:
            offsets[name] = len(strings)
            strings.extend(name.encode() + b"\0")
        return offsets[name]

    def node(path: str) -> Iterator[bytes]:
        yield struct.pack(">I", _BEGIN_NODE) + _padded(path.rpartition("/")[2].encode() + b"\0")
        for name, value in tree[path].items():
            yield struct.pack(">3I", _PROPERTY, len(value), offset_of(name)) + _padded(value)
        for child in children[path]:
            yield from node(child)
        yield struct.pack(">I", _END_NODE)

    structs = b"".join(node("/")) + struct.pack(">I", _END)
    # No memory is reserved: the list has only its end.
    reserved = bytes(16)
    at = _HEAD.size + len(reserved)
    total = at + len(structs) + len(strings)
    head = _HEAD.pack(
        MAGIC, total, at, at + len(structs), _HEAD.size, _VERSION, _OLDEST_READER, 0, len(strings), len(structs)
    )
    return head + reserved + structs + bytes(strings)


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)


def cells(*numbers: int) -> bytes:
    """Return the value of a property that consists of 32-bit numbers."""
    return struct.pack(f">{len(numbers)}I", *numbers)


def text(*words: str) -> bytes:
    """Return the value of a property that consists of texts."""
    return b"".join(word.encode() + b"\0" for word in words)


def shown(value: bytes) -> str:
    """Return a property's value as in the source of a device tree, shortened."""
    if not value:
        return "no value"
    texts = value[:-1].split(b"\0")
    if value.endswith(b"\0") and all(text and text.isascii() and text.decode().isprintable() for text in texts):
        return _short(", ".join(f'"{text.decode()}"' for text in texts))
    if len(value) % 4 == 0:
        return _short(f"<{' '.join(f'0x{word:x}' for (word,) in struct.iter_unpack('>I', value))}>")
    return _short(f"[{value.hex(' ')}]")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
