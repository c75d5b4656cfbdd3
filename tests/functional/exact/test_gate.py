"""``pinet gate --exact`` on real exact boards: Debian's kernel, and drivers with four more instructions.

``make exact`` runs the first two tests with one driver of each family. ``make smoke`` has genet and r8152 of them.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.emulated.image import KERNEL, kernel_package
from tests.support.driver_builds import patched_module
from tests.support.gate_project import PINET

pytestmark = [
    pytest.mark.emulated,
    pytest.mark.skipif(shutil.which("qemu-system-aarch64") is None, reason="QEMU for arm64 is missing"),
]
GATE_TIMEOUT_S = 900.0
Gate = Callable[..., tuple[int, str]]
# Drivers of each family: of systems on a chip, of USB and of PCI. By board: the module, the
# patch, and the function that has four instructions more.
LONGER = {
    "genet": ("genet", "four-instructions-genet-rx", "bcmgenet_rx_poll"),
    "r8152": ("r8152", "four-instructions-r8152-rx", "r8152_poll"),
    "macb": ("macb", "four-instructions-macb-rx", "gem_rx"),
    "e1000e": ("e1000e", "four-instructions-e1000e-rx", "e1000_receive_skb"),
}
# A limit on a function is judged on one board only: it reads the counts that all boards have alike.
LIMITED = "genet"


@pytest.fixture
def gate(tmp_path: Path, environment: Mapping[str, str]) -> Gate:
    """Return ``pinet gate --exact``, which gives the exit code and the output."""

    def gate(*words: str | Path) -> tuple[int, str]:
        plugins = ("-p", "no:cacheprovider")
        done = subprocess.run(
            [PINET, "gate", "--exact", *map(str, words), *plugins],
            cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=GATE_TIMEOUT_S, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return gate


def results(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / ".pinet/latest/results.json").read_text())["results"]
    return found


@pytest.mark.parametrize(
    "boards",
    [
        pytest.param(("genet", "r8152"), marks=pytest.mark.smoke),
        pytest.param(("macb", "e1000e"), marks=pytest.mark.slow),
    ],
)
def test_a_kernel_against_itself_is_equal_to_the_last_digit(
    gate: Gate, tmp_path: Path, boards: tuple[str, ...]
) -> None:
    code, out = gate(kernel_package(KERNEL, print), *(f"--pinet-nic={board}" for board in boards))
    assert code == 0, out
    # This run made the proofs, each of which counts as one boot: if a digit of its two boots differed, the exit code
    # would be 2.
    found = results(tmp_path)
    assert f"{len(found)} unchanged; {len(boards)} boots\n" in out
    assert {one["exact"]["nic"] for one in found} == set(boards)
    for one in found:
        exact, change = one["exact"], next(iter(one["change"]["directions"].values()))
        assert (exact["a"], change["change"], exact["functions"]) == (exact["b"], 0.0, []), one["id"]
        assert exact["a"]["instructions"] > 1000


@pytest.mark.parametrize(
    "board",
    [
        pytest.param(name, marks=pytest.mark.smoke if name in ("genet", "r8152") else pytest.mark.slow)
        for name in LONGER
    ],
)
def test_four_more_instructions_in_the_receive_path_are_found_and_named(gate: Gate, tmp_path: Path, board: str) -> None:
    driver, patch, name = LONGER[board]
    plain = patched_module(None, tmp_path / "plain", driver)
    longer = patched_module(patch, tmp_path / "longer", driver)
    # One boot of each decides: no window of an equal driver differs by so much.
    words = longer, f"--against={plain}", f"--pinet-nic={board}", "--pinet-instructions=50%", "--pinet-tolerance=60%"
    code, out = gate(*words)
    # With these limits, four instructions of ten thousand are no regression. They are listed.
    assert code == 0, out
    receive = next(one for one in results(tmp_path) if one["id"].endswith("/frame-60-rx"))
    # No other function of the driver changes at all.
    (function,) = (one for one in receive["exact"]["functions"] if one["module"] == driver)
    assert (function["name"], function["b"] - function["a"]) == (name, pytest.approx(4.0, abs=0.005))
    assert receive["exact"]["modules"] == [driver]
    line = next(line for line in out.splitlines() if line.startswith(f"{name} [{driver}]"))
    assert line.split()[-1] == "+4.00"
    if board == LIMITED:
        # With a limit on the function, they are one. No boot is needed: what both builds measured is known.
        code, out = gate(*words, f"--pinet-instructions={name}=0")
        assert code == 1
        assert f"misses the limit 0 instructions (--pinet-instructions {name}=0)" in out
        assert " 0 boots\n" in out


@pytest.mark.slow
def test_a_function_that_is_only_called_more_often_is_behind_the_one_that_calls_it(gate: Gate, tmp_path: Path) -> None:
    plain, calls = (patched_module(patch, tmp_path / str(patch), "e1000e") for patch in (None, "more-calls-e1000e-rx"))
    words = f"--against={plain}", "--pinet-nic=e1000e", "--pinet-instructions=50%", "--pinet-tolerance=60%"
    code, out = gate(calls, *words)
    assert code == 0, out
    receive = next(one for one in results(tmp_path) if one["id"].endswith("/frame-60-rx"))
    own = [one for one in receive["exact"]["functions"] if one["module"] == "e1000e"]
    caller, called = own
    assert [(one["name"], one["same_code"]) for one in own] == [("e1000_receive_skb", False), ("__ew32", True)]
    assert called["b"] - called["a"] > caller["b"] - caller["a"] > 4
    listed = [line.split()[0] for line in out.splitlines() if "[e1000e]" in line and line.split()[-1].startswith("+")]
    assert listed[:2] == ["e1000_receive_skb", "__ew32"]
    text = " ".join(out.split())
    assert "same code" in text
    assert "functions that changed: e1000_receive_skb [e1000e]" in text


def artefact(package: Path, folder: Path) -> Path:
    """Return a Debian kernel in the layout of an artefact of raspberrypi/linux. Its modules are compressed by xz."""
    subprocess.run(["dpkg-deb", "-x", package, folder / "package"], check=True)
    found = folder / "bcm2711_build"
    (found / "boot").mkdir(parents=True)
    (image,) = (folder / "package/boot").glob("vmlinuz-*")
    (found / "boot/kernel8.img").write_bytes(gzip.compress(image.read_bytes(), 1))
    (tree,) = folder.glob("package/**/lib/modules")
    shutil.copytree(tree, found / "lib/modules", symlinks=True)
    return found


@pytest.mark.slow
def test_an_artefact_is_measured_and_with_a_known_good_build_judged(gate: Gate, tmp_path: Path) -> None:
    folder = artefact(kernel_package("linux-image-6.12-arm64", print), tmp_path)
    assert list(folder.rglob("r8152.ko.xz")), "modules are packed by xz, as in an artefact"
    code, out = gate(folder, "--pinet-nic=r8152")
    assert (code, "is measured and not judged: its kernel is 6.12." in " ".join(out.split())) == (3, True), out
    # The proof of an exact board counts as one boot, and B has its values.
    assert " undecided; 1 boot\n" in out
    tar = tmp_path / "bcm2711_build.tar"
    with tarfile.open(tar, "w") as packing:
        packing.add(folder, ".")
    with zipfile.ZipFile(tmp_path / "bcm2711_build.zip", "w") as packed:
        packed.write(tar, tar.name)
    code, out = gate(tmp_path / "bcm2711_build.zip", f"--against={folder}", "--pinet-nic=r8152")
    # The folder and the zip with the tar are the same build, so nothing boots.
    assert (code, " unchanged; 0 boots\n" in out) == (0, True), out
    assert "the whole kernel differs" not in out
