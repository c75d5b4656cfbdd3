"""Reads what a boot gives: the results in the guest's memory, and the counts of the plugin by address."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import LabError
from pytest_pinet.model.exact import UNKNOWN, USER, ExactWindow, Function
from pytest_pinet.model.traffic import Direction

# As in guest/base.h.
MAGIC = struct.pack("<QQ", 0x70696E65742D6578, 0x6163742D70616765)
PAGE = 4096
_CHUNK = 1 << 24
_HEAD = struct.Struct("<II")
_SNAPSHOT = struct.Struct("=4sQ")
# Addresses of the kernel have the highest bit set. Addresses below 64 GiB are physical: QEMU 9 and later share
# translated code between all addresses of a page, so code that also runs before the kernel has set up its address space
# (memset) is counted there. The traffic program is above.
_KERNEL, _PHYSICAL = 1 << 63, 1 << 36
_START = "_text"
# Mapping symbols mark where code or data begins, and name no function (ELF for the Arm 64-bit Architecture, 5.5.5).
_MAPPING = ("$x", "$d")
# Code behind the end of a section of the image (vmlinux.lds.S) is no function of it, such as compiled programs of BPF.
_ENDS = ("_etext", "_einittext", "__exittext_end", "__inittext_end")
# The index of the traffic program. Code before the first function of the kernel has -1.
_USER_INDEX = -2
# Plugin and counter begin and end some instructions apart: of all together, and of each short window.
AGREE, AGREE_EACH = 0.01, 4000


@dataclass(frozen=True)
class GuestResults:
    """What the traffic program gave: the kernel's version line, the NIC's driver, windows and functions.

    The windows have no functions. ``symbols`` are (address, function), sorted by address. ``start`` is the address of
    the kernel image.
    """

    banner: str
    driver: str
    windows: tuple[ExactWindow, ...]
    symbols: tuple[tuple[int, Function], ...]
    start: int


def read_pages(memory: int) -> str:
    """Return the text of the result pages in the guest's memory, the file ``memory``; empty if there are none."""
    pages: dict[int, bytes] = {}
    for start, end in _used(memory):
        for at in range(start, end, _CHUNK):
            data = os.pread(memory, min(_CHUNK, end - at), at)
            found = data.find(MAGIC)
            while found >= 0:
                head = found + len(MAGIC)
                if found % PAGE == 0:
                    number, size = _HEAD.unpack_from(data, head)
                    text = data[head + _HEAD.size : min(head + _HEAD.size + size, found + PAGE)]
                    # A fork leaves an earlier state of a page in the memory.
                    pages[number] = max(pages.get(number, b""), text, key=len)
                found = data.find(MAGIC, head)
    return b"".join(pages[number] for number in sorted(pages)).decode("utf-8", "replace")


def _used(memory: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each part of a sparse file that has data, in whole pages."""
    end = 0
    while True:
        try:
            start = os.lseek(memory, end, os.SEEK_DATA)
        except OSError:  # no data after this place
            return
        end = os.lseek(memory, start, os.SEEK_HOLE)
        yield start - start % PAGE, end


def read_results(text: str) -> GuestResults:
    """Read the text of the result pages. Raises LabError if it is incomplete or broken."""
    banner = driver = ""
    windows: list[ExactWindow] = []
    lines = iter(text.splitlines())
    try:
        for line in lines:
            kind, _, rest = line.partition(" ")
            if kind == "banner":
                banner = rest
            elif kind == "driver":
                driver = rest
            elif kind == "window":
                windows.append(_window(rest))
            elif kind == "symbols":
                symbols, start = _symbols(lines)
                return GuestResults(banner, driver, tuple(windows), tuple(symbols), start)
    except (ValueError, IndexError) as error:
        raise LabError(
            f"the results of the machine in QEMU are broken: {error}",
            "repeat the gate; if this stays, report it with the version of QEMU",
        ) from None
    raise LabError(
        f"the machine in QEMU ended after {len(windows)} measurements, before it wrote the table of its functions",
        "repeat the gate; if this stays, look at the console output in the folder of the run",
    )


def _window(text: str) -> ExactWindow:
    traffic, direction, *numbers, pmu = text.split()
    octets, packets, ns = (int(number) for number in numbers)
    return ExactWindow(
        traffic, Direction(direction), octets, packets, ns, pmu_instructions=None if pmu == "-" else int(pmu)
    )


def _symbols(lines: Iterator[str]) -> tuple[list[tuple[int, Function]], int]:
    """Read lines such as ``ffff800008000000 name`` and ``ffff80007a000000 name [module]``, up to ``end``.

    Also return the address of the kernel image.
    """
    found: dict[int, Function] = {}
    start = 0
    for line in lines:
        words = line.replace("\t", " ").split()
        if words == ["end"]:
            return sorted(found.items()), start
        if words[1].startswith(_MAPPING):
            continue
        address = int(words[0], 16)
        if words[1:] == [_START]:
            start = address
        name = UNKNOWN if words[1] in _ENDS else words[1]
        function = Function(words[2].strip("[]") if len(words) > 2 else "", name)
        other = found.get(address)
        if other is None or _rank(function) < _rank(other):
            found[address] = function
    raise LabError("the list of functions of the exact board is incomplete")


def _rank(function: Function) -> tuple[bool, int, int, str]:
    """Sort the names of one address: the plainest name first (memset before __pi_memset), the end of others last."""
    name = function.name
    return (name == UNKNOWN, len(name) - len(name.lstrip("_")), len(name), name)


def read_counts(data: bytes) -> list[dict[int, int]]:
    """Return the counts by address of each window, as the plugin wrote them. Raises LabError if they are incomplete."""
    found: list[dict[int, int]] = []
    at = 0
    while at < len(data):
        if len(data) - at < _SNAPSHOT.size:
            raise LabError("the counts of the exact board are incomplete")
        word, size = _SNAPSHOT.unpack_from(data, at)
        at += _SNAPSHOT.size
        if word != b"SNAP" or len(data) - at < 16 * size:
            raise LabError("the counts of the exact board are incomplete")
        values = struct.unpack_from(f"={2 * size}Q", data, at)
        found.append(dict(zip(values[::2], values[1::2], strict=True)))
        at += 16 * size
    return found


class Places(dict[int, int]):
    """The index of the function of each address, in the symbols of the results: windows run the same code.

    ``kernel_at`` is the physical address of the kernel image.
    """

    def __init__(self, results: GuestResults, kernel_at: int) -> None:
        super().__init__()
        self._starts = [address for address, _ in results.symbols]
        self._offset = results.start - kernel_at

    def __missing__(self, address: int) -> int:
        if _PHYSICAL <= address < _KERNEL:
            found = _USER_INDEX
        else:
            found = bisect_right(self._starts, address if address >= _KERNEL else address + self._offset) - 1
        self[address] = found
        return found


def by_function(counts: Mapping[int, int], results: GuestResults, places: Places) -> dict[Function, int]:
    """Return the counts by function."""
    sums: dict[int, int] = defaultdict(int)
    for address, count in counts.items():
        sums[places[address]] += count
    found: Counter[Function] = Counter()
    for index, count in sums.items():
        other = Function("", USER if index == _USER_INDEX else UNKNOWN)
        found[results.symbols[index][1] if index >= 0 else other] += count
    return dict(found)


def with_functions(
    results: GuestResults, counts: Sequence[Mapping[int, int]], kernel_at: int
) -> tuple[ExactWindow, ...]:
    """Return the windows with instructions and functions. Raises LabError if windows and counts differ in number."""
    if len(counts) != len(results.windows):
        raise LabError(
            f"the machine in QEMU made {len(results.windows)} measurements, but our plugin of QEMU counted in "
            f"{len(counts)}",
            "repeat the gate; if this stays, report it with the version of QEMU",
        )
    found, places = [], Places(results, kernel_at)
    for window, own in zip(results.windows, counts, strict=True):
        functions = by_function(own, results, places)
        found.append(replace(window, instructions=sum(functions.values()), functions=functions))
    _cross_check(found)
    return tuple(found)


def _cross_check(windows: Sequence[ExactWindow]) -> None:
    """Compare the plugin with the processor's own counter, which counts in kernel mode. Raises LabError.

    In one window they may differ by more: another thread of the kernel may run between the begins of both counts.
    """
    pairs = [
        (sum(count for function, count in window.functions.items() if function.name != USER), window.pmu_instructions)
        for window in windows
        if window.pmu_instructions is not None
    ]
    plugin, processor = (sum(numbers) for numbers in zip(*pairs, strict=True)) if pairs else (0, 0)
    if abs(plugin - processor) > AGREE * max(plugin, processor) + AGREE_EACH * len(pairs):
        raise LabError(
            f"the plugin counted {plugin} instructions in the kernel, but the processor's counter {processor}",
            "report this with the version of QEMU",
        )
