"""``pinet gate --exact`` and the marker ``exact``, with recorded boots (tests.support.recorded_exact)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.ab.options import STOCK
from pytest_pinet.cli import run
from pytest_pinet.cli.gate import _names_tests
from pytest_pinet.history.results_file import read_run
from pytest_pinet.report.page.change import change_section
from tests.support.build_files import RELEASE, X86_64, image, module, tree, write
from tests.support.gate_project import PINET
from tests.support.user_command import run_command

TESTS = """
import pytest

@pytest.mark.exact(nic="macb")
def test_default(exact_gate):
    found = exact_gate()
    assert found["frame-60-rx"].instructions_of_a == 4752
    assert found["frame-60-rx"].functions.get("gem_rx [macb]", (151, 155)) == (151, 155)

@pytest.mark.exact(nic="macb", instructions={"gem_rx": "1%"})
def test_receive_path(exact_gate):
    exact_gate()
"""
QUIET = ("-p", "no:cacheprovider", "--import-mode=importlib")
BUILDS = ("good", "nops", "slow", "qemu10", "unsteady", "lacking", "meeting", "moved", "heavier", "error panic")


Gate = Callable[..., tuple[int, str]]


def run_gate(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Return exit code and output of ``pinet gate --exact``."""
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        run(["gate", "--exact", *words, *QUIET])
    out, err = capfd.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out + err


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Gate:
    """Make a folder with tests and builds. Return ``pinet gate --exact``, which gives exit code and output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_driver.py").write_text(TESTS)
    for name in BUILDS:
        (tmp_path / f"{name.replace(' ', '-')}.yaml").write_text(f"name: {name}\ncmdline: pinet.test=1\n")

    return lambda *words: run_gate(capfd, *words, "-p", "tests.support.recorded_exact")


def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(".pinet/latest/results.json").read_text())
    return found


def test_the_packaged_test_runs_without_a_lab(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINET_LAB", "no such lab.yaml")
    code, out = gate("nops.yaml")
    assert code == 0, out
    assert f"nops may be merged: none of 2 metrics is slower than with the {STOCK};" in out
    assert "gem_rx [macb]  frame-60-rx  151.00  155.00   +4.00" in out
    assert "igb needs QEMU 8.0 or later, found 7.2.22" in out
    run = results()
    assert (run["lab"], run["figures"], run["change"]["baseline"]) == ("exact", "emulated", "exact")
    assert run["meaning"].startswith("instructions of a virtual machine, whose clock counts them;")
    assert "--pinet-exact" in run["results"][0]["rerun"]
    assert "--pinet-lab" not in run["results"][0]["rerun"]


def test_limits_of_markers_and_of_the_command_line(gate: Gate) -> None:
    code, out = gate("nops.yaml", "test_driver.py")
    assert code == 1
    assert "1 failed, 1 passed" in out
    assert "gem_rx [macb] grows by more than 1%" in " ".join(out.split())
    code, out = gate("nops.yaml", "test_driver.py", "--pinet-instructions=gem_rx=3%")
    assert code == 0, out


@pytest.mark.parametrize(
    ("build", "plain", "bisect", "text"),
    [
        ("slow", 1, 1, "slow must not be merged: 1 of 2 metrics slower, by 7.7 % in macb frame-60-rx,"),
        ("error-panic", 1, 125, "error panic must not be merged: panic (1 of 1 results), against the stock"),
        ("qemu10", 3, 125, "the boots cannot be compared: qemu was 7.2.22 with A and 10.0.2 with B"),
        ("missing", 4, 125, "missing.yaml"),
    ],
)
def test_exit_codes(gate: Gate, build: str, plain: int, bisect: int, text: str) -> None:
    code, out = gate(f"{build}.yaml")
    assert (code, text in out) == (plain, True), out
    assert gate(f"{build}.yaml", "--bisect")[0] == bisect


OWN = "6.12.49-v8+"


def artefact(folder: Path, name: str, release: str = OWN) -> str:
    """Write a kernel with modules, as CI of raspberrypi/linux leaves it. Return its name."""
    vermagic = f"{release} SMP preempt mod_unload modversions aarch64"
    driver = {"macb": module("macb", vermagic)}
    write(folder / name, {"boot/kernel8.img": image(release, vermagic=vermagic), **tree(release, **driver)})
    return name


def test_a_kernel_of_its_own_release_is_measured_and_not_judged(
    gate: Gate, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = artefact(tmp_path, "bcm2711_build")
    code, out = gate(name)
    assert code == 3, out
    why = (
        f"{name} is measured and not judged: its kernel is {OWN}, the stock kernel is 6.1.0-56-arm64, and no "
        "known-good build is named. Name the build without the change: --against BASE"
    )
    words = " ".join(out.split())
    assert f"No decision: {why}." in words
    assert "1 skipped, 1 inconclusive" in words
    assert "macb: not judged, since no known-good build is named" in words
    # The reason stands once in the table of each board.
    assert len(re.findall(r"^ +not judged, since no known-good build is named$", out, re.MULTILINE)) == 1
    assert "A: the same build as B\n" in out
    found = results()
    assert (found["change"]["verdict"], found["change"]["exit"], found["change"]["bisect_exit"]) == (
        "inconclusive",
        3,
        131,
    )
    assert {one["verdict"] for one in found["change"]["entries"]} == {"inconclusive"}
    assert all(one["exact"]["b"]["instructions"] > 1000 for one in found["results"])
    # The reason stands once in a merge request and on the page, too.
    assert run(["summary", "--format=md"]) == 0
    assert capfd.readouterr().out.count("not judged, since") == 2, "in a line, and in the text of its first metric"
    record = read_run(Path(".pinet/latest/results.json"))
    assert record.change is not None
    assert change_section(record, record.change).count("not judged, since") == 1
    # The next commit cannot be judged, either.
    assert gate(name, "--bisect")[0] == 131
    code, out = gate(name, "--dry-run")
    assert (code, why in " ".join(out.split())) == (0, True), out
    assert "\ntotal: 2 boots of exact boards (macb)" in out


def test_a_mistake_or_a_panic_of_a_kernel_without_a_known_good_one_is_its_own(gate: Gate, tmp_path: Path) -> None:
    code, _ = gate(artefact(tmp_path, "error panic"))
    assert (code, results()["change"]["sentence"]) == (1, "error panic must not be merged: panic (1 of 1 results).")
    assert gate(artefact(tmp_path, "lacking"), "--pinet-nic=macb")[0] == 4


@pytest.mark.parametrize("words", [["--against=running"], ["--against=6.6"]])
def test_two_releases_are_judged_and_the_note_says_that_all_differs(
    gate: Gate, tmp_path: Path, words: list[str]
) -> None:
    name = artefact(tmp_path, "bcm2711_build")
    artefact(tmp_path, "6.6", "6.6.21-v8+")
    code, out = gate(name, *words)
    assert code == 0, out
    known = "6.6.21-v8+" if words == ["--against=6.6"] else "6.1.0-56-arm64"
    against = "6.6" if words == ["--against=6.6"] else "the stock kernel"
    merged = f"{name} may be merged: none of 2 metrics is slower than with {against}"
    sentence = f"{merged}; the whole kernel differs, {known} in A and {OWN} in B."
    assert sentence in " ".join(out.split())
    assert results()["change"]["sentence"] == sentence


@pytest.mark.parametrize("words", [[], ["--against=base"]])
def test_a_kernel_of_the_release_of_the_known_good_one_is_judged(gate: Gate, tmp_path: Path, words: list[str]) -> None:
    release = OWN if words else "6.1.0-56-arm64"
    artefact(tmp_path, "base")
    code, out = gate(artefact(tmp_path, "bcm2711_build", release), *words)
    assert code == 0, out
    assert "2 unchanged" in out
    assert "the whole kernel differs" not in out


def test_a_board_that_is_not_exact_gives_no_verdict(gate: Gate) -> None:
    words = "nops.yaml", "--against=unsteady.yaml", "--pinet-nic=macb"
    code, out = gate(*words)
    assert code == 2
    assert "macb is not exact on this machine: tcp-tx: packets was 5500 in one boot and" in out
    # No commit can be judged on this machine, so the bisection ends in place of skipping them all.
    assert gate(*words, "--bisect")[0] == 131


def test_a_board_that_cannot_run_here_ends_a_bisection(gate: Gate) -> None:
    code, out = gate("nops.yaml", "--pinet-nic=igb")
    assert (code, "igb needs QEMU 8.0 or later, found 7.2.22" in out) == (3, True), out
    assert gate("nops.yaml", "--pinet-nic=igb", "--bisect")[0] == 131
    # Another board has judged the commit.
    assert gate("nops.yaml", "--bisect")[0] == 0
    # The next commit may have what this one lacks.
    assert gate("lacking.yaml", "--pinet-nic=macb", "--bisect")[0] == 125


def test_all_nics_boot_at_the_same_time(gate: Gate) -> None:
    """The boot of each NIC waits for that of the other one."""
    code, out = gate("meeting.yaml", "--against=meeting.yaml")
    assert code == 0, out
    assert "4 unchanged" in out


@pytest.mark.parametrize(
    ("build", "verdict", "boots"),
    [("nops", "pass", 1), ("slow", "fail", 1), ("moved", "pass", 2), ("heavier", "fail", 5)],
)
def test_more_boots_decide_if_the_first_ones_differ_outside_of_the_driver(
    gate: Gate, build: str, verdict: str, boots: int
) -> None:
    code, out = gate(f"{build}.yaml")
    assert code == (1 if verdict == "fail" else 0), out
    assert f"; {2 * boots} boots\n" in out
    (received,) = (one for one in results()["results"] if one["id"].endswith("frame-60-rx"))
    assert received["verdict"] == verdict
    turns = [(one["side"], one["variation"], one["seconds"]) for one in received["change"]["turns"]]
    assert turns == [(side, number, 42.0) for number in range(boots) for side in "AB"]
    sides = received["exact"]
    assert (sides["a"]["variation"], sides["b"]["variation"]) == ((0, 1) if build == "moved" else (0, 0))


def test_a_dry_run_lists_the_boots(gate: Gate) -> None:
    code, out = gate("nops.yaml", "--pinet-dry-run")
    assert code == 0, out
    assert "test_exact[macb]\n  macb: A stock kernel, 2 boots\n  macb: B nops, 1 boot\n" in out
    assert "\ntotal: 3 boots of exact boards (macb), and more for a NIC whose values differ\n" in out
    assert "\nB: nops: " in out
    assert "1 skipped, 1 planned" in out
    assert not Path(".pinet/latest").exists()


def test_exact_boards_need_an_exact_gate(gate: Gate, capfd: pytest.CaptureFixture[str]) -> None:
    assert pytest.main(["--pinet-lab=exact", "test_driver.py", *QUIET]) == 4
    message = (
        "node 'e1000e' is an exact board (clock: exact), which only an exact gate boots: pinet gate --exact --lab exact"
    )
    assert message in " ".join(capfd.readouterr().err.split())
    assert run(["matrix", "--lab=exact"]) == 4
    assert message in " ".join(capfd.readouterr().err.split())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--pinet-nic=foo"], "--pinet-nic: unknown NIC of exact boards 'foo'; accepted: igb, macb"),
        (
            ["--boots=4"],
            "--boots 4: an exact gate boots each build as often as it must, at most five times; remove the option",
        ),
        (["--against=accepted"], "--against accepted: exact gates have no accepted baselines; expected a known-good"),
        (["--pinet-instructions=few"], "--pinet-instructions 'few': instructions: 'few' is not a growth such as '1%'"),
    ],
)
def test_a_mistake_ends_a_bisection(gate: Gate, words: list[str], text: str) -> None:
    code, out = gate("nops.yaml", "--bisect", *words)
    assert (code, text in out) == (132, True), out


def test_without_a_build_the_test_is_skipped(gate: Gate, capfd: pytest.CaptureFixture[str]) -> None:
    assert pytest.main(["-rs", "test_driver.py", *QUIET]) == 0
    out = capfd.readouterr().out
    assert "2 skipped" in out
    assert "an exact gate needs --pinet-exact and --pinet-build PATH, or: pinet gate --exact BUILD" in out


@pytest.mark.slow
@pytest.mark.usefixtures("gate")
def test_workers_run_nics_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Workers import what their controller could import when it started, so this one is a process of its own.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))

    def with_workers(*words: str) -> tuple[int, str]:
        argv = [PINET, "gate", "--exact", "nops.yaml", "-n", "2", *words, "-p", "tests.support.recorded_exact", *QUIET]
        done = run_command(argv, tmp_path, dict(os.environ), 120)
        return done.returncode, done.stdout

    code, out = with_workers()
    assert code == 0, out
    assert "2 unchanged; 2 boots" in out
    assert with_workers("--pinet-nic=igb", "--bisect")[0] == 131


@pytest.fixture(scope="module")
def old_qemu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a QEMU that only says its version, in the folder of a cache."""
    qemu = tmp_path_factory.mktemp("qemu") / "qemu-system-aarch64"
    qemu.write_text("#!/bin/sh\necho QEMU emulator version 7.2.22\n")
    qemu.chmod(0o755)
    return qemu


@pytest.fixture
def qemu_gate(
    gate: Gate, old_qemu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Gate:
    """Return ``pinet gate --exact`` with the real machines, an old QEMU and the known-good build ``good``."""
    monkeypatch.setenv("PINET_QEMU", str(old_qemu))
    monkeypatch.setenv("XDG_CACHE_HOME", str(old_qemu.parent))
    drivers = {name: module(name) for name in ("e1000e", "igb", "macb", "virtio_net", "pktgen", "af_packet")}
    write(tmp_path / "good", {"Image": image(), **tree(RELEASE, **drivers)})

    return partial(run_gate, capfd)


# The QEMU of these tests is too old for igb, and loads no device models.
DRIVERS = "expected one of the drivers e1000e, virtio_net"
OLD = "6.1.0-1-arm64 SMP mod_unload modversions aarch64"
BARE = {"Image": image(), **tree(RELEASE, tg3=module("tg3"))}
# The files of a build that is none, its name, and the beginning of the sentence about it.
WRONG: dict[str, tuple[dict[str, bytes], str, str]] = {
    "another release": (
        {"e1000e.ko": module("e1000e", vermagic=OLD)},
        "e1000e.ko",
        f"e1000e.ko is a module for kernel 6.1.0-1-arm64, but kernel {RELEASE} boots; build it with the headers",
    ),
    "another processor": (
        {"e1000e.ko": module("e1000e", machine=X86_64)},
        "e1000e.ko",
        "build e1000e.ko is for x86_64, but exact boards are arm64; build it with ARCH=arm64 and CROSS_COMPILE=",
    ),
    "a module of no board": (
        {"tg3.ko": module("tg3")},
        "tg3.ko",
        f"no chosen exact board can judge a build that changes only tg3; {DRIVERS}",
    ),
    "a kernel without a driver": (
        {f"out/{name}": data for name, data in BARE.items()},
        "out",
        f"no chosen exact board can judge a build without a driver of a board; {DRIVERS}",
    ),
    "an image alone": (
        {"Image": image()},
        "Image",
        "no chosen exact board can judge a kernel without modules (Image,modules.tar.xz names both), and without a ",
    ),
    "HEAD": (
        {},
        "HEAD",
        "there is no file or folder HEAD: it is a git ref: check it out, build it, and name the folde",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_in_the_build_is_one_sentence_before_the_first_boot(
    qemu_gate: Gate, tmp_path: Path, what: str
) -> None:
    files, build, text = WRONG[what]
    write(tmp_path, files)
    for words in ((), ("--dry-run",), *([("-n2",)] if what == "a module of no board" else [])):
        code, out = qemu_gate(build, "--against=good", *words)
        assert code == 4, out
        (error,) = [line for line in out.splitlines() if "ERROR" in line or "FAILED" in line]
        assert error.replace(f"BUILD: {build}", f"BUILD {build}").startswith(f"ERROR: BUILD {build}: {text}"), out
    assert qemu_gate(build, "--against=good", "--bisect")[0] == 125
    assert not Path(".pinet/latest").exists()


def test_a_mistake_in_the_known_good_build_ends_a_bisection(qemu_gate: Gate, tmp_path: Path) -> None:
    write(
        tmp_path, {"e1000e.ko": module("e1000e"), "lone/Image": image(), "x86/e1000e.ko": module("e1000e", machine=62)}
    )
    write(tmp_path / "bare", BARE)
    for against, text in (
        ("bare", "no chosen exact board can judge a build without a driver of a board; "),
        ("lone/Image", "no chosen exact board can judge a kernel without modules (Image,modules.tar.xz names both), "),
    ):
        code, out = qemu_gate("e1000e.ko", f"--against={against}")
        assert (code, f"ERROR: --against {against}: {text}" in out) == (4, True), out
        assert qemu_gate("e1000e.ko", f"--against={against}", "--bisect")[0] == 132


def test_a_board_whose_driver_a_build_lacks_is_one_short_line(qemu_gate: Gate, tmp_path: Path) -> None:
    write(tmp_path / "out", {"Image": image(), **tree(RELEASE, virtio_net=module("virtio_net", srcversion="FFFF"))})
    write(tmp_path, {"virtio_net.ko": module("virtio_net", srcversion="FFFF")})
    code, out = qemu_gate("out", "--against=good", "--dry-run")
    assert code == 0, out
    lines = out[out.index("not measured:") :].splitlines()
    assert [line for line in lines if "e1000e" in line] == [
        "  test_exact[e1000e]: build out has no driver e1000e",
        "  test_exact[e1000e-slot]: build out has no driver e1000e",
    ]
    code, out = qemu_gate("virtio_net.ko", "--against=good", "--dry-run")
    assert code == 0, out
    assert out.count(": build virtio_net.ko changes no module of this board\n") == 2


@pytest.mark.parametrize(
    ("words", "has_tests"),
    [
        (["--pinet-nic", "igb"], False),
        (["--junitxml", "junit.xml"], False),
        (["-k", "x" * 300], False),
        (["-v", "tests"], True),
        (["test_own.py::test_it"], True),
        (["--pyargs", "package"], True),
    ],
)
def test_the_value_of_an_option_is_no_test(
    words: list[str], has_tests: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("igb", "tests"):
        Path(name).mkdir()
    for name in ("junit.xml", "test_own.py"):
        Path(name).touch()
    assert _names_tests(words) is has_tests


def test_a_gate_without_a_test_says_so(gate: Gate) -> None:
    code, output = gate("good.yaml", "test_driver.py", "-k", "nothing")
    assert code == 4
    assert "pinet: no test is selected, so there is no answer on good.yaml: check -k, -m, " in output
    assert "--pyargs" not in output
    code, output = gate("good.yaml", "-k", "nothing")
    assert output.rstrip().endswith("and the test paths")
