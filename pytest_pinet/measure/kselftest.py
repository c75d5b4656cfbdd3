"""Packs the kernel's selftests, runs one on two ends of a link, and records its TAP."""

from __future__ import annotations

import platform
import shlex
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_pinet.errors import CapabilityError, ConfigError, LabError, UnsupportedError
from pytest_pinet.evidence.build import read_build
from pytest_pinet.execution.files import is_file, is_folder
from pytest_pinet.execution.shell import Completed, Shell, as_root, last_line
from pytest_pinet.execution.trace import doing
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.judge.ktap import read_ktap
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.path_setup import set_up
from pytest_pinet.lab.relay import PROGRAM, SOCKET, PeerRelay, feed
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.measure.link_result import link_result, settings_of
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.record.measurement import KselftestRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Kselftest, PathSetup
from pytest_pinet.report.sentences import tuning_notes
from pytest_pinet.traffic.processes import run_watched

RUNNER = "run_kselftest.sh"
_SELFTESTS = "tools/testing/selftests"
_TIMEOUT_S = 600.0
# The architecture of the kernel's Makefiles and the usual prefix of its cross compiler, by `uname -m`.
_MACHINES = {
    "aarch64": ("arm64", "aarch64-linux-gnu-"),
    "armv7l": ("arm", "arm-linux-gnueabihf-"),
    "armv6l": ("arm", "arm-linux-gnueabi-"),
    "x86_64": ("x86", "x86_64-linux-gnu-"),
}
# Programs that would be compiled. Empty lists leave the tests that are scripts.
_NO_PROGRAMS = ("TEST_GEN_FILES=", "TEST_GEN_PROGS=", "TEST_GEN_PROGS_EXTENDED=")
FORM = f"a kernel tree, or installed selftests: a folder with {RUNNER}, or an archive of it"


@contextmanager
def packed(source: str, collection: str, machine: str) -> Iterator[Path]:
    """Yield a tar archive with the selftests for a board of this machine (``uname -m``). Raises ConfigError."""
    path = Path(source)
    if is_file(path):
        yield path
        return
    with TemporaryDirectory(prefix="pinet-kselftest-") as temporary:
        folder = path
        if is_file(path / _SELFTESTS / "Makefile"):
            folder = Path(temporary) / "install"
            _install(path, collection, machine, folder)
        if not is_file(folder / RUNNER):
            raise ConfigError(f"{source} has no selftests; expected {FORM}")
        archive = Path(temporary) / "kselftest.tar"
        with tarfile.open(archive, "w", dereference=True) as tar:
            tar.add(folder, ".", filter=lambda one: None if one.issym() else one)
        yield archive


def _install(tree: Path, collection: str, machine: str, folder: Path) -> None:
    if not is_folder(tree / _SELFTESTS / collection):
        raise ConfigError(f"{tree / _SELFTESTS} has no collection {collection}")
    for command in ("make", "rsync"):
        if shutil.which(command) is None:
            raise ConfigError(f"the selftests of {tree} cannot be installed without {command}; apt install {command}")
    argv = ["make", "-C", str(tree / _SELFTESTS), f"TARGETS={collection}", f"INSTALL_PATH={folder}", "install"]
    arch, prefix = _MACHINES.get(machine, (machine, ""))
    if machine != platform.machine():
        argv += [f"ARCH={arch}", f"CROSS_COMPILE={prefix}"]
        argv += () if _compiles(f"{prefix}gcc", folder.parent) else _NO_PROGRAMS
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"make install of {collection} in {tree} did not end within {_TIMEOUT_S:g} s") from None
    if done.returncode or not (folder / RUNNER).is_file():
        raise ConfigError(f"make install of {collection} in {tree} failed: {last_line(done.stderr, done.stdout)}")


def _compiles(compiler: str, folder: Path) -> bool:
    """Return whether a compiler makes programs. Without a C library it fails, and make install leaves out folders."""
    if shutil.which(compiler) is None:
        return False
    argv, program = [compiler, "-x", "c", "-", "-o", str(folder / "program")], b"#include <stdio.h>\nint main() {}\n"
    return subprocess.run(argv, input=program, capture_output=True, check=False, timeout=_TIMEOUT_S).returncode == 0


LOG = "kselftest.ktap"
# What the runner needs beside its own limit: it starts Python, and a slow board takes seconds for it.
_MORE_S = 120.0
_REMOVE_TIMEOUT_S = 60.0
_NEEDED = ("python3", "sed", "tar")
# The name of the peer for ssh and scp, whatever its address.
_PEER = "peer"


def measure(
    link: Link,
    job: Kselftest,
    raw: MutableMapping[str, str],
    warn: Callable[[str], None],
    watch: Callable[[], None] | None = None,
) -> ResultRecord:
    """Run a selftest with the first two ends of a link. ``raw`` receives the TAP.

    ``warn`` gets a sentence for each thing that could not be removed from a board. ``watch`` is called throughout and
    can end the test by raising. Raises ConfigError, LabError, UnsupportedError.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    build = read_build(link.dut.shell, link.dut.device)
    unread: list[str] = []
    settings = settings_of(link, unread.append)
    undo = UndoStack()
    try:
        with doing(f"{job.test}"), ExitStack() as stack:
            ends = [link]
            try:
                ends.append(stack.enter_context(set_up(link, PathSetup(6))))
            except CapabilityError as error:
                unread.append(f"the selftest got addresses of IPv4 only: {error}")
            done = _run(ends, job, undo, watch)
    finally:
        for trouble in undo.close():
            warn(trouble)
    raw[LOG] = done.stdout
    report = read_ktap(done.stdout)
    if report is None:
        said = last_line(done.stderr, done.stdout) or f"exit status {done.returncode}"
        raise LabError(f"{job.test} printed no result on {link.dut.shell.name}: {said[:200]}", "read its output")
    return link_result(
        link,
        job.key,
        MeasurementJudgement(report.verdict, f"{job.test}: {report.sentence}"),
        build=build,
        settings=settings,
        notes=[*tuning_notes(link.tunings), *unread],
        started=started.isoformat(),
        seconds=time.monotonic() - clock,
        kselftest=KselftestRecord(test=job.test, planned=report.planned, results=report.results),
    )


def _run(ends: Sequence[Link], job: Kselftest, undo: UndoStack, watch: Callable[[], None] | None) -> Completed:
    link = ends[0]
    board, name = link.dut.shell, link.dut.endpoint.node.name
    machine = _machine(board)
    with packed(job.source, job.collection, machine) as archive:
        folder = _checked(board, "mktemp -d /tmp/pinet-ksft.XXXXXX").strip()
        undo.add(f"{folder} on {name}", lambda: _remove(board, folder), name)
        packing = {".gz": "z", ".xz": "J"}.get(archive.suffix, "")
        unpacked = feed(board, f"tar -x{packing}f - -C {folder}", archive)
    if unpacked.returncode:
        raise LabError(f"{board.name} cannot unpack the selftests: {last_line(unpacked.stderr)}", "free its disk")
    relay = PeerRelay(link.peer.shell)
    undo.add(f"what {job.test} put on {link.peer.endpoint.node.name}", relay.close, link.peer.endpoint.node.name)
    _put(board, f"{folder}/.pinet/ssh", PROGRAM.read_bytes())
    _checked(board, f"chmod 755 {folder}/.pinet/ssh && ln {folder}/.pinet/ssh {folder}/.pinet/scp")
    _connect(board, f"{folder}/.pinet/{SOCKET}", relay.path, undo, name)
    for place in (job.collection, f"{job.collection}/hw"):
        _put(board, f"{folder}/{place}/net.config", configuration(ends, job).encode(), only_beside=True)
    # A file as output garbles the log of run_kselftest.sh; a pipe does not.
    limit = f"-o {job.timeout_s:.0f}" if job.timeout_s else ""
    command = f"cd {folder} && PATH={folder}/.pinet:$PATH ./run_kselftest.sh -t {shlex.quote(job.test)} {limit} | cat"
    # The selftest has all of the board's time.
    lasts_s = job.timeout_s + _MORE_S
    return run_watched(board, as_root(command), job.test, lasts_s, watch, 0.0, quiet=True)


def configuration(ends: Sequence[Link], job: Kselftest) -> str:
    """Return net.config of the selftests (tools/testing/selftests/drivers/net/README.rst), which takes no quotes.

    ``ends`` is the link with its addresses of IPv4, and perhaps a second time with addresses of IPv6.
    """
    lines = {
        "NETIF": ends[0].dut.device,
        **{f"LOCAL_V{link.dut.address.version}": link.dut.ip for link in ends},
        **{f"REMOTE_V{link.peer.address.version}": link.peer.ip for link in ends},
        "REMOTE_TYPE": "ssh",
        "REMOTE_ARGS": _PEER,
        "DISRUPTIVE": "no",
        **job.environment,
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def _machine(board: Shell) -> str:
    needed = " ".join(_NEEDED)
    # The runner of the selftests opens its output by this name. Without the link, it makes a file of that name.
    output = "[ -L /dev/stdout ] || echo '/dev/stdout (a link to /proc/self/fd/1)'"
    command = f"uname -m; for c in {needed}; do command -v $c >/dev/null || echo $c; done; {output}"
    machine, *missing = _checked(board, command).splitlines()
    if missing:
        raise UnsupportedError(f"{board.name} lacks {' and '.join(missing)}, which the kernel's selftests need")
    return machine


def _connect(board: Shell, there: str, here: Path, undo: UndoStack, name: str) -> None:
    """Let the board reach the relay at the path ``there``."""
    if isinstance(board, SshShell):
        undo.add(f"the relay of {name}", lambda: board.forward_socket(there, here, undo=True), name)
        board.forward_socket(there, here)
    else:
        _checked(board, f"ln -s {shlex.quote(str(here))} {there}")


def _put(board: Shell, path: str, data: bytes, only_beside: bool = False) -> None:
    """Write a file on the board; with ``only_beside`` only if its folder is there."""
    parent = path.rpartition("/")[0]
    made = f"[ -d {parent} ] || exit 0" if only_beside else f"mkdir -p {parent}"
    done = feed(board, f"{made}; cat >{path}", data)
    if done.returncode:
        raise LabError(f"{board.name} cannot write {path}: {last_line(done.stderr)}", "free its disk")


def _checked(board: Shell, command: str) -> str:
    done = board.run(command)
    if done.returncode:
        raise LabError(f"{board.name}: {command.split()[0]} failed: {last_line(done.stderr)}", "look at the board")
    return done.stdout


def _remove(board: Shell, folder: str) -> None:
    done = board.run(as_root(f"rm -rf {folder}"), _REMOVE_TIMEOUT_S)
    if done.returncode:
        raise LabError(f"rm: {last_line(done.stderr)}", "remove it by hand")
