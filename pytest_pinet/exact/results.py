"""Reads what a boot gives: the results in the guest's memory, and the counts of the plugin by address."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import LabError
from pytest_pinet.model.exact import UNKNOWN, USER, ExactWindow, Function
from pytest_pinet.model.traffic import Direction

# As in guest/base.h.
MAGIC = struct.pack("<QQ", 0x70696E65742D6578, 0x6163742D70616765)
PAGE = 4096
_CHUNK = 1 << 24
_HEAD = struct.Struct("<II")
_SNAPSHOT, _SIZE, _COUNT = b"SNAP", struct.Struct("=Q"), struct.Struct("=QQ")
# Addresses of the kernel have the highest bit set. Addresses below 64 GiB are physical: QEMU 9 and later share
# translated code between all addresses of a page, so code that also runs before the kernel has set up its address space
# (memset) is counted there. The traffic program is above.
_KERNEL, _PHYSICAL = 1 << 63, 1 << 36
_START = "_text"
# Mapping symbols mark where code or data begins, and name no function (ELF for the Arm 64-bit Architecture, 5.5.5).
_MAPPING = ("$x", "$d")
# Code behind the end of a section of the image (vmlinux.lds.S) is no function of it, such as compiled programs of BPF.
_ENDS = ("_etext", "_einittext", "__exittext_end", "__inittext_end")
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


@dataclass(frozen=True)
class Counts:
    """What the plugin counted. ``pieces`` has the address of each piece of code.

    ``windows`` has pairs for each window, packed: the number of a piece, and how many of its instructions were
    executed.
    """

    pieces: Sequence[int]
    windows: Sequence[memoryview]


def read_counts(data: bytes) -> Counts:
    """Return the counts that the plugin wrote. Raises LabError if they are incomplete."""
    view = memoryview(data)

    def part(octets: int) -> memoryview:
        nonlocal view
        found, view = view[:octets], view[octets:]
        if len(found) < octets:
            raise LabError("the counts of the exact board are incomplete")
        return found

    def entries(each: int) -> memoryview:
        (number,) = _SIZE.unpack(part(_SIZE.size))
        return part(each * number)

    pieces: list[int] = []
    windows = []
    while view:
        if part(len(_SNAPSHOT)) != _SNAPSHOT:
            raise LabError("the counts of the exact board are incomplete")
        pieces += entries(_SIZE.size).cast("Q")
        windows.append(entries(_COUNT.size))
    return Counts(pieces, windows)


def with_functions(results: GuestResults, counts: Counts, kernel_at: int) -> tuple[ExactWindow, ...]:
    """Return the windows with instructions and functions. ``kernel_at`` is the physical address of the kernel image.

    Raises LabError if windows and counts differ in number.
    """
    if len(counts.windows) != len(results.windows):
        raise LabError(
            f"the machine in QEMU made {len(results.windows)} measurements, but our plugin of QEMU counted in "
            f"{len(counts.windows)}",
            "repeat the gate; if this stays, report it with the version of QEMU",
        )
    starts = [address for address, _ in results.symbols]
    offset = results.start - kernel_at
    # Behind the functions of the kernel: the traffic program, and code before the first function, which has -1.
    functions = [*(function for _, function in results.symbols), Function("", USER), Function("", UNKNOWN)]

    def place(address: int) -> int:
        if _PHYSICAL <= address < _KERNEL:
            return len(functions) - 2
        return bisect_right(starts, address if address >= _KERNEL else address + offset) - 1

    places = [place(address) for address in counts.pieces]
    found = []
    for window, own in zip(results.windows, counts.windows, strict=True):
        sums: dict[int, int] = defaultdict(int)
        try:
            for piece, count in _COUNT.iter_unpack(own):
                sums[places[piece]] += count
        except IndexError:
            raise LabError(f"the counts of the exact board have no piece {piece}") from None
        by_function: Counter[Function] = Counter()
        for index, count in sums.items():
            by_function[functions[index]] += count
        found.append(replace(window, instructions=sum(sums.values()), functions=dict(by_function)))
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
