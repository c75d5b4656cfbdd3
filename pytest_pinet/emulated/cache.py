"""The user's cache of cards and packages: one process at a time fills it, and what nobody needs any more goes."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_pinet.errors import LabError

KEPT = 3
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
# A card of a board whose lab is gone: a lab that runs writes to those of its boards, one that ends removes them.
FORGOTTEN_AFTER_S = 7 * 86_400.0


def cache() -> Path:
    """Where cards and packages are kept: ``$XDG_CACHE_HOME/pinet/emulated``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pinet" / "emulated"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A folder of the cache, for one process at a time; the others wait. Raises LabError where it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise _unwritable(folder, error) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> LabError:
    where = f" ({error.filename})" if error.filename else ""
    return LabError(
        f"what emulated boards are made of is kept in {folder}, and that cannot be written: {error.strerror}{where}",
        "make room there, or give another folder by XDG_CACHE_HOME",
    )


def forget_old(folder: Path) -> None:
    """Keep the cards that were used last: several checkouts of one user may each have a recipe of their own.

    Of the boards' own cards those go that a lab left behind which nobody stopped. Call it with the cache locked.
    """
    for draft in folder.glob("*.draft"):
        shutil.rmtree(draft, ignore_errors=True)
    found = sorted(folder.glob("*/card.img"), key=lambda path: path.stat().st_mtime)
    for image in found[:-KEPT]:
        shutil.rmtree(image.parent, ignore_errors=True)
    for lab in folder.glob("cards/*"):
        with suppress(OSError):
            last = max(path.stat().st_mtime for path in [lab, *lab.glob("*/card.img")])
            if last < time.time() - FORGOTTEN_AFTER_S:
                shutil.rmtree(lab)


def used(image: Path) -> None:
    """It is needed, so it is not among the old ones."""
    with suppress(OSError):  # of another user
        os.utime(image)
