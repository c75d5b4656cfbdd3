"""Reads a build's files again for a board, and checks that they still have the hashes from the start of the run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.builds.tree import hash_tree
from pytest_pinet.errors import ChangedBuildError
from pytest_pinet.model.build import BuildFile


@dataclass(frozen=True)
class BuildSnapshot:
    """A file that must still have the content that it had when its build was read."""

    path: Path
    sha256: str

    @classmethod
    def of(cls, file: BuildFile) -> BuildSnapshot:
        """Return the snapshot of a single file of a build; use ``of_tree`` for a tree."""
        return cls(Path(file.path), file.sha256)

    def read(self) -> bytes:
        """Return the file's content. Raises ChangedBuildError if it has changed or is gone."""
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise _gone(self.path, error) from None
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise _changed(self.path)
        return data


def of_tree(tree: BuildFile) -> dict[str, BuildSnapshot]:
    """Return the files of a tree of modules by their path in it. Raises ChangedBuildError if the tree has changed."""
    root = Path(tree.path)
    try:
        hashes, digest, _ = hash_tree(root)
    except OSError as error:
        raise _gone(root, error) from None
    if digest != tree.sha256:
        raise _changed(root)
    return {name: BuildSnapshot(root / name, sha256) for name, sha256 in hashes.items()}


def size_of(path: Path) -> int:
    """Return the size of a build's file in bytes. Raises ChangedBuildError if the file is gone."""
    try:
        return path.stat().st_size
    except OSError as error:
        raise _gone(path, error) from None


def _gone(path: Path, error: OSError) -> ChangedBuildError:
    return ChangedBuildError(f"{path} cannot be read any more ({error.strerror})")


def _changed(path: Path) -> ChangedBuildError:
    return ChangedBuildError(
        f"{path} changed during this run, so the results would be of two different builds; "
        "do not change a build during a run, or test a copy"
    )
