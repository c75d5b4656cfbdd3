"""Compiles plugins of QEMU with ``cc``, once for each version of their sources and of QEMU's plugin interface."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pytest_pinet.emulated.image import locked
from pytest_pinet.errors import CapabilityError, LabError
from pytest_pinet.exact.store import exact_cache
from pytest_pinet.execution.tool import output

COMPILE_S = 60.0
# Warnings change no plugin: another compiler may have others.
_FLAGS = ("-shared", "-fPIC", "-pthread", "-O2")


def compiled(sources: Mapping[str, bytes], api: int) -> tuple[Path, str]:
    """Return the plugin of these sources, the first of which includes the others, and the hash of all it was made of.

    Raises CapabilityError if this machine cannot compile it, LabError if the cache is unusable.
    """
    flags = [*_FLAGS, f"-DAPI={api}"]
    made_of = [*flags, sys.platform, os.uname().machine]
    whole = hashlib.sha256("\0".join(made_of).encode())
    for name, text in sorted(sources.items()):
        whole.update(b"\0" + name.encode() + b"\0" + text)
    digest = whole.hexdigest()
    first = next(iter(sources))
    kept = exact_cache() / f"{Path(first).stem}-{api}-{digest[:16]}.so"
    if kept.is_file():
        return kept, digest
    compiler = shutil.which("cc")
    if compiler is None:
        raise CapabilityError("this machine has no C compiler: `apt install gcc libc6-dev`")
    with locked(exact_cache()), tempfile.TemporaryDirectory(dir=exact_cache()) as folder:
        for name, text in sources.items():
            (Path(folder) / name).write_bytes(text)
        draft = Path(folder) / "plugin.so"
        try:
            output([compiler, *flags, "-o", str(draft), str(Path(folder) / first)], COMPILE_S)
        except LabError as error:
            raise CapabilityError(f"{first} was not compiled: {error.message}") from None
        draft.replace(kept)
    return kept, digest
