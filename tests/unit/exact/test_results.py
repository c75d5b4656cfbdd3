"""What a boot gives: text in pages of the guest's memory, and counts of the plugin by address."""

import os
import struct
from collections.abc import Mapping
from dataclasses import replace
from itertools import count

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.exact.results import (
    MAGIC,
    PAGE,
    read_counts,
    read_pages,
    read_results,
    with_functions,
)
from pytest_pinet.model.exact import USER, Function
from pytest_pinet.model.traffic import Direction

TEXT = """\
banner Linux version 6.1.0-56-arm64 (debian-kernel@lists.debian.org) #1 SMP
driver e1000e
window pktgen tx 60 2500 130225000 50
window request tx 128 300 246160000 -
symbols
ffff800008000000 _text
ffff800008010000 __pi_memset
ffff800008010000 memset
ffff800008010000 __memset
ffff800008010400 net_rx_action
ffff80007a000000 $x\t[e1000e]
ffff80007a000000 e1000_receive_skb\t[e1000e]
ffff80007a000080 $d.12\t[e1000e]
ffff80007a000100 e1000_clean_rx_irq\t[e1000e]
end
"""
MEMSET, RECEIVE = Function("", "memset"), Function("e1000e", "e1000_receive_skb")


def page(number: int, text: bytes) -> bytes:
    return (MAGIC + struct.pack("<II", number, len(text)) + text).ljust(PAGE, b"\0")


def packed(*windows: dict[int, int]) -> bytes:
    """Return counts by address as the plugin writes them: each window has new pieces."""
    data, known = b"", 0
    for counts in windows:
        pairs = [value for pair in zip(count(known), counts.values(), strict=False) for value in pair]
        data += struct.pack(f"=4sQ{len(counts)}Q", b"SNAP", len(counts), *counts)
        data += struct.pack(f"=Q{len(pairs)}Q", len(counts), *pairs)
        known += len(counts)
    return data


def functions_of(text: str, counts: dict[int, int]) -> Mapping[Function, int]:
    results = read_results(text)
    first, _ = with_functions(results, read_counts(packed(counts, {})), 0x40200000)
    return first.functions


def test_result_pages_are_found_in_any_order_in_sparse_memory() -> None:
    memory = os.memfd_create("test")
    try:
        os.ftruncate(memory, 1 << 26)
        os.pwrite(memory, page(1, b"the second page\n"), 40 * PAGE)
        os.pwrite(memory, page(0, b"the first page, "), 9000 * PAGE)
        # An earlier state of that page.
        os.pwrite(memory, page(0, b"the first"), 9001 * PAGE)
        # The same words at another place in a page, as in the program's own code.
        os.pwrite(memory, b"x" * 64 + MAGIC, 77 * PAGE)
        assert read_pages(memory) == "the first page, the second page\n"
    finally:
        os.close(memory)


def test_results_are_windows_and_functions() -> None:
    results = read_results(TEXT)
    assert results.driver == "e1000e"
    assert results.banner.startswith("Linux version 6.1.0-56-arm64 ")
    sent, asked = results.windows
    assert (sent.name, sent.direction, sent.packets, sent.virtual_ns) == ("pktgen-60-tx", Direction.TX, 2500, 130225000)
    assert (sent.pmu_instructions, asked.pmu_instructions) == (50, None)
    # Of several names of one address, the plainest.
    assert (0xFFFF800008010000, MEMSET) in results.symbols
    # Marks of code and data are no names.
    assert results.symbols[-2:] == (
        (0xFFFF80007A000000, RECEIVE),
        (0xFFFF80007A000100, Function("e1000e", "e1000_clean_rx_irq")),
    )


@pytest.mark.parametrize("end", ["window request", "symbols", "ffff80007a000100", "end"])
def test_incomplete_results_are_an_error(end: str) -> None:
    with pytest.raises(LabError, match=r"before it wrote the table of its functions|incomplete"):
        read_results(TEXT[: TEXT.index(end)])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" pktgen tx 60 2500 130225000 50", ""),
        ("pktgen tx 60", "pktgen tx nan"),
        ("pktgen tx", "pktgen xt"),
        ("ffff800008010400 net_rx_action", "ffff800008010400"),
        ("ffff800008010400", "xyz"),
        ("ffff800008010400 net_rx_action\n", "\n"),
    ],
)
def test_broken_results_are_an_error(old: str, new: str) -> None:
    assert old in TEXT
    with pytest.raises(LabError, match="the results of the machine in QEMU are broken"):
        read_results(TEXT.replace(old, new))


def test_counts_belong_to_the_function_before_the_address() -> None:
    counts = {
        0x5500000100: 7,
        0xFFFF800008010004: 20,
        0xFFFF8000080103FC: 1,
        0xFFFF80007A000000: 30,
        0xFFFF000000000000: 2,
    }
    assert functions_of(TEXT, counts) == {Function("", USER): 7, MEMSET: 21, RECEIVE: 30, Function("", "[unknown]"): 2}


def test_code_behind_the_end_of_a_section_has_no_function() -> None:
    """Programs of BPF lie behind the kernel image. A function that begins where a section ends is one."""
    ends = "ffff800008010400 _etext\nffff800008020000 _sinittext\nffff800008030000 _einittext\n"
    text = TEXT.replace("ffff80007a000000 $x", f"{ends}ffff80007a000000 $x")
    counts = {0xFFFF800008010404: 5, 0xFFFF800008030004: 7, 0xFFFF8000087F0000: 1}
    assert functions_of(text, counts) == {Function("", "net_rx_action"): 5, Function("", "[unknown]"): 8}


def test_counts_at_physical_addresses_belong_to_the_kernel_image() -> None:
    assert functions_of(TEXT, {0x40210004: 5, 0xFFFF800008010004: 20}) == {MEMSET: 25}


def test_each_window_gets_its_counts() -> None:
    results = read_results(TEXT)
    data = packed({0xFFFF800008010004: 20, 0xFFFF80007A000000: 30}, {0x5500000100: 7})
    first, second = with_functions(results, read_counts(data), 0x40200000)
    assert (first.instructions, dict(first.functions)) == (50, {MEMSET: 20, RECEIVE: 30})
    assert second.instructions == 7
    with pytest.raises(LabError, match="made 2 measurements, but our plugin of QEMU counted in 1"):
        with_functions(results, read_counts(packed({})), 0x40200000)


def test_plugin_and_processor_must_agree() -> None:
    def check(plugin: int, processor: int) -> None:
        results = read_results(TEXT)
        windows = [replace(window, pmu_instructions=processor) for window in results.windows]
        data = packed(*[{0xFFFF80007A000000: plugin}] * len(windows))
        with_functions(replace(results, windows=tuple(windows)), read_counts(data), 0x40200000)

    # In a window of one event, they may begin and end some thousand instructions apart.
    check(79_000, 82_900)
    check(5_080_000, 5_040_000)
    message = "the plugin counted 10180000 instructions in the kernel, but the processor's counter 10000000"
    with pytest.raises(LabError, match=message):
        check(5_090_000, 5_000_000)


@pytest.mark.parametrize("size", [3, 10, 20, 30, 40])
def test_incomplete_counts_are_an_error(size: int) -> None:
    data = packed({1: 2, 3: 4})
    assert size < len(data)
    with pytest.raises(LabError, match="incomplete"):
        read_counts(data[:size])


def test_a_count_of_an_unknown_piece_is_an_error() -> None:
    data = struct.pack("=4s4Q", b"SNAP", 0, 1, 5, 1)
    with pytest.raises(LabError, match="the counts of the exact board have no piece 5"):
        with_functions(read_results(TEXT), read_counts(data + packed({})), 0x40200000)
