"""Builds as TuxMake and KernelCI leave them, and a web server that has them."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.support import build_files as made

# Written by TuxMake 1.45.0 for a tree whose targets copy the files of tests/support/build_files.py.
TUXMAKE = Path(__file__).parents[1] / "data" / "artefacts" / "tuxmake-1.45.0.json"
TREE = "dtbs/broadcom/bcm2711-rpi-4-b.dtb"
COMMIT = "308d78f1385d6da2716d74aaec2160a521f2572e"


def tuxmake_folder(folder: Path) -> Path:
    """Make the output folder of TuxMake."""
    made.write(folder, {"Image.gz": gzip.compress(made.image()), "config": b"CONFIG_MODULES=y\n", "build.log": b""})
    (folder / "modules.tar.xz").write_bytes(lzma.compress(made.tar(made.tree())))
    (folder / "dtbs.tar.xz").write_bytes(lzma.compress(made.tar({TREE: made.device_tree()})))
    shutil.copy(TUXMAKE, folder / "metadata.json")
    return folder


def kernelci_folder(folder: Path, address: str | None = None) -> Path:
    """Make the folder of KernelCI's backend "make"; with ``address`` as it is stored for downloads.

    kernelci/kbuild.py writes the metadata (``_write_metadata``, ``_update_metadata``).
    """
    other = "dtbs/rockchip/rk3399-rock-pi-4b.dtb"
    made.write(folder, {"Image": made.image(), ".config": b"CONFIG_MODULES=y\n", "vmlinux": b"", "build.log": b""})
    made.write(folder, {TREE: made.device_tree(), other: made.device_tree()})
    (folder / "modules.tar.xz").write_bytes(lzma.compress(made.tar(made.tree())))
    build = {"arch": "arm64", "compiler": "gcc-12", "defconfig": "defconfig", "fragments": [], "srcdir": "/tmp/kci"}
    data: dict[str, Any] = {"build": {**build, "config_full": "defconfig", "backend": "make"}}
    if address is not None:
        names = ("Image", ".config", "modules.tar.xz", TREE, other)
        data["artifacts"] = {name: f"{address}/{folder.name}/{name}" for name in names}
        data["build"]["result"] = "pass"
    (folder / "metadata.json").write_text(json.dumps(data))
    return folder


def kernelci_node(folder: Path, address: str) -> dict[str, Any]:
    """Return the node of KernelCI's API for a folder of ``kernelci_folder``."""
    names = {"kernel": "Image", "modules": "modules.tar.xz", "_config": ".config", TREE.replace(".dtb", "_dtb"): TREE}
    revision = {
        "tree": "mainline",
        "url": "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git",
        "branch": "master",
        "commit": COMMIT,
        "describe": "v6.12-rc7-3-g308d78f1385d",
    }
    return {
        "id": "6710a3c2",
        "kind": "kbuild",
        "result": "pass",
        "data": {"arch": "arm64", "compiler": "gcc-12", "kernel_revision": revision},
        "artifacts": {key: f"{address}/{folder.name}/{name}" for key, name in names.items()},
    }


class _Quiet(SimpleHTTPRequestHandler):
    requests: list[str]

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def send_response(self, code: int, message: str | None = None) -> None:
        self.requests.append(f"{self.command} {self.path} {int(code)}")
        super().send_response(code, message)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a folder. Yield its address, and a list to which each request is added."""
    requests: list[str] = []
    handler = partial(type("Handler", (_Quiet,), {"requests": requests}), directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
            thread.join()
