"""Real exact boards: equal boots, a change of four instructions, and builds that fail on the board."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.builds.archives import unpacked
from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import BuildError, CapabilityError, LabError
from pytest_pinet.exact import store
from pytest_pinet.exact.board import NICS, ExactBoard
from pytest_pinet.exact.boot import boot
from pytest_pinet.exact.measure import ExactBench, exact_boards, stock_build
from pytest_pinet.exact.payload import make_payload
from pytest_pinet.exact.qemu import PROGRAM, VARIABLE, Plugin, build_plugin, find_qemu, unpacked_folder
from pytest_pinet.exact.traffic import MORE
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.exact import ExactLimits, WindowChange, differs_beside_build, judge_exact
from pytest_pinet.model.build import Build, BuildFileRole
from pytest_pinet.model.exact import BATCH, USER, Comparison, ExactBoot, Function, MadeExactBoot, is_one_by_one
from tests.support.build_files import write
from tests.support.driver_builds import CROSS, patched_module

# An ordinary user can run these tests.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is missing"),
]
BOARDS = exact_boards()
E1000E = BOARDS["e1000e"]
SIZES = ("60-tx", "60-rx", "1514-tx", "1514-rx")
WINDOWS = [f"{traffic}-{size}" for traffic in ("frame", "pktgen") for size in SIZES]
WINDOWS += ["tcp-tx", "tcp-rx", "request-tx", "bulk-tx"]
# In modules, beside the functions of the driver: copies of inlined helpers of the kernel, and trace points.
HELPERS = re.compile(
    r"arch_local_irq_|dma_map_single_attrs|kmalloc_array|netif_(stop_queue|tx_disable)|readl|clear_bit_unlock|put_page|usb_maxpacket"
    r"|netdev_tx_sent_queue|irq_domain_create_linear|phy_module_(init|exit)|(init|cleanup)_module"
    r"|(__)?(bpf_|perf_)?trace_|__(probestub|traceiter)_"
)
LINK, REPLUG = "link-tx", "replug-tx"


@pytest.fixture(scope="module")
def stock() -> Build:
    return stock_build(print)


@pytest.fixture(scope="module")
def newer() -> Build:
    return stock_build(print, "linux-image-6.12-arm64")


@pytest.fixture(scope="module")
def large_pages() -> Build:
    try:
        return stock_build(print, "linux-image-6.12-arm64-16k")
    except LabError as error:
        pytest.skip(f"this release of Debian has no kernel with pages of 16 KiB: {error.message}")


@pytest.fixture(autouse=True)
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "exact_cache", lambda: tmp_path / "exact")


def measured(board: ExactBoard, base: Build, build: Build | None) -> ExactBoot:
    """Return what one boot of a build measures."""
    bench = ExactBench(board)
    return bench.measured(bench.payload(base, build), print).boot


def windows_of(bench: ExactBench) -> list[str]:
    """Return the windows of a board. e1000e sees its link only with a newer QEMU."""
    if bench.board.nic.model is not None:
        more = (one for one in MORE if one.traffic in bench.board.nic.windows)
        sizes = {BATCH: "batch-1514"}
        every = [*WINDOWS, *(f"{sizes.get(one.traffic, one.traffic)}-{one.direction}" for one in more)]
        return sorted(every, key=lambda name: not is_one_by_one(name))
    if not bench.board.machine.slot:
        return WINDOWS
    return [LINK, REPLUG] if bench.board.nic.driver == "virtio_net" or bench.qemu.version >= (10, 0) else [REPLUG]


def board_or_skip(name: str) -> ExactBoard:
    found = BOARDS[name]
    try:
        find_qemu(found)
    except CapabilityError as error:
        pytest.skip(error.message)
    return found


@pytest.fixture(params=["installed", "unpacked"])
def qemu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all boards use the QEMU of this machine, or that of ``pinet emulated qemu``."""
    place = unpacked_folder() if request.param == "unpacked" else Path(shutil.which(PROGRAM) or "")
    if not place.exists():
        pytest.skip(f"there is no {place}: run `pinet emulated qemu`")
    monkeypatch.setenv(VARIABLE, str(place))


@pytest.fixture(params=BOARDS)
def board(request: pytest.FixtureRequest) -> ExactBoard:
    return board_or_skip(request.param)


def with_two_processors(board: ExactBoard) -> ExactBoard:
    return replace(board, name=f"{board.name}-2", machine=replace(board.machine, processors=2))


@pytest.mark.parametrize("name", ["e1000e", "virtio-net", "igb"])
def test_two_processors_repeat_too(stock: Build, name: str) -> None:
    bench = ExactBench(with_two_processors(board_or_skip(name)))
    found = bench.known_good(bench.payload(stock), print).boot
    newer = bench.qemu.version >= (8, 0)
    # Without counts, there is nothing to say about single frames.
    assert [window.name for window in found.windows] == [name for name in WINDOWS if "frame" not in name or not newer]
    assert bool(found.identity.no_functions) == newer


@pytest.fixture
def changes(stock: Build, tmp_path: Path) -> Callable[[str], Mapping[str, WindowChange]]:
    """Return a function that compares the stock kernel on two processors with a build.yaml of this text."""

    def changes(text: str) -> Mapping[str, WindowChange]:
        build = load_build(str(write(tmp_path / "b", {"build.yaml": text.encode()})))
        a, b = (measured(with_two_processors(E1000E), stock, one) for one in (None, build))
        return {one.a.name: one for one in judge_exact(a, b, ExactLimits()).windows}

    return changes


def test_a_word_without_meaning_changes_nothing_on_two_processors(
    changes: Callable[[str], Mapping[str, WindowChange]],
) -> None:
    """The kernel would let the traffic program run on another processor, where frames arrive late."""
    for name, one in changes("cmdline: pinet.word=1").items():
        if one.is_certain:
            assert one.result is Relation.SAME, f"{name}: {one.why}"
        if one.a.traffic == "frame":
            assert one.a.packets == one.b.packets == 256


@pytest.mark.parametrize(("key", "least"), [("irq", 0.04), ("rps", 0.1)])
def test_work_on_the_wrong_processor_is_seen(
    changes: Callable[[str], Mapping[str, WindowChange]], key: str, least: float
) -> None:
    """The traffic program runs on the first processor. Interrupts, or received packets, move to the second one."""
    found = changes(f"{key}: 1")
    assert found["request-tx"].result is Relation.SLOWER
    # 6.9 and 18.9 % with QEMU 7.2.22.
    assert found["request-tx"].change < -least
    if "frame-60-rx" in found:
        # 7.6 and 16.3 %.
        assert found["frame-60-rx"].change < -least


def test_packet_steering_repeats_too(stock: Build, tmp_path: Path) -> None:
    bench = ExactBench(with_two_processors(E1000E))
    steered = load_build(str(write(tmp_path / "b", {"build.yaml": b"rps: 1\nirq: 1"})))
    bench.known_good(bench.payload(stock, steered), print)


@pytest.mark.usefixtures("qemu")
def test_two_boots_are_equal_to_the_last_digit(board: ExactBoard, stock: Build) -> None:
    bench = ExactBench(board)
    made = bench.known_good(bench.payload(stock), print)
    assert not made.cached
    found = made.boot
    assert [window.name for window in found.windows] == windows_of(bench)
    assert found.identity.driver == board.nic.driver
    for window in found.windows:
        assert window.packets > 0
        assert window.instructions is not None
        assert sum(window.functions.values()) == window.instructions
        # The traffic program is no part of the kernel: it only starts pktgen.
        share = window.functions.get(Function("", USER), 0) / window.instructions
        assert share < 0.01
        if window.pmu_instructions is not None and window.traffic == "pktgen":
            # The counter of the processor begins and ends some instructions outside of the window.
            assert window.instructions == pytest.approx(window.pmu_instructions, rel=0.01)
    assert bench.is_proved(bench.payload(stock))
    assert bench.known_good(bench.payload(stock), pytest.fail) == MadeExactBoot(found, 0.0, cached=True)


@pytest.mark.usefixtures("qemu")
def test_two_boots_of_the_newer_kernel_are_equal_too(board: ExactBoard, newer: Build) -> None:
    bench = ExactBench(board)
    found = bench.known_good(bench.payload(newer), print).boot
    assert [window.name for window in found.windows] == windows_of(bench)
    assert found.identity.kernel.startswith("6.12")


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("name", ["macb", "genet", "e1000e-slot", "r8152"])
def test_a_kernel_with_pages_of_16_kib_repeats_on_the_processor_that_has_them(large_pages: Build, name: str) -> None:
    bench = ExactBench(BOARDS[name])
    found = bench.known_good(bench.payload(large_pages), print).boot
    assert [window.name for window in found.windows] == windows_of(bench)
    assert found.identity.machine == f"{BOARDS[name].machine.name}-a76"
    assert found.identity.pages_kib == 16


@pytest.mark.parametrize("kernel", ["stock", "newer"])
def test_a_meaningless_change_moves_no_instruction_of_the_driver(
    board: ExactBoard, kernel: str, request: pytest.FixtureRequest
) -> None:
    """The kernel also takes modules that have padding and no debug information."""
    bench = ExactBench(board)
    payload = bench.payload(request.getfixturevalue(kernel))
    a, b = (bench.measured(payload.vary(number), print).boot for number in (0, 3))
    assert [window.name for window in b.windows] == [window.name for window in a.windows]
    assert differs_beside_build(a.identity, b.identity) == ""
    found = judge_exact(a, b, ExactLimits())
    assert found.modules == ()
    # It moves other counts, as any other binary does.
    assert any(one.functions for one in found.windows)
    single = [function for one in found.windows if one.a.one_by_one for function in one.functions]
    assert [function.text for function in single if function.comparison is Comparison.DRIVER] == []


@pytest.mark.parametrize(
    ("name", "driver", "patch", "window", "function"),
    [
        ("aqc", "atlantic", "four-instructions-atlantic-rx", "frame-1514-rx", "aq_ring_rx_clean"),
        ("aqc", "atlantic", "four-instructions-atlantic-tx", "frame-1514-tx", "hw_atl_b0_hw_ring_tx_xmit"),
        ("e1000e", "e1000e", "four-instructions-e1000e-rx", "frame-1514-rx", "e1000_receive_skb"),
        ("e1000e", "e1000e", "four-instructions-e1000e-tx", "frame-1514-tx", "e1000_xmit_frame"),
        ("igb", "igb", "four-instructions-igb-rx", "frame-1514-rx", "igb_poll"),
        ("igb", "igb", "four-instructions-igb-tx", "frame-1514-tx", "igb_xmit_frame_ring"),
        ("virtio-net", "virtio_net", "four-instructions-virtio_net-tx", "frame-1514-tx", "start_xmit"),
        ("macb", "macb", "four-instructions-macb-rx", "frame-1514-rx", "gem_rx"),
        ("macb", "macb", "four-instructions-macb-tx", "frame-1514-tx", "macb_start_xmit"),
        ("genet", "genet", "four-instructions-genet-rx", "frame-1514-rx", "bcmgenet_rx_poll"),
        ("genet", "genet", "four-instructions-genet-tx", "frame-1514-tx", "bcmgenet_xmit"),
        ("igc", "igc", "four-instructions-igc-rx", "frame-1514-rx", "igc_poll"),
        ("igc", "igc", "four-instructions-igc-tx", "frame-1514-tx", "igc_xmit_frame"),
        ("r8169", "r8169", "four-instructions-r8169-rx", "frame-1514-rx", "rtl8169_poll"),
        ("r8169", "r8169", "four-instructions-r8169-tx", "frame-1514-tx", "rtl8169_start_xmit"),
        ("r8152", "r8152", "four-instructions-r8152-rx", "frame-1514-rx", "r8152_poll"),
        ("r8152", "r8152", "four-instructions-r8152-tx", "frame-1514-tx", "rtl8152_start_xmit"),
        ("r8156", "r8152", "four-instructions-r8152-rx", "frame-1514-rx", "r8152_poll"),
        ("r8156", "r8152", "four-instructions-r8152-tx", "frame-1514-tx", "rtl8152_start_xmit"),
        ("ax88179", "ax88179_178a", "four-instructions-ax88179-rx", "frame-1514-rx", "ax88179_rx_fixup"),
        ("ax88179", "ax88179_178a", "four-instructions-ax88179-tx", "frame-1514-tx", "ax88179_tx_fixup"),
        ("ax88772", "asix", "four-instructions-asix-rx", "frame-1514-rx", "asix_rx_fixup_internal"),
        ("ax88772", "asix", "four-instructions-asix-tx", "frame-1514-tx", "asix_tx_fixup"),
        ("lan78xx", "lan78xx", "four-instructions-lan78xx-rx", "frame-1514-rx", "lan78xx_skb_return"),
        ("lan78xx", "lan78xx", "four-instructions-lan78xx-tx", "frame-1514-tx", "lan78xx_start_xmit"),
        ("smsc95xx", "smsc95xx", "four-instructions-smsc95xx-rx", "frame-1514-rx", "smsc95xx_rx_fixup"),
        ("smsc95xx", "smsc95xx", "four-instructions-smsc95xx-tx", "frame-1514-tx", "smsc95xx_tx_fixup"),
        # cdc_ether itself handles no frames.
        ("cdc", "usbnet", "four-instructions-usbnet-rx", "frame-1514-rx", "usbnet_skb_return"),
        ("cdc", "usbnet", "four-instructions-usbnet-tx", "frame-1514-tx", "usbnet_start_xmit"),
    ],
)
def test_four_instructions_more_are_counted(
    stock: Build, tmp_path: Path, name: str, driver: str, patch: str, window: str, function: str
) -> None:
    board = board_or_skip(name)
    build = load_build(str(patched_module(patch, tmp_path / "b", driver)))
    same = load_build(str(patched_module(None, tmp_path / "a", driver)))
    a, b = (measured(board, stock, one).window(window) for one in (same, build))
    assert a is not None
    assert b is not None
    changes = {
        one.name: (b.functions.get(one, 0) - count) / b.packets
        for one, count in a.functions.items()
        if one.module == driver
    }
    # Every other function of the driver executes what it did before, to the last instruction.
    assert {name: change for name, change in changes.items() if change} == {function: 4.0}


def test_a_nic_whose_driver_reads_the_mac_only_when_it_is_opened_is_found_also_after_a_replug(
    stock: Build, tmp_path: Path
) -> None:
    """So did ax88179_178a of Linux 6.6.16 to 6.6.22. To open it twice stops its endpoints, and starts them again."""
    bench = ExactBench(board_or_skip("ax88179"))
    build = load_build(str(patched_module("mac-at-open-ax88179", tmp_path / "b", "ax88179_178a")))
    made = bench.known_good(bench.payload(stock, build), print)
    assert [window.name for window in made.boot.windows] == windows_of(bench)


@pytest.mark.skipif(shutil.which(f"{CROSS}nm") is None, reason=f"{CROSS}nm is missing")
@pytest.mark.parametrize("name", NICS)
@pytest.mark.parametrize("kernel", ["stock", "newer"])
def test_the_functions_of_a_driver_are_known_by_their_names(
    kernel: str, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Built into a kernel, they have no module. Copies of inlined helpers are no functions of the driver."""
    build: Build = request.getfixturevalue(kernel)
    (tree,) = build.of(BuildFileRole.MODULES)
    for module in NICS[name].path:
        file = write(tmp_path, {module: unpacked((Path(tree.path) / build.modules[module].path).read_bytes())}) / module
        lines = subprocess.run([f"{CROSS}nm", file], capture_output=True, text=True, check=True).stdout.splitlines()
        functions = {line.split()[-1].partition(".")[0] for line in lines if line.split()[-2] in "tT"} - {""}
        own = {function for function in functions if not function.startswith("$") and HELPERS.match(function) is None}
        # ax88796b, the PHY of ASIX, has three.
        assert len(own) > 2
        assert {function for function in own if re.match(NICS[name].functions, function) is None} == set()


def test_without_a_compiler_the_board_runs_without_functions(stock: Build) -> None:
    qemu = find_qemu(E1000E)
    found = boot(make_payload(E1000E, stock, None), qemu, Plugin(None, None, missing="no compiler"))
    assert found.identity.no_functions == "no compiler"
    assert [window.name for window in found.windows] == WINDOWS
    assert all(window.instructions is None and not window.functions for window in found.windows)
    # The virtual time does not depend on the plugin. That of single frames is the time of the counted instructions.
    counted = measured(E1000E, stock, None)
    times = [[w.virtual_ns for w in one.windows if w.traffic != "frame"] for one in (found, counted)]
    assert times[0] == times[1]
    assert [w.pmu_instructions for w in found.windows] == [w.pmu_instructions for w in counted.windows]


def test_without_pktgen_our_own_sender_sends_the_frames(stock: Build) -> None:
    without = replace(stock, modules={name: module for name, module in stock.modules.items() if name != "pktgen"})
    found = measured(E1000E, without, None)
    assert [window.name for window in found.windows] == [name.replace("pktgen", "sender") for name in WINDOWS]
    assert [window.packets for window in found.windows if window.traffic == "sender"] == [2500] * 4


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("cmdline: rdinit=/none root=/dev/none", "panic", "panicked: VFS: Unable to mount root fs on"),
        (
            "cmdline: initcall_blacklist=e1000_init_module",
            "no traffic",
            r"failed at `module /modules/e1000e.ko`: the kernel refuses the module \(errno 1\)",
        ),
        (
            "sysctls: {net.core.no_such_value: 1}",
            "no traffic",
            r"failed at `write /proc/sys/net/core/no_such_value 1`: no such parameter \(errno 2\)",
        ),
    ],
)
def test_a_build_that_fails_is_one_sentence(stock: Build, tmp_path: Path, text: str, kind: str, message: str) -> None:
    build = load_build(str(write(tmp_path / "b", {"build.yaml": text.encode()})))
    with pytest.raises(BuildError, match=rf"^kernel {stock.release} on the exact board e1000e {message}") as raised:
        measured(E1000E, stock, build)
    assert raised.value.kind == kind
    assert "\n" not in raised.value.message
    assert raised.value.excerpt
    assert not list((tmp_path / "exact" / "boots").glob("*/boot.json.gz"))


def test_features_of_a_build_are_set_and_read_back(stock: Build, tmp_path: Path) -> None:
    """r8169 leaves segmentation off for this chip: the network stack makes each frame."""

    def build(features: str) -> Build:
        return load_build(str(write(tmp_path / features, {"build.yaml": f"features: {{{features}}}".encode()})))

    r8169 = board_or_skip("r8169")
    a, b = (measured(r8169, stock, one).window("tcp-tx") for one in (None, build("sg: on, tso: on")))
    assert a is not None
    assert b is not None
    # From 8,003 to 5,208 instructions for each segment.
    assert sum(b.functions.values()) < 0.8 * sum(a.functions.values())
    alone = r"tx-tcp\*-segmentation on`: the NIC leaves the feature off; tso needs sg, and sg needs tx$"
    for features, message in (
        ("tso: on", alone),
        ("rx-none: on", "`feature rx-none on`: the kernel knows no such feature$"),
    ):
        with pytest.raises(BuildError, match=message):
            measured(r8169, stock, build(features))


def test_frames_that_come_faster_than_they_are_handled_are_no_measurement(stock: Build) -> None:
    """A received frame of e1000e takes 0.25 ms. So the next one comes before that."""
    close = replace(E1000E, nic=replace(E1000E.nic, distance_us=125))
    bench = ExactBench(close)
    with pytest.raises(
        BuildError,
        match=r"failed at `frame .*`: the kernel still worked at the begin of \d+ of 256 intervals, so traffic did not "
        r"come one by one$",
    ):
        bench.measured(bench.payload(stock), print)


def test_a_hang_ends_at_the_limit_of_processor_time(stock: Build) -> None:
    qemu = find_qemu(E1000E)
    with pytest.raises(BuildError, match="e1000e did not end: QEMU used 1 s of processor time") as raised:
        boot(make_payload(E1000E, stock, None), qemu, build_plugin(qemu), cpu_s=1.0)
    assert raised.value.kind == "hang"


def test_a_hang_with_interrupts_disabled_ends_by_virtual_time(stock: Build, tmp_path: Path) -> None:
    """The guest's own limit needs interrupts. Without the limit of the plugin, this takes half an hour."""
    hanging = load_build(str(patched_module("hang", tmp_path / "b")))
    started = time.monotonic()
    with pytest.raises(BuildError, match=r"e1000e hangs: for 60 virtual seconds it repeated the same code$") as raised:
        measured(E1000E, stock, hanging)
    assert raised.value.kind == "hang"
    # 12 s on an idle machine.
    assert time.monotonic() - started < 600


def test_a_stall_ends_at_the_limit_of_virtual_time(stock: Build) -> None:
    qemu = find_qemu(E1000E)
    with pytest.raises(BuildError, match=r"failed at `.*`: no end within 1 virtual seconds$") as raised:
        boot(make_payload(E1000E, stock, None, limit_s=1), qemu, build_plugin(qemu))
    assert raised.value.kind == "hang"


@pytest.fixture
def gate_process() -> Iterator[subprocess.Popen[bytes]]:
    program = (
        "from pytest_pinet.exact.boot import boot; from pytest_pinet.exact.measure import exact_boards; "
        "from pytest_pinet.exact.measure import ExactBench, stock_build; bench = ExactBench(exact_boards()['e1000e']); "
        "boot(bench.payload(stock_build(print)), bench.qemu, bench.plugin)"
    )
    process = subprocess.Popen([sys.executable, "-X", "pinet", "-c", program], stdout=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


def test_a_killed_gate_leaves_no_qemu(gate_process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not (found := _qemu_of(gate_process.pid)):
        assert time.monotonic() < deadline, "the gate started no QEMU within 60 s"
        time.sleep(0.05)
    os.kill(gate_process.pid, signal.SIGKILL)
    gate_process.wait()
    while any(_alive(pid) for pid in found):
        assert time.monotonic() < deadline, f"QEMU {found} outlived its gate"
        time.sleep(0.05)


def _qemu_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent and b"qemu" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
