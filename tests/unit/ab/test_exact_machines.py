"""How often exact boards boot for a gate. QEMU is replaced; the cache and the payloads are real."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.ab import exact_series
from pytest_pinet.ab.exact_series import QemuMachines
from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.exact import measure
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.exact.payload import Payload
from pytest_pinet.exact.qemu import Plugin, Qemu
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import ExactBoot
from tests.support.build_files import RELEASE, image, module, tree, write
from tests.support.exact_boots import KNOWN_GOOD

Boots = list[str]
MACB = exact_boards()["macb"]
MODULES = ("macb", "phylink", "pktgen", "af_packet")


@pytest.fixture
def boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Boots:
    """Return the names of the builds in the order of their boots."""
    stock = write(tmp_path / "stock", {"Image": image(), **tree(RELEASE, **{name: module(name) for name in MODULES})})
    made: Boots = []

    def boot(payload: Payload, *_: object, **__: object) -> ExactBoot:
        made.append(payload.build.removeprefix("build "))
        # A module of this name does not repeat.
        number = made.count("unsteady.ko")
        return replace(KNOWN_GOOD, identity=replace(KNOWN_GOOD.identity, banner=f"boot {number}"))

    def twice(*words: object) -> tuple[ExactBoot, ExactBoot]:
        return boot(*words), boot(*words)  # type: ignore[arg-type]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(measure, "find_qemu", lambda _: Qemu(("qemu",), (7, 2, 22), "hash"))
    monkeypatch.setattr(measure, "plugin_for", lambda *_: Plugin(None, None))
    monkeypatch.setattr(measure, "model_for", lambda *_: None)
    monkeypatch.setattr(measure, "boot", boot)
    monkeypatch.setattr(measure, "boot_twice", twice)
    monkeypatch.setattr(exact_series, "stock_build", lambda _: load_build(str(stock)))
    return made


@pytest.fixture
def driver(tmp_path: Path) -> Callable[[str], Build]:
    def made(name: str) -> Build:
        folder = write(tmp_path / name, {f"{name}.ko": module("macb", srcversion=name.upper())})
        return load_build(str(folder / f"{name}.ko"))

    return made


def gate(good: Build | None, build: Build) -> tuple[int, int]:
    """Return how many boots are planned for A and for B, after both were made."""
    machines = QemuMachines({"macb": MACB})
    a = machines.known_good("macb", good, build, print)
    boots_of_a = a.boots(0)
    a.make(0)
    b = machines.boot("macb", build, print)
    boots_of_b = b.boots(0)
    b.make(0)
    return boots_of_a, boots_of_b


def test_a_known_good_driver_is_proved_once_and_the_stock_kernel_is_not_booted(
    boots: Boots, driver: Callable[[str], Build]
) -> None:
    good, build = driver("good"), driver("build")
    assert gate(good, build) == (2, 1)
    assert boots == ["good.ko", "good.ko", "build.ko"]
    assert gate(good, build) == (0, 0)
    assert gate(good, good) == (0, 0)
    assert len(boots) == 3
    # A driver that was only measured is proved when it becomes the known-good one.
    assert gate(build, good) == (2, 0)
    assert boots[3:] == ["build.ko", "build.ko"]


def test_the_stock_kernel_is_proved_if_it_is_the_known_good_build(boots: Boots, driver: Callable[[str], Build]) -> None:
    assert gate(None, driver("build")) == (2, 1)
    assert len(boots) == 3
    assert boots[-1] == "build.ko"


def test_both_builds_send_with_our_own_sender_if_one_has_no_pktgen(
    boots: Boots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    senders: Boots = []

    def sending(self: measure.ExactBench, *words: object, **more: object) -> Payload:
        made = payload(self, *words, **more)  # type: ignore[arg-type]
        senders.append(made.sender)
        return made

    payload = measure.ExactBench.payload
    monkeypatch.setattr(measure.ExactBench, "payload", sending)
    without = {name: module(name) for name in MODULES if name != "pktgen"}
    small = load_build(str(write(tmp_path / "small", {"Image": image(), **tree(RELEASE, **without)})))

    gate(None, small)
    assert senders == ["sender", "sender"]
    gate(small, load_build(str(tmp_path / "stock")))
    assert senders[2:] == ["sender", "sender"]
    gate(None, load_build(str(tmp_path / "stock")))
    assert senders[4:] == ["pktgen", "pktgen"]


def test_builds_with_pages_of_two_sizes_are_refused_before_the_second_boot(boots: Boots, tmp_path: Path) -> None:
    files = {"Image": image(pages_kib=16), **tree(RELEASE, **{name: module(name) for name in MODULES})}
    large = load_build(str(write(tmp_path / "large", files)))
    refused = (
        r"^build large has pages of 16 KiB, but build stock, with which it is compared, has pages of 4 KiB: .*--against"
    )
    with pytest.raises(ConfigError, match=refused):
        gate(None, large)
    with pytest.raises(
        ConfigError, match=r"^build stock has pages of 4 KiB, but build large, .* has pages of 16 KiB: "
    ):
        gate(large, load_build(str(tmp_path / "stock")))
    assert gate(large, large) == (0, 0)


def test_a_known_good_driver_that_does_not_repeat_is_refused(boots: Boots, driver: Callable[[str], Build]) -> None:
    with pytest.raises(LabError, match=r"^the exact board macb is not exact on this machine: .*boot 1.*boot 2"):
        gate(driver("unsteady"), driver("build"))
