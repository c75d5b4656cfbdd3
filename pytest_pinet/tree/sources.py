"""A git repository with the source of the kernel: its commits, and a checkout in the cache of pinet.

Nothing is written into the repository, its checkout or its index. The checkout shares the objects of the repository, as
after ``git clone --shared``, so a commit that appears there later is found here, too.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.emulated.image import Report, cache, locked
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.execution.files import exists, is_folder, write_file
from pytest_pinet.execution.git import git
from pytest_pinet.execution.names import nearest, quoted
from pytest_pinet.execution.shell import own_lines

# A checkout with its output takes 2 to 15 GB. One that was not used for this time is removed.
FORGOTTEN_AFTER_S = 30 * 86_400.0
# What each source tree of the kernel has at its top.
_OF_A_KERNEL = frozenset(("Kbuild", "MAINTAINERS", "Makefile"))
# A commit message has no NUL character.
_FORMAT = "--format=%x00%H%n%P%n%an <%ae>%n%s"
_LOG = (
    "-c", "core.quotePath=false", "log", "--no-show-signature", "--no-color", "--no-renames", "--cc", "--name-only",
    _FORMAT,
)  # fmt: skip


@dataclass(frozen=True)
class Commit:
    """A commit: its whole hash, its parents, and the files that it changes (of a merge: files with conflicts)."""

    id: str
    parents: tuple[str, ...]
    subject: str
    author: str
    files: tuple[str, ...]

    def __str__(self) -> str:
        return f'{self.id[:12]} ("{self.subject}")'


class Tree:
    """The repository at a path. Raises ConfigError if there is none.

    ``folder`` is its folder in the cache. The caller of ``checkout`` must hold ``locked``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not is_folder(path):
            raise ConfigError(f"there is no folder {path}; expected a git repository with the source of the kernel")
        # Of a worktree, these are the objects of its repository.
        self._objects = Path(self._ask("rev-parse", "--path-format=absolute", "--git-path", "objects").rstrip("\n"))
        home = self._objects.parent
        # make accepts neither spaces nor colons in a path.
        name = re.sub(r"[^\w.-]", "_", home.parent.name if home.name == ".git" else home.name)
        key = hashlib.sha256(os.fsencode(self._objects)).hexdigest()[:8]
        self.folder = cache().parent / "trees" / f"{name}-{key}"

    def resolve(self, ref: str) -> str:
        """Return the whole hash of a commit of the kernel. Raises ConfigError."""
        done = git(self.path, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        if done.returncode or not re.match(r"[^-\s]", ref):
            refs = self._ask("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes")
            near = nearest(ref, refs.split())
            hint = f", did you mean '{near}'?" if near else "; expected a tag, a branch or a hash"
            raise ConfigError(f"{self.path} has no commit {quoted(ref)}{hint}")
        found = done.stdout.strip()
        lacking = _OF_A_KERNEL.difference(self._ask("ls-tree", "--name-only", found).split("\n"))
        if lacking:
            raise ConfigError(
                f"commit {found[:12]} of {self.path} is no source of the kernel: it has no {', '.join(sorted(lacking))}"
            )
        return found

    def commit(self, commit: str) -> Commit:
        """Return a commit by its whole hash."""
        (found,) = self._commits("--max-count=1", commit)
        return found

    def candidates(self, good: str, bad: str) -> list[Commit]:
        """Return the commits of ``good..bad`` (whole hashes), merges included, each one behind its parents.

        Raises ConfigError if ``good`` is not an ancestor of ``bad``.
        """
        if good == bad:
            raise ConfigError(f"the good and the bad commit are the same, {good[:12]}; name two commits")
        if git(self.path, "merge-base", "--is-ancestor", good, bad).returncode:
            base = git(self.path, "merge-base", good, bad).stdout.strip()
            act = f"if {base[:12]}, their merge base, is good, name it" if base else "they have no common ancestor here"
            if self._ask("rev-parse", "--is-shallow-repository").strip() == "true":
                act += "; this clone is shallow, so fetch the missing commits first (git fetch --unshallow)"
            raise ConfigError(f"the good commit {good[:12]} is not an ancestor of the bad commit {bad[:12]}; {act}")
        return self._commits("--topo-order", "--reverse", f"{good}..{bad}")

    def file(self, commit: str, path: str) -> str | None:
        """Return the text of a file in a commit; None if the commit does not have it."""
        done = git(self.path, "cat-file", "blob", f"{commit}:{path}")
        return done.stdout if done.returncode == 0 else None

    def names(self, commit: str, folder: str) -> list[str]:
        """Return the names of what a folder has in a commit; none for a folder that does not exist."""
        return git(self.path, "ls-tree", "--name-only", f"{commit}:{folder}").stdout.split("\n")[:-1]

    def locked(self, say: Report) -> AbstractContextManager[int]:
        """Lock the folder in the cache for this process; yields the descriptor of the lock. Raises LabError."""
        _forget(self.folder)
        return locked(self.folder, say)

    def checkout(self, commit: str) -> Path:
        """Return the folder with the source of a commit, and nothing else. Raises LabError.

        Files that do not differ from the ones of the last commit stay, so that make compiles only what changed.
        """
        repository, source = self.folder / "git", self.folder / "source"
        source.mkdir(exist_ok=True)
        own = [f"--git-dir={repository}", f"--work-tree={source}", "-c", "core.fsmonitor=false"]
        if not exists(repository / "HEAD"):
            self._own("init", "--quiet", "--bare", "--template=", str(repository))
        write_file(repository / "objects/info/alternates", [os.fsencode(self._objects) + b"\n"])
        unfinished = repository / "index.lock"
        if exists(unfinished):
            # An earlier process was killed in the middle, and left files that no index lists.
            unfinished.unlink()
            self._own(*own, "clean", "-ffdxq")
        self._own(*own, "read-tree", "--reset", "-u", commit)
        return source

    def _commits(self, *words: str) -> list[Commit]:
        text = self._ask(*_LOG, *words)
        found = []
        for record in text.split("\0")[1:]:
            commit, parents, author, subject, *files = record.split("\n")
            found.append(Commit(commit, tuple(parents.split()), subject, author, tuple(filter(None, files))))
        return found

    def _ask(self, *words: str) -> str:
        done = git(self.path, *words)
        if done.returncode == 0:
            return done.stdout
        if "not a git repository" in done.stderr:
            raise ConfigError(f"{self.path} is not a git repository; expected a clone of the source of the kernel")
        raise ConfigError(f"git cannot read {self.path}: {_why(done)}")

    def _own(self, *words: str) -> None:
        """Run git in the cache, without the user's configuration: filters, hooks, line ends."""
        try:
            done = git(self.folder, *words, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")
        except ConfigError as error:
            raise LabError(str(error)) from None
        if done.returncode:
            raise LabError(
                f"the source of the kernel cannot be checked out in {self.folder}: {_why(done)}",
                "free disk space there, or set XDG_CACHE_HOME to another folder; a partial clone lacks files",
            )


def _why(done: subprocess.CompletedProcess[str]) -> str:
    """Return git's reason, which more lines with advice may follow."""
    lines = own_lines(done.stderr)
    return next((line for line in lines if line.startswith(("fatal:", "error:"))), *lines[-1:] or ["no message"])


def _forget(wanted: Path) -> None:
    """Remove the checkouts of other repositories that were not used for a long time."""
    for lock in wanted.parent.glob("*/lock"):
        with suppress(OSError, LabError):
            if lock.parent != wanted and lock.stat().st_mtime < time.time() - FORGOTTEN_AFTER_S:
                with locked(lock.parent, timeout_s=0):
                    shutil.rmtree(lock.parent)
