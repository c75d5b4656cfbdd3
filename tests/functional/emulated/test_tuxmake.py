"""A kernel that TuxMake built is gated on emulated boards; its commit and its configuration stay with the result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.emulated.image import kernel_package
from tests.support.emulated_gate import NEEDS, EmulatedGate, card_or_skip, emulated_gate
from tests.support.kernel_tree import REPOSITORY, TUXMAKE, kernel_tree, run_tuxmake

pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    *NEEDS,
    pytest.mark.skipif(not TUXMAKE.exists(), reason="TuxMake is not installed"),
]
# Another release than the boards' own.
KERNEL = "linux-image-rt-arm64"


@pytest.fixture
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedGate]:
    yield from emulated_gate(tmp_path_factory)


def test_a_folder_of_tuxmake_is_gated(gate: EmulatedGate, tmp_path: Path) -> None:
    with card_or_skip():
        package = kernel_package(KERNEL, lambda _: None)
    commit = kernel_tree(tmp_path / "linux", package)
    run_tuxmake(tmp_path / "linux", tmp_path / "out")

    gate.switch(on=False)
    # The kernel with PREEMPT_RT may be slower.
    assert gate.run(str(tmp_path / "out"), "-k", "rx", "--boots=6") in (0, 1), gate.text

    assert f"kernel {next((tmp_path / 'linux/stock/lib/modules').iterdir()).name}" in gate.text
    source = gate.head["b"]["source"]
    assert source | {"compiler": ""} == {
        "made_by": "TuxMake",
        "place": str(tmp_path / "out"),
        "tree": REPOSITORY,
        "branch": "master",
        "commit": commit,
        "describe": "v6.99",
        "compiler": "",
        "config": "build-B.config",
    }
    kept = gate.project.path / ".pinet/latest" / source["config"]
    assert kept.read_text() == "CONFIG_ARM64=y\nCONFIG_MODULES=y\n"
    assert gate.project.pinet("report", "-o", "report.html").returncode == 0
    page = (gate.project.path / "report.html").read_text()
    assert f'href="{REPOSITORY}/commit/?id={commit}"' in page
