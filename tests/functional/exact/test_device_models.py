"""Device models and the real QEMU: it proves itself once, and its device tree gets the nodes of the model."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.evidence.fdt import cells, read_device_tree
from pytest_pinet.exact import device_models
from pytest_pinet.exact import qemu as compiling
from pytest_pinet.exact.board import ExactBoard
from pytest_pinet.exact.device_models import model_for
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.exact.qemu import PROGRAM, find_qemu

BOARDS = exact_boards()
GENET = BOARDS["genet"]
pytestmark = [
    pytest.mark.smoke,
    pytest.mark.emulated,
    pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="QEMU for arm64 is missing"),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PINET_QEMU", raising=False)


def test_this_qemu_proves_itself_once(monkeypatch: pytest.MonkeyPatch) -> None:
    qemu = find_qemu(GENET)
    model = model_for(GENET, qemu)
    assert model is not None
    monkeypatch.setattr(device_models, "_selftest", lambda *_: pytest.fail("it was proved already"))
    assert model_for(GENET, qemu) == model
    assert model_for(BOARDS["e1000e"], qemu) is None


def test_the_hash_knows_sources_flags_and_device_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    qemu = find_qemu(GENET)

    def digest(board: ExactBoard = GENET) -> str:
        found = model_for(board, qemu)
        assert found is not None
        return found.sha256

    first = digest()
    assert digest() == first
    assert digest(replace(GENET, machine=GENET.machine.for_pages(16))) != first
    assert GENET.nic.model is not None
    told = replace(GENET.nic, model=replace(GENET.nic.model, words=("chip=other",)))
    assert digest(replace(GENET, nic=told)) != first
    monkeypatch.setattr(compiling, "_FLAGS", (*compiling._FLAGS, "-DOTHER"))
    assert digest() != first


@pytest.mark.parametrize("name", [name for name, board in BOARDS.items() if board.nic.model is not None])
def test_the_device_tree_is_that_of_qemu_with_the_nodes_of_the_model(name: str) -> None:
    board = BOARDS[name]
    found = model_for(board, find_qemu(board))
    assert found is not None
    tree = read_device_tree(found.tree)
    assert board.nic.model is not None
    added = board.nic.model.nodes(tree)
    for path, node in added.items():
        assert node.items() <= tree[path].items() or "phandle" in node or "phy-handle" in node
    (gic,) = (node for node in tree.values() if node.get("compatible", b"").startswith(b"arm,cortex-a15-gic"))
    assert gic["#interrupt-cells"] == cells(3)
    # All of QEMU's own nodes are there.
    assert {"/memory@40000000", "/pl011@9000000", "/timer", "/cpus/cpu@0"} <= tree.keys()


def test_nothing_is_left_of_the_device_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    model_for(GENET, find_qemu(GENET))
    assert not list((tmp_path / "tmp").iterdir())
