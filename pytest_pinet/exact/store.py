"""The cache of exact boots, under the hash of everything that they depend on. Several gates may use it at once."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter

from pytest_pinet.emulated.image import cache, locked
from pytest_pinet.execution.files import write_file
from pytest_pinet.model.exact import ExactBoot, MadeExactBoot

# A change of the JSON form, or of the names of functions, makes all cached boots invalid.
VERSION = 4
_BOOT = TypeAdapter(ExactBoot)
# Boots that the cache keeps; each has about 100 kB.
KEPT = 200
# A boot that was used within this time is kept in any case, since a gate may just wait for it.
USED_S = 86_400.0


def exact_cache() -> Path:
    """Return the folder of exact boots, plugins and QEMU: ``$XDG_CACHE_HOME/pinet/exact``."""
    return cache().with_name("exact")


def key_of(*parts: str) -> str:
    """Return the key of a boot: the hash of all parts that decide its values."""
    return hashlib.sha256(json.dumps([VERSION, *parts]).encode()).hexdigest()[:32]


def known_boot(key: str) -> ExactBoot | None:
    """Return the boot with this key if the cache has it. A damaged entry counts as missing."""
    try:
        boot = loads(gzip.decompress(_file(key).read_bytes()))
    except (OSError, EOFError, ValueError):
        return None
    with suppress(OSError):  # a cache of another user
        os.utime(_file(key).parent)
    return boot


def boot_once(key: str, run: Callable[[], ExactBoot], say: Callable[[str], None] = lambda _: None) -> MadeExactBoot:
    """Return the boot with this key. If the cache lacks it, ``run`` makes it; another process waits for that.

    ``say`` gets the process for which this one waits. Raises LabError if the cache cannot be written, or if the other
    process does not end.
    """
    if (known := known_boot(key)) is not None:
        return MadeExactBoot(known, 0.0, cached=True)
    with locked(_file(key).parent, say):
        if (known := known_boot(key)) is not None:
            return MadeExactBoot(known, 0.0, cached=True)
        started = time.monotonic()
        boot = run()
        seconds = time.monotonic() - started
        write_file(_file(key), [gzip.compress(dumps(boot), mtime=0)])
    _prune()
    return MadeExactBoot(boot, seconds)


def _file(key: str) -> Path:
    return exact_cache() / "boots" / key / "boot.json.gz"


def _prune() -> None:
    with suppress(OSError):  # another process prunes, too
        found = sorted((exact_cache() / "boots").iterdir(), key=lambda path: path.stat().st_mtime)
        for folder in found[:-KEPT]:
            if folder.stat().st_mtime < time.time() - USED_S:
                shutil.rmtree(folder, ignore_errors=True)


def dumps(boot: ExactBoot) -> bytes:
    """Return a boot as JSON text."""
    return _BOOT.dump_json(boot, indent=1)


def loads(text: bytes) -> ExactBoot:
    """Return the boot of a JSON text. Raises ValueError."""
    return _BOOT.validate_json(text)
