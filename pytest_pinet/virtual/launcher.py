"""Start, find and stop a virtual lab: coordinator, exporter and our daemon."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pytest_pinet.errors import CoordinatorError, LabError
from pytest_pinet.lab.launcher import LabUse, Launcher
from pytest_pinet.model.lab import Lab, Scale
from pytest_pinet.virtual import labgrid_files
from pytest_pinet.virtual.control import ask
from pytest_pinet.virtual.credentials import SnmpAccess, make_password, make_ssh_keys, password_hash
from pytest_pinet.virtual.processes import ProcessId, end, wait_gone
from pytest_pinet.virtual.requirements import as_root, check_commands, check_kernel
from pytest_pinet.virtual.runtime import Runtime, Users
from pytest_pinet.virtual.scale import measured_scale
from pytest_pinet.virtual.spec import LabSpec, spec_of

UP_TIMEOUT_S = 30.0
# The module that prepares emulated boards. It is imported only if the lab has some.
EMULATED = "pytest_pinet.emulated.prepare"
DOWN_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 5.0
PROCESSES = ("coordinator", "exporter", "daemon")
_POLL_S = 0.01
_T = TypeVar("_T")
_LISTENING = re.compile(r"listening on \S+:([0-9]+)")


def launcher() -> Launcher:
    """Return the launcher with the name ``virtual`` in lab files."""
    return VirtualLauncher()


# These processes outlive the call that starts them. Without a reference here, Python warns that they still run.
_CHILDREN: list[subprocess.Popen[bytes]] = []


class VirtualLauncher:
    """The launcher of virtual labs. All state is in the lab's runtime directory, for all processes of the user."""

    def find(self, lab: Lab) -> Mapping[str, str] | None:
        """Return the environment if the whole lab runs, else None. Raises LabError if the lab file has changed."""
        runtime = Runtime.of(lab.file)
        state = running_state(runtime)
        if state is None:
            return None
        if state["digest"] != spec_of(lab).digest:
            raise LabError(
                f"the nodes, NICs or cables in {lab.file} changed after the virtual lab was started",
                f"restart the lab: pinet lab down --lab {lab.file}; pinet lab up --lab {lab.file}",
            )
        return dict(state["environment"])

    def up(self, lab: Lab) -> Mapping[str, str]:
        """Start the lab, or find it running. It runs until ``down``. Raises LabError if a requirement is missing."""
        runtime = Runtime.of(lab.file)
        image = _image(lab) if _has_machines(lab) and self.find(lab) is None else None
        with runtime.locked():
            found = self.find(lab)
            if found is None:
                return _start_clean(lab, runtime, image, keep=True)
            state = runtime.read_json("state.json")
            if state is not None and not state.get("keep", True):
                runtime.write_json("state.json", {**state, "keep": True})
            return found

    def use(self, lab: Lab, run: str, on_start: Callable[[], None]) -> LabUse:
        """Find the lab, or start it until its last user leaves. Raises LabError with the missing requirements."""
        runtime = Runtime.of(lab.file)
        image = _image(lab) if _has_machines(lab) and self.find(lab) is None else None
        with runtime.locked():
            environment = self.find(lab)
            if environment is None:
                on_start()
                environment = _start_clean(lab, runtime, image, keep=False)
            scale = Scale(**(runtime.read_json("state.json") or {}).get("scale", {}))
            return VirtualUse(runtime, environment, Users(runtime.users).join(run), scale)

    def down(self, lab: Lab) -> int:
        """Stop the lab and remove its files. Return how many runs used it."""
        return stop(lab.file)


class VirtualUse:
    """A user of a virtual lab. The lock on ``fd`` marks the lab as used."""

    def __init__(self, runtime: Runtime, environment: Mapping[str, str], fd: int, scale: Scale) -> None:
        self.environment = environment
        self.scale = scale
        self._runtime = runtime
        self._fd: int | None = fd

    def leave(self) -> None:
        """Stop the lab after its last user, unless `pinet lab up` started it. Raises LabError if a process stays."""
        if self._fd is None:
            return
        os.close(self._fd)
        self._fd = None
        if self._runtime.path.exists():
            with self._runtime.locked():
                state = self._runtime.read_json("state.json")
                if state is not None and not state.get("keep", True) and not Users(self._runtime.users).runs():
                    _clean(self._runtime)


def stop(lab_file: str) -> int:
    """Stop the lab of this file, even if the file does not exist any more. Return how many runs used the lab.

    Raises LabError if a process does not end.
    """
    runtime = Runtime.of(lab_file)
    if not runtime.path.exists():
        return 0
    with runtime.locked():
        runs = Users(runtime.users).runs()
        _clean(runtime)
    return len(runs)


def running_state(runtime: Runtime) -> dict[str, Any] | None:
    """Return ``state.json`` of a lab if its three processes run and its daemon answers, else None."""
    state = runtime.read_json("state.json")
    return state if state is not None and _is_whole(state) and _daemon_answers(runtime) else None


def _is_whole(state: Mapping[str, Any]) -> bool:
    """Return whether all processes of the lab run. During the start, ``state.json`` names only some of them."""
    return bool(state["complete"]) and all(ProcessId(**state["processes"][name]).alive for name in PROCESSES)


def _has_machines(lab: Lab) -> bool:
    """Return whether some boards are emulated."""
    return any(node.is_emulated for node in lab.nodes.values())


def _image(lab: Lab) -> str:
    """Return the card image of emulated boards. The first time takes minutes, so this must run outside the lab's lock.

    Raises LabError, ConfigError for a board that QEMU does not support.
    """
    check_commands()
    check_kernel(spec_of(lab), as_root())
    return str(importlib.import_module(EMULATED).prepare(lab, _print_progress))


def _require_unused(runtime: Runtime) -> None:
    """Protect a lab that other runs use: a slow answer does not mean that it is dead. Raises LabError."""
    runs = Users(runtime.users).runs()
    state = runtime.read_json("state.json")
    if runs and state is not None and _is_whole(state):
        raise LabError(
            f"the virtual lab runs but did not answer within {ANSWER_TIMEOUT_S:g} s; "
            f"{len(runs)} {'run uses' if len(runs) == 1 else 'runs use'} it",
            "try again when this machine is less busy, or stop the lab and these runs by `pinet lab down`",
        )


def _start_clean(lab: Lab, runtime: Runtime, image: str | None, keep: bool) -> Mapping[str, str]:
    """Remove leftovers of an earlier lab, then start this one. If the start fails, remove its processes too."""
    _require_unused(runtime)
    check_commands()
    root = as_root()
    spec = spec_of(lab)
    check_kernel(spec, root)
    scale = measured_scale(lab, spec.fastest_bps, root) if spec.scale is None else Scale(spec.scale)
    if _has_machines(lab):
        # The image is missing here if the lab still ran when the caller checked.
        spec = replace(spec, image=image or _image(lab))
    _clean(runtime)
    runtime.create()
    try:
        return _start(spec, scale, runtime, root, keep)
    except BaseException:
        _clean(runtime, keep_files=True)
        raise


def _print_progress(what: str) -> None:
    """Print progress for the user, because the first start takes minutes."""
    sys.stderr.write(f"{what}\n")


def _start(spec: LabSpec, scale: Scale, runtime: Runtime, root: list[str], keep: bool) -> Mapping[str, str]:
    """Start all three processes at once. Each waits only for what it needs from the others."""
    deadline = time.monotonic() + UP_TIMEOUT_S
    started: dict[str, ProcessId] = {}

    def remember(name: str, pid: int) -> None:
        identity = ProcessId.of(pid)
        if identity is not None:
            started[name] = identity
            processes = {n: vars(i) for n, i in started.items()}
            runtime.write_json("state.json", {"processes": processes, "complete": False, "keep": keep})

    directory = runtime.path / "coordinator"
    directory.mkdir(exist_ok=True)
    (directory / "places.yaml").write_text(labgrid_files.places(spec))
    coordinator = _spawn(runtime, "coordinator", _labgrid("coordinator", "-l", "127.0.0.1:0"), directory)
    remember("coordinator", coordinator.pid)
    make_ssh_keys(runtime.keys)
    console = make_password()
    runtime.write_private(runtime.console_password, console)
    runtime.write_private(runtime.console_password_hash, password_hash(console))
    access = SnmpAccess.make()
    runtime.write_private(runtime.snmp_access, json.dumps(vars(access)))
    runtime.write_json("spec.json", replace(spec, scale=scale.share).to_json())
    module = [sys.executable, "-m", "pytest_pinet.virtual.daemon", str(runtime.path)]
    daemon = _spawn(runtime, "daemon", [*root, *module], Path("/"))
    remember("daemon", daemon.pid)
    ports = _await(lambda: runtime.read_json("ports.json"), "the daemon to bind its ports", daemon, runtime, deadline)
    started["daemon"] = ProcessId(**ports["process"])
    remember("coordinator", coordinator.pid)
    log = runtime.log("coordinator")
    listening = _await(
        lambda: _LISTENING.search(log.read_text(errors="replace")),
        "labgrid's coordinator to listen",
        coordinator,
        runtime,
        deadline,
    )
    address = f"127.0.0.1:{listening[1]}"
    resources = runtime.path / "exporter.yaml"
    resources.write_text(labgrid_files.exporter(spec, ports))
    words = ("-c", address, "-n", labgrid_files.EXPORTER, "--hostname", "127.0.0.1", str(resources))
    exporter = _spawn(runtime, "exporter", _labgrid("exporter", *words), runtime.path)
    remember("exporter", exporter.pid)
    _await(lambda: _daemon_answers(runtime) or None, "the daemon to build the lab", daemon, runtime, deadline)
    _await(
        lambda: "creating poll task" in runtime.log("exporter").read_text() or None,
        "labgrid's exporter to be ready",
        exporter,
        runtime,
        deadline,
    )
    variables = labgrid_files.environment(spec, address, str(runtime.private_key), console, access, ports)
    runtime.write_json(
        "state.json",
        {
            "lab": spec.name,
            "digest": spec.digest,
            "scale": vars(scale),
            "processes": {name: vars(identity) for name, identity in started.items()},
            "complete": True,
            # Whether the lab outlives its last user: True after `pinet lab up`, False after a start by pytest.
            "keep": keep,
            "environment": variables,
        },
    )
    return variables


def _labgrid(tool: str, *words: str) -> list[str]:
    # Run as modules: the scripts might not be on PATH, or belong to another Python.
    return [sys.executable, "-m", f"labgrid.remote.{tool}", *words]


def _spawn(runtime: Runtime, name: str, argv: list[str], directory: Path) -> subprocess.Popen[bytes]:
    """Start a process in its own session, with a log file and the lab's directory in its environment."""
    environment = {**os.environ, "PINET_VLAB": str(runtime.path), "PYTHONUNBUFFERED": "1"}
    environment["PATH"] = f"{environment.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
    with runtime.log(name).open("wb") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    _CHILDREN.append(process)
    return process


def _await(
    found: Callable[[], _T | None], what: str, process: subprocess.Popen[bytes], runtime: Runtime, deadline: float
) -> _T:
    """Wait until ``found`` returns a value. Raises CoordinatorError if the process ends or the deadline passes."""
    while (value := found()) is None:
        ended = process.poll()
        if ended is not None or time.monotonic() > deadline:
            why = f"not within {UP_TIMEOUT_S:g} s" if ended is None else f"the process exited with {ended}"
            raise CoordinatorError(
                f"the virtual lab did not start: it waited for {what}, but {why}", f"look at the logs in {runtime.path}"
            )
        time.sleep(_POLL_S)
    return value


def _daemon_answers(runtime: Runtime) -> bool:
    if not runtime.control.exists():
        return False
    try:
        ask(runtime.control, "ping", timeout_s=ANSWER_TIMEOUT_S)
    except LabError:
        return False
    return True


def _clean(runtime: Runtime, keep_files: bool = False) -> None:
    """End every known process of this lab, and remove its directory. Raises LabError."""
    state = runtime.read_json("state.json") or {}
    named = {name: ProcessId(**value) for name, value in state.get("processes", {}).items()}
    ports = runtime.read_json("ports.json") or {}
    if ports.get("process"):
        # The daemon's own id: the process that was started may be its sudo.
        named["daemon"] = ProcessId(**ports["process"])
    left = []
    if "daemon" in named:
        # The daemon ends first and alone: it switches its nodes off and takes their links down.
        left += end([named.pop("daemon")], DOWN_TIMEOUT_S)
    left += end(named.values(), 1.0)
    machines = runtime.read_json("machines.json") or {}
    # The kernel kills these processes with the daemon, which can take a moment.
    processes = [ProcessId(**value) for value in machines.get("processes", [])]
    left += end(wait_gone(processes, 2.0), 1.0)
    for child in _CHILDREN:
        child.poll()
    image = (runtime.read_json("spec.json") or {}).get("image")
    if image:
        shutil.rmtree(runtime.cards(image), ignore_errors=True)
    if left:
        raise LabError(
            f"these processes of the virtual lab did not end: {', '.join(str(p.pid) for p in left)}",
            "kill them as root",
        )
    if not keep_files:
        runtime.remove()
