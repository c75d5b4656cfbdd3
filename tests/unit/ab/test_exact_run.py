"""A run of exact gates, and its machines."""

from __future__ import annotations

import _thread
import json
import re
import threading
from collections import Counter
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
from pytest_pinet.model.exact import ExactBoot, MadeExactBoot
from pytest_pinet.session.exact_gate import PlannedExactBoot
from tests.support.build_files import RELEASE, image, module, tree, write
from tests.support.exact_boots import KNOWN_GOOD
from tests.support.recorded_exact import GOOD, RecordedMachines

TEST = """
import pytest

def test_exact(exact_gate):
    exact_gate()
"""
SKIPPED_IGB = """
import pytest

@pytest.mark.exact(nic="macb")
def test_macb(exact_gate):
    exact_gate()

@pytest.mark.skip(reason="not today")
@pytest.mark.exact(nic="igb")
def test_igb(exact_gate):
    exact_gate()
"""
TWO_OF_MACB = """
import pytest

@pytest.mark.exact(nic="macb")
@pytest.mark.parametrize("number", [1, 2])
def test_macb(exact_gate, number):
    exact_gate()
"""
STOP_S = 20.0


class Machines(RecordedMachines):
    """Counts plans and boots of the build under test by NIC. ``before`` is called with the NIC before each boot."""

    def __init__(self, before: Callable[[str], object] = str) -> None:
        super().__init__()
        self.planned: Counter[str] = Counter()
        self.booted: Counter[str] = Counter()
        self.stopped = threading.Event()
        self._before = before

    def known_good(self, nic: str, build: Build | None, new: Build, say: Callable[[str], None]) -> PlannedExactBoot:
        self.planned[nic] += 1
        return super().known_good(nic, build, new, say)

    def boot(self, nic: str, build: Build, say: Callable[[str], None]) -> PlannedExactBoot:
        plan = super().boot(nic, build, say)

        def make(number: int) -> MadeExactBoot:
            self.booted[nic] += 1
            self._before(nic)
            return plan.make(number)

        return replace(plan, make=make)

    def stop(self) -> None:
        super().stop()
        self.stopped.set()

    @pytest.hookimpl
    def pytest_pinet_exact_machines(self, config: pytest.Config) -> Machines:
        return self


Gate = Callable[..., int]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Return a function that runs exact gates with these machines, and returns pytest's exit code."""
    monkeypatch.chdir(tmp_path)

    def gate(machines: Machines, build: str, text: str, *words: str) -> int:
        # importlib keeps modules by their names.
        tests = Path(f"{tmp_path.name}.py")
        tests.write_text(text)
        Path("build.yaml").write_text(f"name: {build}\ncmdline: pinet.test=1\n")
        argv = ["--pinet-exact", "--pinet-build=build.yaml", "-p", "no:cacheprovider", "--import-mode=importlib"]
        return int(pytest.main([*argv, str(tests), *words], plugins=[machines]))

    return gate


def test_ctrl_c_before_the_first_result_ends_the_boots(gate: Gate) -> None:
    def interrupt(_: str) -> None:
        _thread.interrupt_main()
        machines.stopped.wait(STOP_S)

    machines = Machines(interrupt)
    assert gate(machines, "nops", TEST, "--pinet-nic=macb") == pytest.ExitCode.INTERRUPTED
    assert machines.stopped.is_set()
    found = json.loads(Path(".pinet/latest/results.json").read_text())
    assert [(one["verdict"], one["died"]) for one in found["results"]] == [("error", True)]
    assert (found["complete"], found["change"]["exit"]) == (False, 3)


def test_an_error_at_the_end_of_the_boots_loses_no_results(gate: Gate, capfd: pytest.CaptureFixture[str]) -> None:
    class Broken(Machines):
        def stop(self) -> None:
            raise RuntimeError("the farm does not answer")

    assert gate(Broken(), "nops", TEST, "--pinet-nic=macb") == pytest.ExitCode.INTERNAL_ERROR
    assert "the farm does not answer" in capfd.readouterr().err
    assert json.loads(Path(".pinet/latest/results.json").read_text())["complete"]


def test_the_next_test_boots_again_after_a_problem_of_the_machine(
    gate: Gate, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail_once(nic: str) -> None:
        if machines.booted[nic] == 1:
            raise LabError("QEMU got no processor time")

    machines = Machines(fail_once)
    assert gate(machines, "nops", TWO_OF_MACB) == pytest.ExitCode.TESTS_FAILED
    assert machines.booted == {"macb": 2}
    out = capfd.readouterr().out
    assert "1 passed" in out
    assert "QEMU got no processor time" in out


def test_a_build_that_breaks_is_booted_once(gate: Gate) -> None:
    machines = Machines()
    assert gate(machines, "error panic", TWO_OF_MACB) == pytest.ExitCode.TESTS_FAILED
    assert (machines.planned, machines.booted) == ({"macb": 1}, {"macb": 1})


def test_an_unknown_error_of_a_plan_is_that_of_its_own_nic(gate: Gate, capfd: pytest.CaptureFixture[str]) -> None:
    class Broken(Machines):
        def known_good(self, nic: str, build: Build | None, new: Build, say: Callable[[str], None]) -> PlannedExactBoot:
            if nic == "igb":
                raise RuntimeError("no board")
            return super().known_good(nic, build, new, say)

    assert gate(Broken(), "nops", TEST, "-rA") == pytest.ExitCode.TESTS_FAILED
    out = capfd.readouterr().out
    assert re.search(r"^PASSED .*::test_exact\[macb\]", out, re.MULTILINE)
    assert re.search(r"^FAILED .*::test_exact\[igb\] - RuntimeError", out, re.MULTILINE)


def test_the_nic_of_a_test_that_is_marked_to_be_skipped_does_not_boot(gate: Gate) -> None:
    machines = Machines()
    assert gate(machines, "nops", SKIPPED_IGB) == pytest.ExitCode.OK
    assert machines.planned == {"macb": 1}


def test_a_window_that_only_one_boot_has_gives_no_verdict(gate: Gate, capfd: pytest.CaptureFixture[str]) -> None:
    class Losing(Machines):
        def boot(self, nic: str, build: Build, say: Callable[[str], None]) -> PlannedExactBoot:
            plan = super().boot(nic, build, say)

            def make(number: int) -> MadeExactBoot:
                made = plan.make(number)
                return replace(made, boot=replace(made.boot, windows=made.boot.windows[1:]))

            return replace(plan, make=make)

    assert gate(Losing(), "nops", TEST, "--pinet-nic=macb", "-rA") == pytest.ExitCode.TESTS_FAILED
    lost = GOOD.windows[0].name
    assert f"the boots cannot be compared: {lost} was measured with A only" in " ".join(capfd.readouterr().out.split())


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


def exact_machines_gate(good: Build | None, build: Build) -> tuple[int, int]:
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
    assert exact_machines_gate(good, build) == (2, 1)
    assert boots == ["good.ko", "good.ko", "build.ko"]
    assert exact_machines_gate(good, build) == (0, 0)
    assert exact_machines_gate(good, good) == (0, 0)
    assert len(boots) == 3
    # A driver that was only measured is proved when it becomes the known-good one.
    assert exact_machines_gate(build, good) == (2, 0)
    assert boots[3:] == ["build.ko", "build.ko"]


def test_the_stock_kernel_is_proved_if_it_is_the_known_good_build(boots: Boots, driver: Callable[[str], Build]) -> None:
    assert exact_machines_gate(None, driver("build")) == (2, 1)
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

    exact_machines_gate(None, small)
    assert senders == ["sender", "sender"]
    exact_machines_gate(small, load_build(str(tmp_path / "stock")))
    assert senders[2:] == ["sender", "sender"]
    exact_machines_gate(None, load_build(str(tmp_path / "stock")))
    assert senders[4:] == ["pktgen", "pktgen"]


def test_builds_with_pages_of_two_sizes_are_refused_before_the_second_boot(boots: Boots, tmp_path: Path) -> None:
    files = {"Image": image(pages_kib=16), **tree(RELEASE, **{name: module(name) for name in MODULES})}
    large = load_build(str(write(tmp_path / "large", files)))
    refused = (
        r"^build large has pages of 16 KiB, but build stock, with which it is compared, has pages of 4 KiB: .*--against"
    )
    with pytest.raises(ConfigError, match=refused):
        exact_machines_gate(None, large)
    with pytest.raises(
        ConfigError, match=r"^build stock has pages of 4 KiB, but build large, .* has pages of 16 KiB: "
    ):
        exact_machines_gate(large, load_build(str(tmp_path / "stock")))
    assert exact_machines_gate(large, large) == (0, 0)


def test_a_known_good_driver_that_does_not_repeat_is_refused(boots: Boots, driver: Callable[[str], Build]) -> None:
    with pytest.raises(LabError, match=r"^the exact board macb is not exact on this machine: .*boot 1.*boot 2"):
        exact_machines_gate(driver("unsteady"), driver("build"))
