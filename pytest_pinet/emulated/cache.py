"""The user's cache of cards and packages. One process at a time fills the cache; unused entries are removed."""

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
# A card of a board that was not written to for this time is abandoned. A running lab writes to the cards of its
# boards, and a lab that ends removes them.
FORGOTTEN_AFTER_S = 7 * 86_400.0


def cache() -> Path:
    """Return the folder of cards and packages: ``$XDG_CACHE_HOME/pinet/emulated``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pinet" / "emulated"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder of the cache for this process; other processes wait. Raises LabError if it cannot be written."""
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
        f"{folder}, the cache for emulated boards, cannot be written: {error.strerror}{where}",
        "free disk space there, or set XDG_CACHE_HOME to another folder",
    )


def forget_old(folder: Path) -> None:
    """Remove old cards. Keep the last used ones, since several checkouts of one user may each have another recipe.

    Also remove the boards' cards of labs that were never stopped. The caller must have locked the cache.
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
    """Mark a card as recently used, so that ``forget_old`` keeps it."""
    with suppress(OSError):  # the card belongs to another user
        os.utime(image)
