"""Files of kernels and of trees of modules that the exact gate reads: see `targets`."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from pytest_pinet.builds.load import load_build
from pytest_pinet.builds.tree import built_in_modules, built_in_texts
from pytest_pinet.errors import PinetError
from pytest_pinet.exact.kernel_config import NEEDED, require_config
from pytest_pinet.model.build import Build
from tests.support import build_files as made
from tools.fuzz.more_targets import PARTS
from tools.fuzz.target import SCRATCH, Target

CONFIG = "".join(f"{name}=y\n" for name in NEEDED).encode()
BUILT_IN = b"kernel/net/core/pktgen.ko\nkernel/drivers/net/ethernet/intel/e1000e/e1000e.ko\n"
MODINFO = b"e1000e.parmtype=debug:int\0e1000e.parm=debug:Debug level\0virtio_net.license=GPL\0"
ORDER = b"drivers/net/e1000e.o\nkernel/net/core/pktgen.ko\n"
RELEASE = f"{made.RELEASE}\n".encode()


@cache
def _output() -> tuple[Path, Build]:
    """Return a folder in which make has built a kernel, and its build."""
    folder = made.write(
        SCRATCH / "output",
        {
            "include/config/kernel.release": RELEASE,
            "arch/arm64/boot/Image": made.image(),
            "modules.order": ORDER,
            "drivers/net/e1000e.ko": made.module("e1000e"),
            "net/core/pktgen.ko": made.module("pktgen"),
        },
    )
    return folder, load_build(str(folder))


def _kernel_config(data: bytes) -> None:
    folder, build = _output()
    in_tree, _, in_image = data.partition(PARTS)
    (folder / ".config").write_bytes(in_tree)
    for image in (b"", b"IKCFG_ST" + in_image + b"IKCFG_ED", data):
        with suppress(PinetError):
            require_config(build, image)


def _built_in(data: bytes) -> None:
    folder = SCRATCH / "built-in"
    names, _, texts = data.partition(PARTS)
    tree = f"lib/modules/{made.RELEASE}"
    files = {**made.tree(), f"{tree}/modules.builtin": names, f"{tree}/modules.builtin.modinfo": texts}
    options = b"options: {e1000e: {debug: 1}, virtio_net: {napi_weight: 1}}\n"
    made.write(folder, {"Image": made.image(), **files, "build.yaml": b"kernel: Image\nmodules: lib\n" + options})
    built_in_modules(folder / tree)
    built_in_texts(folder / tree)
    load_build(str(folder))


def _make_output(data: bytes) -> None:
    folder = SCRATCH / "made"
    release, _, order = data.partition(PARTS)
    if not folder.exists():
        shutil.copytree(_output()[0], folder)
    made.write(folder, {"include/config/kernel.release": release, "modules.order": order})
    load_build(str(folder))


BUILDS: Mapping[str, Target] = {
    "kernel configuration": Target(lambda: [CONFIG + PARTS + gzip.compress(CONFIG, mtime=0)], _kernel_config),
    "modules.builtin": Target(lambda: [BUILT_IN + PARTS + MODINFO], _built_in),
    "make output": Target(lambda: [RELEASE + PARTS + ORDER], _make_output),
}
