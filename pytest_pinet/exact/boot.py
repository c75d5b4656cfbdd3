"""Boots a build on an exact board and returns what it measured. Nothing is written to a disk, and nothing is left."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_pinet.emulated.machine import INSTRUCTION_SHIFT
from pytest_pinet.errors import BuildError, CapabilityError, LabError, PinetError
from pytest_pinet.exact.board import KERNEL_AT, MEMORY_MIB, arguments
from pytest_pinet.exact.device_models import Model
from pytest_pinet.exact.payload import Payload
from pytest_pinet.exact.qemu import Plugin, Qemu, Room
from pytest_pinet.exact.results import GuestResults, read_counts, read_pages, read_results, with_functions
from pytest_pinet.exact.traffic import Events, joined_turns
from pytest_pinet.model.exact import ExactBoot, ExactIdentity, ExactWindow

# Octets of the end of the console.
KEPT = 1 << 20
# No line that a program waits for is longer.
_LINE = 4096
_PANIC_LINE = re.compile(rb"Kernel panic - not syncing: [^\n]*\n")


class Console:
    """The last ``KEPT`` octets or more of a console, and the first panic before them."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._recent = b""
        self._panic = b""

    def add(self, data: bytes) -> bytes:
        """Add octets. Return the latest output, in which a line that came in several parts is complete."""
        data = data.replace(b"\r", b"")
        self._parts.append(data)
        self._size += len(data)
        if self._size > 2 * KEPT:
            text = b"".join(self._parts)
            if not self._panic and (found := _PANIC_LINE.search(text)):
                self._panic = found[0]
            self._parts, self._size = [text[-KEPT:]], KEPT
        recent = self._recent + data
        self._recent = recent[-_LINE:]
        return recent

    @property
    def text(self) -> str:
        """The end of the console. The line of the first panic is its first line if it was longer ago."""
        text = b"".join(self._parts)
        return (text if self._panic in text else self._panic + text).decode("utf-8", "replace")


# The guest ends itself after 300 virtual seconds, unless it hangs with interrupts disabled. The plugin ends a guest
# that repeats the same code for so many virtual seconds. No window of traffic takes as long.
HANGS_S = 60.0
# Without the plugin: a boot uses 10 to 20 s. It is processor time of QEMU, so that other work does not end a boot.
CPU_S = 1800.0
# A guest has halted if QEMU uses less than a second of processor time in so many seconds.
HALTED_S = 300.0
# For a machine that gives QEMU nearly no processor time.
_WALL_S = 6 * 3600.0
_POLL_S = 0.2
_ROOM = Room()
# QEMU has closed its console when it ends, some milliseconds before its process is gone.
_END_S = 20.0
_EXCERPT_LINES = 30
_END, _FAILED = "exact-end", "exact-failed: "
# The last line of the traffic program. Its whole line: QEMU 10 passes a line on in parts.
_LAST_LINE = re.compile(rf"\n(?:{_END}|{_FAILED}[^\n]*)\n".encode())
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")


@dataclass(frozen=True)
class _Ran:
    """What one run of QEMU left: the console, the text of the results, and the plugin's output.

    ``end`` is the exit code of QEMU, or a text about a guest that did not end. It is 0 if the guest ended itself.
    """

    console: str
    results: str
    counts: bytes
    end: int | str


def boot_twice(
    payload: Payload,
    qemu: Qemu,
    plugin: Plugin,
    stops: Sequence[threading.Event] = (),
    model: Model | None = None,
) -> tuple[ExactBoot, ExactBoot]:
    """Boot twice at once. If one boot fails, the other ends at once. Raises as ``boot`` does.

    Python does not end before both threads have: at Ctrl-C, the caller sets one of ``stops``.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        boots = [threads.submit(boot, payload, qemu, plugin, stops=(*stops, stop), model=model) for _ in range(2)]
        try:
            for made in as_completed(boots):
                made.result()
        finally:
            stop.set()
    first, second = (made.result() for made in boots)
    return first, second


def boot(
    payload: Payload,
    qemu: Qemu,
    plugin: Plugin,
    cpu_s: float = CPU_S,
    stops: Sequence[threading.Event] = (),
    model: Model | None = None,
    show: Callable[[str], None] | None = None,
) -> ExactBoot:
    """Boot once, with the ``model`` of the board's NIC if it has one. ``show`` gets the console at the end.

    Raises BuildError if the build fails on the board, LabError if QEMU does or ``stops`` has a set one, CapabilityError
    if the kernel was built without something that the board needs.
    """
    board = payload.board
    with _ROOM.guest(MEMORY_MIB << 20, partial(_check, stops)):
        ran = _run(payload, qemu, plugin, model, cpu_s, stops)
    if show is not None:
        show(ran.console)
    results = _checked(payload, ran)
    windows: tuple[ExactWindow, ...] = results.windows
    if plugin.path is not None:
        windows = with_functions(results, read_counts(ran.counts), KERNEL_AT)
    identity = ExactIdentity(
        board=board.name,
        machine=board.machine.name,
        nic=board.nic.device,
        model="" if model is None else model.sha256,
        driver=results.driver,
        driver_modules=board.nic.path,
        driver_functions=board.nic.functions,
        qemu=qemu.version_text,
        processors=board.machine.processors,
        traffic=payload.traffic,
        plugin_api=plugin.api,
        no_functions=plugin.missing,
        kernel=payload.release,
        banner=results.banner,
        image=payload.image.sha256,
        cmdline=payload.cmdline,
        modules=payload.modules,
        pages_kib=payload.pages_kib,
    )
    joined = joined_turns(windows)
    if (empty := next((window for window in joined if not window.packets), None)) is not None:
        raise BuildError(f"{_what(payload)} moved no packet in {empty.name}", "no traffic")
    return ExactBoot(identity, joined)


def _what(payload: Payload) -> str:
    return f"kernel {payload.release} on the exact board {payload.board.name}"


def _checked(payload: Payload, ran: _Ran) -> GuestResults:
    """Return the results of a complete run. Raises BuildError with the reason, and the last lines of the console."""
    lines = ran.console.splitlines()
    if _END in lines:
        return read_results(ran.results)
    excerpt = "\n".join(lines[-_EXCERPT_LINES:])
    what = _what(payload)
    if panic := _PANIC.search(ran.console):
        raise BuildError(f"{what} panicked: {panic[1].strip()}", "panic", excerpt)
    failed = next((line.removeprefix(_FAILED) for line in lines if line.startswith(_FAILED)), None)
    if failed is not None:
        raise _failure(what, *failed.partition(": ")[::2], excerpt)
    if isinstance(ran.end, str):
        raise BuildError(f"{what} did not end: {ran.end}", "hang", excerpt)
    last = next((line for line in reversed(lines) if line.strip()), "no message")[:200]
    if ran.end:
        raise LabError(f"QEMU ended with exit code {ran.end} while it ran {what}: {last}")
    raise BuildError(f"{what} reset the board without a panic; its last line: {last}", "hang", excerpt)


def _failure(what: str, command: str, reason: str, excerpt: str) -> PinetError:
    """Return the error of what the traffic program or the plugin said."""
    if command == "plugin":
        return LabError(f"QEMU's plugin failed with {what}: {reason}")
    if command == "hang":
        return BuildError(f"{what} hangs: for {HANGS_S:g} virtual seconds it repeated the same code", "hang", excerpt)
    why = f"{what} failed at `{command}`: {reason.removesuffix(' (errno 0)')}"
    if reason.startswith("the kernel has no "):
        return CapabilityError(why)
    kind = "hang" if "no end within" in reason else "no driver" if "driver" in reason else "no traffic"
    return BuildError(why, kind, excerpt)


def _check(stops: Sequence[threading.Event]) -> None:
    if any(stop.is_set() for stop in stops):
        raise LabError("the boot was stopped, because another boot failed or the run ended")


def _run(
    payload: Payload,
    qemu: Qemu,
    plugin: Plugin,
    model: Model | None,
    cpu_s: float,
    stops: Sequence[threading.Event],
) -> _Ran:
    events = Events(payload.board, payload.events)
    with (
        closing(events),
        _file("memory") as memory,
        _file("kernel") as kernel,
        _file("initramfs") as initramfs,
        _file("counts") as out,
        _file("device tree") as tree,
    ):
        os.ftruncate(memory, MEMORY_MIB << 20)
        _write(kernel, payload.image.data)
        _write(initramfs, payload.initramfs)
        # The kernel ends QEMU when this thread ends, also when this process is killed.
        argv = ["setpriv", "--pdeathsig", "KILL", *qemu.command]
        argv += arguments(payload.board, _path(kernel), _path(initramfs), payload.cmdline, memory)
        if plugin.path is not None:
            patience = int(HANGS_S * 1e9) >> INSTRUCTION_SHIFT
            argv += ["-plugin", f"{plugin.path},out={_path(out)},patience={patience}{events.plugin_words}"]
        if model is not None:
            _write(tree, model.tree)
            argv += ["-plugin", f"{model.path},{model.words}{events.model_words}", "-dtb", str(_path(tree))]
        argv += events.arguments
        inherited = (memory, kernel, initramfs, out, tree, *events.inherited)
        console, end = run_until_end(argv, qemu.environment, inherited, cpu_s, stops, events)
        results = read_pages(memory)
        os.lseek(out, 0, os.SEEK_SET)
        counts = os.read(out, os.fstat(out).st_size)
    return _Ran(console, results, counts, end)


def run_until_end(
    argv: list[str],
    environment: Mapping[str, str],
    descriptors: tuple[int, ...],
    cpu_s: float,
    stops: Sequence[threading.Event],
    events: Events,
) -> tuple[str, int | str]:
    """Run QEMU until it ends, or until the traffic program says that it has ended. Return the text of the console.

    The second value is QEMU's exit code, or 0 if the traffic program has ended. If QEMU was killed because it used
    ``cpu_s`` of processor time or stood still, it is a text about this. Raises LabError if one of ``stops`` is set,
    if QEMU refuses an event, or if it gets no processor time.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors,
            env={**os.environ, **environment, "LC_ALL": "C.UTF-8"},
            # Ctrl-C must reach us first, so that a half boot is never read.
            start_new_session=True,
        )
    except OSError as error:
        raise LabError(f"{argv[0]} cannot be started: {error.strerror}") from None
    console = Console()
    end: int | str = f"QEMU used {cpu_s:g} s of processor time"
    try:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            selector.register(events.guest, selectors.EVENT_READ)
            began = seen = time.monotonic()
            # Seconds without progress. If this process or the whole machine is paused, the pause does not count.
            moved_s = still_s = 0.0
            while (used_s := _cpu_seconds(process.pid)) < cpu_s:
                _check(stops)
                now = time.monotonic()
                still_s, seen = still_s + min(now - seen, 2 * _POLL_S), now
                if used_s >= moved_s + 1:
                    moved_s, still_s = used_s, 0.0
                if still_s > HALTED_S:
                    end = f"QEMU used less than 1 s of processor time in {HALTED_S:g} s, so the guest has halted"
                    break
                if now > began + _WALL_S:
                    raise LabError(f"QEMU got only {used_s:.0f} s of processor time in {_WALL_S / 3600:g} hours")
                ready = [key.fileobj for key, _ in selector.select(_POLL_S)]
                if events.guest in ready:
                    events.do_next()
                if process.stdout not in ready:
                    continue
                data = os.read(process.stdout.fileno(), 65536)
                recent = console.add(data)
                if not data:
                    try:
                        end = process.wait(_END_S)
                    except subprocess.TimeoutExpired:
                        end = f"QEMU closed its console, but went on for {_END_S:g} s"
                    break
                if _LAST_LINE.search(recent):
                    end = 0
                    break
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return console.text, end


def _cpu_seconds(pid: int) -> float:
    """Return the processor time that all threads of a process, which was not yet waited for, have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _file(name: str) -> Iterator[int]:
    """Open a file that exists only in memory, so that nothing is left of it, even if this process is killed."""
    descriptor = os.memfd_create(f"pinet-{name}")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _path(descriptor: int) -> Path:
    """Return the path of an inherited descriptor, as QEMU opens it."""
    return Path("/proc/self/fd") / str(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
