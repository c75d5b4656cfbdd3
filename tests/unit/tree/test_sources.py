"""The commits of a user's kernel tree, and the checkout in the cache. The tree itself is only read."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.tree.sources import FORGOTTEN_AFTER_S, Tree
from tests.support.kernel_repository import KernelRepository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelRepository:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return KernelRepository(tmp_path / "linux")


def checked_out(tree: Tree, commit: str) -> dict[str, str]:
    """Check a commit out, and return the texts of all files."""
    with tree.locked(print):
        source = tree.checkout(commit)
    return {
        str(path.relative_to(source)): path.read_text(errors="replace") for path in source.rglob("*") if path.is_file()
    }


def test_a_checkout_has_the_files_of_the_commit_and_leaves_the_repository_as_it_is(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = repository.commit("v2", {"drivers/a.c": "changed\n", "drivers/new.c": "new\n"})
    # An index that is older than a file is what `git status` refreshes.
    os.utime(repository.folder / "drivers/b.c")
    # As in a hook of git.
    monkeypatch.setenv("GIT_DIR", str(repository.folder / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository.folder / ".git/index"))
    before = repository.state()
    tree = Tree(repository.folder)
    assert checked_out(tree, second)["drivers/a.c"] == "changed\n"
    first = tree.resolve("v1")
    found = checked_out(tree, first)
    assert found["drivers/a.c"] == "a\n"
    assert "drivers/new.c" not in found
    tree.candidates(first, second)
    assert repository.state() == before


def test_a_file_that_does_not_differ_keeps_its_time(repository: KernelRepository) -> None:
    second = repository.commit("v2", {"drivers/a.c": "changed\n"})
    tree = Tree(repository.folder)
    checked_out(tree, second)
    unchanged = tree.folder / "source/drivers/b.c"
    before = unchanged.stat().st_mtime_ns
    checked_out(tree, tree.resolve("v1"))
    assert unchanged.stat().st_mtime_ns == before


def test_a_commit_that_appears_later_is_found(repository: KernelRepository) -> None:
    tree = Tree(repository.folder)
    checked_out(tree, tree.resolve("v1"))
    later = repository.commit("later", {"drivers/a.c": "later\n"})
    assert checked_out(tree, tree.resolve("later"))["drivers/a.c"] == "later\n"
    assert tree.resolve(later[:10]) == later


def test_worktrees_and_bare_clones_are_trees_and_worktrees_share_the_checkout(
    repository: KernelRepository, tmp_path: Path
) -> None:
    repository.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "other"), "v1")
    repository.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))
    assert Tree(tmp_path / "other").folder == Tree(repository.folder).folder
    bare = Tree(tmp_path / "bare.git")
    assert bare.folder.name.startswith("bare.git-")
    assert checked_out(bare, bare.resolve("v1"))["drivers/a.c"] == "a\n"


def test_a_shallow_clone_can_be_checked_out(repository: KernelRepository, tmp_path: Path) -> None:
    repository.commit("v2", {"drivers/a.c": "changed\n"})
    repository.git("clone", "--quiet", "--depth=1", f"file://{repository.folder}", str(tmp_path / "shallow"))
    shallow = Tree(tmp_path / "shallow")
    assert checked_out(shallow, shallow.resolve("HEAD"))["drivers/a.c"] == "changed\n"


def test_a_checkout_that_was_killed_in_the_middle_is_completed(repository: KernelRepository) -> None:
    tree = Tree(repository.folder)
    commit = tree.resolve("v1")
    whole = checked_out(tree, commit)
    # What a killed git leaves: its lock, files of the new commit, half-written ones and missing ones.
    (tree.folder / "git/index.lock").touch()
    (tree.folder / "source/drivers/stray.c").write_text("of another commit\n")
    (tree.folder / "source/drivers/a.c").write_text("hal")
    (tree.folder / "source/drivers/b.c").unlink()
    assert checked_out(tree, commit) == whole


def test_candidates_are_the_commits_behind_their_parents_with_merges(repository: KernelRepository) -> None:
    first = repository.git("rev-parse", "v1")
    repository.git("checkout", "--quiet", "-b", "side")
    side = repository.commit("side-1", {"drivers/ä b.c": "x\n"})
    repository.git("checkout", "--quiet", "main")
    main = repository.commit("main-1", {"drivers/a.c": "y\n", "drivers/b.c": "y\n"})
    repository.git("merge", "--quiet", "--no-ff", "--message", "Merge side", "side")
    merge = repository.git("rev-parse", "HEAD")
    repository.git("config", "log.showSignature", "true")
    repository.git("config", "color.ui", "always")
    found = Tree(repository.folder).candidates(first, merge)
    assert {one.id for one in found[:2]} == {side, main}
    by_id = {one.id: one for one in found}
    assert found[2].id == merge
    assert set(found[2].parents) == {main, side}
    assert found[2].files == ()
    assert by_id[main].files == ("drivers/a.c", "drivers/b.c")
    assert by_id[side].files == ("drivers/ä b.c",)
    assert by_id[main].parents == (first,)
    assert (by_id[main].subject, by_id[main].author) == ("main-1: a change", "A. Developer <dev@example.com>")
    assert str(by_id[main]) == f'{main[:12]} ("main-1: a change")'


def test_mistakes_are_one_sentence(repository: KernelRepository, tmp_path: Path) -> None:
    tree = Tree(repository.folder)
    first = tree.resolve("v1")
    second = repository.commit("v2", {"drivers/a.c": "changed\n"})
    repository.git("checkout", "--quiet", "--orphan", "papers")
    repository.git("rm", "-rfq", ".")
    papers = repository.commit("papers-1", {"paper.txt": ""})
    (tmp_path / "plain").mkdir()
    where = re.escape(str(repository.folder))
    with pytest.raises(ConfigError, match=r"^there is no folder /nowhere; expected a git repository"):
        Tree(Path("/nowhere"))
    with pytest.raises(ConfigError, match=r"/plain is not a git repository; expected a clone of the source of the k"):
        Tree(tmp_path / "plain")
    with pytest.raises(ConfigError, match=rf"^{where} has no commit 'mian', did you mean 'main'\?$"):
        tree.resolve("mian")
    for wrong in ("--all", "", " ", "v1:Makefile"):
        with pytest.raises(ConfigError, match=r"has no commit '.*'"):
            tree.resolve(wrong)
    with pytest.raises(
        ConfigError, match=rf"^commit {papers[:12]} of {where} is no source of the kernel: it has no Kb"
    ):
        tree.resolve("papers")
    with pytest.raises(ConfigError, match=r"are the same, \w{12}; name two commits$"):
        tree.candidates(first, first)
    with pytest.raises(
        ConfigError, match=rf"is not an ancestor of the bad commit {first[:12]}; if {first[:12]}, their"
    ):
        tree.candidates(second, first)
    with pytest.raises(ConfigError, match=r"is not an ancestor .*; they have no common ancestor here$"):
        tree.candidates(papers, second)


def test_only_checkouts_that_were_not_used_for_a_month_are_removed(repository: KernelRepository) -> None:
    tree = Tree(repository.folder)
    old, held, young = (tree.folder.parent / name for name in ("old", "held", "young"))
    for folder in (old, held, young):
        folder.mkdir(parents=True)
        (folder / "lock").touch()
    last = time.time() - FORGOTTEN_AFTER_S - 10
    with subprocess.Popen(["flock", held / "lock", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdin.write(b"locked\n")
        holder.stdin.flush()
        holder.stdout.readline()
        for folder in (old, held):
            os.utime(folder / "lock", (last, last))
        with tree.locked(print):
            assert not old.exists()
            assert held.exists()
            assert young.exists()
        holder.stdin.close()
