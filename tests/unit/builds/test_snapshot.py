"""A board gets exactly the files that were hashed when the build was read, or the run ends with an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.builds.tree import BuildSnapshot, of_tree
from pytest_pinet.errors import ChangedBuildError
from pytest_pinet.model.build import Build, BuildFileRole
from tests.support import build_files as made

TREE = f"lib/modules/{made.RELEASE}"
MODULE = f"{TREE}/kernel/drivers/net/e1000e.ko"


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made.write(tmp_path / "new", {"Image": made.image(), **made.tree(made.RELEASE, e1000e=made.module("e1000e"))})
    return load_build(str(tmp_path / "new"))


def test_unchanged_files_are_read_again(build: Build, tmp_path: Path) -> None:
    assert BuildSnapshot.of(build.of(BuildFileRole.KERNEL)[0]).read() == made.image()
    files = of_tree(build.of(BuildFileRole.MODULES)[0])
    assert files["kernel/drivers/net/e1000e.ko"].read() == (tmp_path / "new" / MODULE).read_bytes()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda path: path.write_bytes(b"other"), "changed during this run, so the results would be of two"),
        (lambda path: path.unlink(), r"cannot be read any more \(No such file or directory\)"),
    ],
)
def test_a_changed_file_is_an_error(build: Build, change: Callable[[Path], object], sentence: str) -> None:
    (kernel,) = build.of(BuildFileRole.KERNEL)
    change(Path(kernel.path))
    with pytest.raises(ChangedBuildError, match=f"^{kernel.path} {sentence}"):
        BuildSnapshot.of(kernel).read()


@pytest.mark.parametrize(
    "change", [lambda path: path.write_bytes(b"other"), lambda path: path.unlink(), lambda path: path.rename("x.ko")]
)
def test_a_changed_tree_is_an_error(
    build: Build, tmp_path: Path, change: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    change(tmp_path / "new" / MODULE)
    with pytest.raises(ChangedBuildError, match=f"{TREE} changed during this run"):
        of_tree(build.of(BuildFileRole.MODULES)[0])
