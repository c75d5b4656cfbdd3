"""Measuring on an exact board of a lab, and the cache."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.exact import measure
from pytest_pinet.exact.board import VIRT, VIRT_SLOT
from pytest_pinet.exact.device_models import Model
from pytest_pinet.exact.measure import ExactBench, exact_boards, stock_release
from pytest_pinet.exact.payload import KernelImage, Payload, make_payload
from pytest_pinet.exact.qemu import Plugin, Qemu
from pytest_pinet.exact.store import boot_once, exact_cache, key_of, known_boot
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import ExactBoot, MadeExactBoot
from tests.soak import test_exact_rebuilds
from tests.support.build_files import RELEASE, image, module, tree, write
from tests.support.console_blocks import ROOT
from tests.support.exact_boots import KNOWN_GOOD
from tests.support.exact_boots import KNOWN_GOOD as BOOT
from tests.support.rebuilds import MODULES, UNCOUNTED

MACB = exact_boards()["macb"]
QEMU = Qemu(("qemu",), (7, 2, 22), "hash of QEMU")
PLUGIN = Plugin(Path("count.so"), 1, "hash of the plugin")
Change = Callable[[ExactBench, Payload], Payload]


def with_bench(**parts: object) -> Change:
    def change(bench: ExactBench, payload: Payload) -> Payload:
        for name, value in parts.items():
            setattr(bench, name, value)
        return payload

    return change


CHANGES: dict[str, Change] = {
    "kernel": lambda _, payload: replace(payload, image=KernelImage(payload.image.data + b"\0")),
    "initramfs": lambda _, payload: replace(payload, script=(*payload.script, "another")),
    "command line": lambda _, payload: replace(payload, words=f"{payload.words} quiet"),
    "meaningless change": lambda _, payload: payload.vary(1),
    "QEMU": with_bench(qemu=replace(QEMU, sha256="another")),
    "device model": with_bench(model=lambda _: Model(Path("gem.so"), "", b"", "hash of another model")),
    "plugin": with_bench(plugin=replace(PLUGIN, sha256="another")),
    "machine": lambda _, payload: replace(payload, board=replace(MACB, machine=MACB.machine.for_pages(16))),
    "board": with_bench(board=replace(MACB, name="another")),
}


@pytest.fixture
def stock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(measure, "find_qemu", lambda _: QEMU)
    monkeypatch.setattr(measure, "plugin_for", lambda *_: PLUGIN)
    monkeypatch.setattr(measure, "model_for", lambda *_: Model(Path("gem.so"), "", b"", "hash of the model"))
    modules = {name: module(name) for name in ("macb", "phylink", "pktgen")}
    return load_build(str(write(tmp_path / "stock", {"Image": image(), **tree(RELEASE, **modules)})))


def booting(banners: list[str]) -> Callable[..., ExactBoot]:
    """Return a boot that says these words, one after the other."""

    def boot(*_: object, **__: object) -> ExactBoot:
        return replace(KNOWN_GOOD, identity=replace(KNOWN_GOOD.identity, banner=banners.pop(0)))

    return boot


@pytest.mark.parametrize("part", CHANGES)
def test_each_part_that_values_depend_on_is_booted_again(
    stock: Build, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    banners = ["first", "second"]
    monkeypatch.setattr(measure, "boot", booting(banners))
    bench = ExactBench(MACB)
    payload = bench.payload(stock)
    assert [bench.measured(payload, print).boot.identity.banner for _ in range(2)] == ["first"] * 2
    other = CHANGES[part](bench, payload)
    assert bench.measured(other, print).boot.identity.banner == "second"
    assert ExactBench(MACB).is_measured(payload)


def test_the_modules_and_the_traffic_are_in_the_initramfs(stock: Build, tmp_path: Path) -> None:
    bench = ExactBench(MACB)
    payload = bench.payload(stock)
    driver = write(tmp_path / "new", {"macb.ko": module("macb", srcversion="NEW")}) / "macb.ko"
    others = (bench.payload(stock, load_build(str(driver))), make_payload(MACB, stock, None, amounts=()))
    assert payload.initramfs not in [one.initramfs for one in others]


def test_the_ordinary_gate_is_offered_where_two_boots_differ(stock: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = booting(["first", "second"])

    def twice(*words: object) -> tuple[ExactBoot, ExactBoot]:
        return boot(*words), boot(*words)

    monkeypatch.setattr(measure, "boot_twice", twice)
    bench = ExactBench(MACB)
    with pytest.raises(LabError, match=r"the exact board macb is not exact on this machine: .*first.*second") as caught:
        bench.known_good(bench.payload(stock), print)
    assert "pinet gate BUILD --lab emulated (e1000e, virtio-net)" in caught.value.act
    assert not bench.is_proved(bench.payload(stock))


def test_the_release_of_the_stock_kernel_is_in_the_name_of_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path("/apt/linux-image-6.12.73+deb13-arm64_6.12.73-1_arm64.deb")
    monkeypatch.setattr(measure, "kernel_package", lambda *_: package)
    assert stock_release(print) == "6.12.73+deb13-arm64"


TEXT = (ROOT / "lab" / "exact.yaml").read_text()


def lab(folder: Path, *changes: tuple[str, str]) -> str:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "mine.yaml").write_text(text)
    return str(folder / "mine.yaml")


def test_the_packaged_lab_has_the_default_boards() -> None:
    found = exact_boards()
    assert {name: (one.machine, one.nic.driver) for name, one in found.items()} == {
        "e1000e": (VIRT, "e1000e"),
        "igb": (VIRT, "igb"),
        "virtio-net": (VIRT, "virtio_net"),
        "macb": (VIRT, "macb"),
        "e1000e-slot": (VIRT_SLOT, "e1000e"),
        "virtio-net-slot": (VIRT_SLOT, "virtio_net"),
        "genet": (VIRT, "bcmgenet"),
        "r8152": (VIRT, "r8152"),
        "r8156": (VIRT, "r8152"),
        "ax88179": (VIRT, "ax88179_178a"),
        "ax88772": (VIRT, "asix"),
        "lan78xx": (VIRT, "lan78xx"),
        "smsc95xx": (VIRT, "smsc95xx"),
        "cdc": (VIRT, "cdc_ether"),
        "r8169": (VIRT, "r8169"),
        "igc": (VIRT, "igc"),
        "aqc": (VIRT, "atlantic"),
    }


def test_each_driver_takes_part_in_the_statements_of_soak() -> None:
    assert {*MODULES, *UNCOUNTED} == {name for name, board in exact_boards().items() if not board.machine.slot}
    unchanged, longer = (
        mark.kwargs["runs"]
        for test in (
            test_exact_rebuilds.test_a_driver_that_was_only_built_again_is_not_slower,
            test_exact_rebuilds.test_four_more_instructions_are_listed_first,
        )
        for mark in vars(test)["pytestmark"]
    )
    assert (unchanged // len(MODULES) >= 14, longer // len(MODULES) >= 4) == (True, True)


def test_a_lab_file_can_have_other_boards(tmp_path: Path) -> None:
    found = exact_boards(lab(tmp_path, ("    virtio-net:\n      board", "    guest:\n      board")))
    assert [*found][:4] == ["e1000e", "igb", "guest", "macb"]
    assert found["guest"].name == "guest"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "driver: igb",
            "driver: e1000",
            "node 'igb': no exact board is virt with NIC igb and driver e1000; accepted: virt with e1000e, igb, ",
        ),
        (
            "        onboard: {port: qemu/p4}",
            "        onboard: {port: qemu/p4}\n    more:\n      board: virt\n      interfaces:\n"
            "        nic: {nic: igb, port: qemu/p30}",
            "node 'e1000e' is an exact board (clock: exact), but node 'more' is not; use two lab files",
        ),
        (
            "nic: {nic: igb, port: qemu/p2}",
            "nic: {nic: igb, port: qemu/p2}\n        more: {nic: igb, port: qemu/p30}",
            "node 'igb' is an exact board (clock: exact); expected one interface, whose NIC QEMU",
        ),
        ("figures: emulated", "launcher: virtual", "no launcher starts exact boards such as 'e1000e' (clock: exact);"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        exact_boards(lab(tmp_path, ("p1-p20", "p1-p30"), (old, new)))
    assert f": {message}" in str(raised.value)
    assert raised.value.where is not None
    assert raised.value.where.line is not None


def test_a_machine_of_exact_boards_has_an_exact_clock(tmp_path: Path) -> None:
    file = lab(tmp_path, ("clock: exact", "clock: virtual"), ("figures: emulated", "launcher: virtual"))
    with pytest.raises(ConfigError, match="node 'e1000e-slot': machine virt-slot exists only as an exact board"):
        exact_boards(file)


def test_a_board_can_have_two_processors(tmp_path: Path) -> None:
    two = ("cores: 1, buses: [pcie3x1, usb2, usb3]", "cores: 2, buses: [pcie3x1, usb2, usb3]")
    found = exact_boards(lab(tmp_path, two))["e1000e"]
    assert found.machine.processors == 2
    with pytest.raises(ConfigError, match=r"board 'virt-gem' of node 'macb' has 3 cores; an exact board has 1 or 2"):
        exact_boards(lab(tmp_path, ("cores: 1, buses: [], onboard: gem", "cores: 3, buses: [], onboard: gem")))


def test_a_lab_without_exact_boards_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^emulated has no exact board, which is a node with 'clock: exact'; without"
    ):
        exact_boards("emulated")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def never() -> ExactBoot:
    pytest.fail("the cache has this boot")


def test_a_boot_is_made_once() -> None:
    key = key_of("e1000e", "kernel")
    assert known_boot(key) is None
    assert boot_once(key, lambda: BOOT).boot == BOOT
    assert boot_once(key, never) == MadeExactBoot(BOOT, 0.0, cached=True)
    assert key != key_of("e1000e", "another kernel")


def test_a_damaged_entry_is_made_again() -> None:
    key = key_of("a")
    boot_once(key, lambda: BOOT)
    (file,) = exact_cache().glob("boots/*/boot.json.gz")
    file.write_bytes(file.read_bytes()[:40])
    assert known_boot(key) is None
    assert boot_once(key, lambda: BOOT).boot == BOOT
    assert boot_once(key, never) == MadeExactBoot(BOOT, 0.0, cached=True)


def test_two_gates_at_once_boot_once() -> None:
    program = """
import time
from pytest_pinet.exact.store import boot_once
from tests.support.exact_boots import KNOWN_GOOD as BOOT
def run():
    print("booted", flush=True)
    time.sleep(0.3)
    return BOOT
assert boot_once("0" * 32, run).boot == BOOT
"""
    gates = [
        subprocess.Popen([sys.executable, "-X", "pinet", "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    output = [gate.communicate(timeout=60)[0] for gate in gates]
    assert [gate.returncode for gate in gates] == [0, 0]
    assert sorted(output) == ["", "booted\n"]


def test_a_full_disk_is_one_sentence() -> None:
    def run() -> ExactBoot:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "boot.json.gz")

    with pytest.raises(LabError, match=r"cannot be written: No space left on device \(boot.json.gz\)\n"):
        boot_once("f", run)


def test_old_boots_leave_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_pinet.exact.store.KEPT", 2)
    for name in "abc":
        boot_once(name, lambda: BOOT)
        long_ago = time.time() - 100 * 86_400
        os.utime(exact_cache() / "boots" / name, (long_ago, long_ago))
    boot_once("d", lambda: BOOT)
    assert sorted(path.name for path in (exact_cache() / "boots").iterdir()) == ["c", "d"]
