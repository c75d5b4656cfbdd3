"""The folders in which the console blocks of the pages run, by the mark of the block.

A setting fills the folder of a block, and yields variables of the environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from pytest_pinet.init import lab_file
from pytest_pinet.init.answers import Answers
from pytest_pinet.init.desk import Wishes, plan
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.report.run_folder import write_json
from tests.support import build_files as made
from tests.support.change_records import change_run, compared
from tests.support.console_blocks import ROOT
from tests.support.half_year_history import half_year, keep
from tests.support.init_machines import direct, machine
from tests.support.maintainer_tree import commit_usb, maintainer_tree

BIN = Path(sys.executable).parent
# The settings of git: a person, and an editor that writes the message of a commit.
GIT = {"GIT_EDITOR": "echo Losses >", "GIT_CONFIG_COUNT": "2"}
GIT |= {"GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Jo Doe"}
GIT |= {"GIT_CONFIG_KEY_1": "user.email", "GIT_CONFIG_VALUE_1": "jo@example.org"}


def keep_runs(folder: Path, runs: list[RunRecord]) -> None:
    """Keep nightly runs in a checkout, of which the last one is also a file."""
    (folder / ".pinet").mkdir()
    lab = (ROOT / "lab" / "virtual.yaml").read_text(encoding="utf-8")
    (folder / "lab.yaml").write_text(lab.replace("name: virtual", f"name: {runs[-1].lab}"), encoding="utf-8")
    keep(runs, str(folder / ".pinet" / "history.db"))
    keep_run(folder, runs[-1])
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)


def keep_run(folder: Path, run: RunRecord) -> None:
    newest = folder / ".pinet" / "runs" / run.run
    newest.mkdir(parents=True)
    write_json(newest / "results.json", run)
    (folder / ".pinet" / "latest").symlink_to(newest)


@contextmanager
def with_a_history(folder: Path) -> Iterator[Mapping[str, str]]:
    keep_runs(folder, half_year(1, runs=40))
    yield {}


@contextmanager
def with_a_loss(folder: Path) -> Iterator[Mapping[str, str]]:
    """pi4b:onboard loses 5 % in run 60."""
    keep_runs(folder, half_year(1, runs=80))
    yield {}


@contextmanager
def with_a_lab_file(folder: Path) -> Iterator[Mapping[str, str]]:
    """A lab file, and nothing that runs."""
    shutil.copy(ROOT / "lab" / "virtual.yaml", folder / "my-bench.yaml")
    yield {}


@contextmanager
def with_two_shards(folder: Path) -> Iterator[Mapping[str, str]]:
    """Two jobs of one gate, which brought their run folders."""
    for board in ("pi4b", "pi5"):
        shard = folder / "shards" / board
        shard.mkdir(parents=True)
        results = [compared(f"{board}:onboard/pair", "rx", 0.0, "same")]
        write_json(shard / "results.json", change_run(results, shards=2, error_rate=0.01, session=board))
    yield {}


@contextmanager
def with_a_kernel_tree(folder: Path) -> Iterator[Mapping[str, str]]:
    """A tree, a build of its newest commit, and a run that found a slower kernel."""
    tree = maintainer_tree(folder / "linux")
    commit = commit_usb(tree)
    made.write(folder / "out", {"build.yaml": f"modules: [r8152.ko]\nsource: {{commit: '{commit}'}}\n".encode()})
    made.write(folder / "out", {"r8152.ko": made.module("r8152")})
    keep_run(folder, change_run([compared("pi4b:onboard/pair", "rx", -0.03, "slower")]))
    yield {}


@contextmanager
def with_two_kernels(folder: Path) -> Iterator[Mapping[str, str]]:
    """Two folders as a kernel tree leaves them, and the lab file of a desk."""
    for name in ("out", "good"):
        release = f"6.12.25-{name}"
        vermagic = made.VERMAGIC.replace(made.RELEASE, release)
        modules = made.tree(release, e1000e=made.module("e1000e", vermagic))
        trees = {"dtbs/broadcom/bcm2711-rpi-4-b.dtb": made.device_tree()}
        made.write(folder / name, {"Image": made.image(release, vermagic=vermagic), **modules, **trees})
    desk = plan([machine("pi4b")], machine("pc", None), Wishes(), Answers(is_terminal=False), direct)
    lab_file.write(str(folder / "desk.yaml"), lab_file.desk_text(desk, "desk.yaml"))
    yield {}


@contextmanager
def with_a_pushgateway(folder: Path) -> Iterator[Mapping[str, str]]:
    """A history, and a proxy of curl that takes what a Pushgateway takes."""
    keep_runs(folder, half_year(1, runs=40))
    subprocess.run(["git", "commit", "--quiet", "--allow-empty"], cwd=folder, env={**os.environ, **GIT}, check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), Pushgateway) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield {"http_proxy": f"http://127.0.0.1:{server.server_port}", "no_proxy": ""}
        finally:
            server.shutdown()
            thread.join()


class Pushgateway(BaseHTTPRequestHandler):
    """Takes values of pinet at the address of a job and a lab, and nothing else."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        fits = self.path.endswith(":9091/metrics/job/pinet/lab/bench") and b"\npinet_goodput_bits" in self.body()
        self.send_response(200 if fits else 400)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers["Content-Length"]))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def with_a_virtual_lab(folder: Path) -> Iterator[Mapping[str, str]]:
    """A virtual lab of its own, whose slow links even a busy machine can fill."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    text = (ROOT / "lab" / "virtual.yaml").read_text(encoding="utf-8")
    (folder / "lab.yaml").write_text(text.replace("scale: auto", "scale: 0.1"), encoding="utf-8")
    try:
        yield {}
    finally:
        subprocess.run([BIN / "pinet", "lab", "down", "--lab", folder / "lab.yaml"], check=True)


SETTINGS: Mapping[str, Callable[[Path], AbstractContextManager[Mapping[str, str]]]] = {
    "with a history": with_a_history,
    "with a loss": with_a_loss,
    "with a lab file": with_a_lab_file,
    "with two shards": with_two_shards,
    "with a kernel tree": with_a_kernel_tree,
    "with two kernels": with_two_kernels,
    "with a Pushgateway": with_a_pushgateway,
    "with a virtual lab": with_a_virtual_lab,
}
