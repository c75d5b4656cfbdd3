"""Start, find and stop a virtual lab: coordinator, exporter and our daemon."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from pytest_pinet.errors import CoordinatorError, LabError
from pytest_pinet.evidence.other_work import LAB_VARIABLE
from pytest_pinet.lab.launcher import LabUse, Launcher
from pytest_pinet.model.lab import Lab, PortRef, Scale
from pytest_pinet.virtual.container import ProcessId, end, wait_gone
from pytest_pinet.virtual.requirements import as_root, check_commands, check_kernel
from pytest_pinet.virtual.runtime import PROCESSES, Runtime, make_password, make_ssh_keys, password_hash
from pytest_pinet.virtual.scale import measured_scale
from pytest_pinet.virtual.spec import REST, SHELLY, LabSpec, NodeSpec, spec_of

# The configuration files of labgrid's coordinator and exporter.


EXPORTER = "pinet"


def places_file(spec: LabSpec) -> str:
    """Return ``places.yaml`` of the coordinator: one place per node and uplink, with tags that describe it."""
    tags = {
        node.place: {"board": node.board.name, "node": node.name, "nics": ",".join(i.name for i in node.interfaces)}
        for node in spec.lab.nodes.values()
    }
    tags |= {uplink.place: {"uplink": uplink.name} for uplink in spec.lab.uplinks.values()}
    return yaml.safe_dump(
        {
            place: {"matches": [{"exporter": EXPORTER, "group": place, "cls": "*"}], "tags": own}
            for place, own in tags.items()
        }
    )


def exporter_file(spec: LabSpec, ports: Mapping[str, Any]) -> str:
    """Return the exporter's configuration. ``ports`` is the content of the daemon's ``ports.json``."""
    groups = {n.node.place: _resources(n, i, ports) for i, n in enumerate(spec.nodes, start=1)}
    for uplink in spec.lab.uplinks.values():
        groups[uplink.place] = {end.switch: _ethernet_port(end) for end in uplink.ports}
    text = yaml.safe_dump(groups)
    # The exporter first reads the file as a Jinja template. Names from a lab file must not be run as code there.
    return re.sub(r"\{(?=[{%#])", "{{ '{' }}", text)


def environment_of(
    spec: LabSpec, coordinator: str, keyfile: str, password: str, ports: Mapping[str, Any]
) -> dict[str, str]:
    """Return the ``LG_*`` variables by which the lab file's ``!template`` entries find this lab."""
    variables = {"LG_COORDINATOR": coordinator, "LG_KEYFILE": keyfile, "LG_CONSOLE_PASSWORD": password}
    for switch in spec.lab.switches.values():
        name = re.sub(r"[^A-Z0-9]", "_", switch.name.upper())
        variables[f"LG_SWITCH_{name}"] = f"ssh://root@127.0.0.1:{ports['switches'][switch.name]}"
    return variables


def _resources(own_spec: NodeSpec, index: int, ports: Mapping[str, Any]) -> dict[str, Any]:
    node = own_spec.node
    own = ports["nodes"][node.name]
    return {
        "NetworkPowerPort": _outlet(own_spec, index, ports),
        "NetworkSerialPort": {"host": "127.0.0.1", "port": own["console"], "protocol": "raw"},
        "NetworkService": {"address": "127.0.0.1", "port": own["ssh"], "username": node.user},
        **{i.name: _ethernet_port(i.port) for i in node.interfaces},
    }


def _ethernet_port(port: PortRef) -> dict[str, str]:
    return {"cls": "EthernetPort", "switch": port.switch, "interface": port.port}


def _outlet(node: NodeSpec, index: int, ports: Mapping[str, Any]) -> dict[str, Any]:
    pdu = f"http://127.0.0.1:{ports['pdu']}"
    if node.node.outlet == SHELLY:
        return {"model": SHELLY, "host": pdu, "index": index}
    return {"model": REST, "host": f"{pdu}/relay/{{index}}/value", "index": index}


UP_TIMEOUT_S = 30.0
# The module that prepares emulated boards. It is imported only if the lab has some.
EMULATED = "pytest_pinet.emulated.image"
DOWN_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 5.0
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
        with self._running(lab, keep=True) as runtime:
            state = runtime.read_json("state.json") or {}
            if not state["keep"]:
                runtime.write_json("state.json", {**state, "keep": True})
            return dict(state["environment"])

    def use(self, lab: Lab, run: str, on_start: Callable[[], None]) -> LabUse:
        """Find the lab, or start it until its last user leaves. Raises LabError with the missing requirements."""
        with self._running(lab, keep=False, on_start=on_start) as runtime:
            state = runtime.read_json("state.json") or {}
            return VirtualUse(runtime, state["environment"], runtime.join(run), Scale(**state["scale"]))

    @contextmanager
    def _running(self, lab: Lab, keep: bool, on_start: Callable[[], None] = lambda: None) -> Iterator[Runtime]:
        """Find the lab, or start it. The lab is locked meanwhile. Raises LabError."""
        runtime = Runtime.of(lab.file)
        image = _image(lab) if _has_machines(lab) and self.find(lab) is None else None
        with runtime.locked():
            if self.find(lab) is None:
                on_start()
                _start_clean(lab, runtime, image, keep)
            yield runtime

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
                if state is not None and not state.get("keep", True) and not self._runtime.runs():
                    _clean(self._runtime)


def stop(lab_file: str) -> int:
    """Stop the lab of this file, even if the file is gone. Return how many runs used the lab. Raises LabError."""
    runtime = Runtime.of(lab_file)
    if not runtime.path.exists():
        return 0
    with runtime.locked():
        runs = runtime.runs()
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
    """Return the card image of emulated boards. Takes minutes once, so it must run outside the lab's lock."""
    check_commands()
    check_kernel(spec_of(lab), as_root())
    return str(importlib.import_module(EMULATED).prepare(lab, _print_progress))


def _print_progress(what: str) -> None:
    # The first start takes minutes.
    sys.stderr.write(f"{what}\n")


def _require_unused(runtime: Runtime) -> None:
    """Protect a lab that other runs use: a slow answer does not mean that it is dead. Raises LabError."""
    runs = runtime.runs()
    state = runtime.read_json("state.json")
    if runs and state is not None and _is_whole(state):
        raise LabError(
            f"the virtual lab runs but did not answer within {ANSWER_TIMEOUT_S:g} s; "
            f"{len(runs)} {'run uses' if len(runs) == 1 else 'runs use'} it",
            "try again when this machine is less busy, or stop the lab and these runs by `pinet lab down`",
        )


def _start_clean(lab: Lab, runtime: Runtime, image: str | None, keep: bool) -> None:
    """Remove leftovers of an earlier lab, then start this one. If the start fails, remove its processes too."""
    _require_unused(runtime)
    check_commands()
    root = as_root()
    spec = spec_of(lab)
    check_kernel(spec, root)
    scale = measured_scale(lab, spec.fastest_bps, root) if lab.scale is None else Scale(lab.scale)
    if _has_machines(lab):
        # The image is missing here if the lab still ran when the caller checked.
        spec = replace(spec, image=image or _image(lab))
    _clean(runtime)
    runtime.create()
    try:
        _start(spec, scale, runtime, root, keep)
    except BaseException:
        _clean(runtime, keep_files=True)
        raise


def _start(spec: LabSpec, scale: Scale, runtime: Runtime, root: list[str], keep: bool) -> None:
    """Start all three processes at once. Each waits only for what it needs from the others."""
    deadline = time.monotonic() + UP_TIMEOUT_S
    # Whether the lab outlives its last user: True after `pinet lab up`, False after a start by pytest.
    state: dict[str, Any] = {"processes": {}, "complete": False, "keep": keep, "image": spec.image}

    def spawn(name: str, argv: list[str], directory: Path) -> subprocess.Popen[bytes]:
        process = _spawn(runtime, name, argv, directory)
        identity = ProcessId.of(process.pid)
        if identity is not None:
            state["processes"][name] = vars(identity)
            runtime.write_json("state.json", state)
        return process

    def wait(found: Callable[[], _T | None], what: str, process: subprocess.Popen[bytes]) -> _T:
        return _await(found, what, process, runtime, deadline)

    directory = runtime.path / "coordinator"
    directory.mkdir(exist_ok=True)
    (directory / "places.yaml").write_text(places_file(spec))
    coordinator = spawn("coordinator", _labgrid("coordinator", "-l", "127.0.0.1:0"), directory)
    make_ssh_keys(runtime.keys)
    console = make_password()
    runtime.write_private(runtime.keys / "console_password", console)
    runtime.write_private(runtime.keys / "console_password.hash", password_hash(console))
    replace(spec, lab=replace(spec.lab, scale=scale.share)).write(runtime.spec)
    module = [sys.executable, "-m", "pytest_pinet.virtual.daemon", str(runtime.path)]
    daemon = spawn("daemon", [*root, *module], Path("/"))
    ports = wait(lambda: runtime.read_json("ports.json"), "the daemon to bind its ports", daemon)
    # The daemon's own id: the process that was started may be its sudo.
    state["processes"]["daemon"] = ports["process"]
    runtime.write_json("state.json", state)
    log = runtime.log("coordinator")
    listening = wait(
        lambda: _LISTENING.search(log.read_text(errors="replace")), "labgrid's coordinator to listen", coordinator
    )
    address = f"127.0.0.1:{listening[1]}"
    resources = runtime.path / "exporter.yaml"
    resources.write_text(exporter_file(spec, ports))
    words = ("-c", address, "-n", EXPORTER, "--hostname", "127.0.0.1", str(resources))
    exporter = spawn("exporter", _labgrid("exporter", *words), runtime.path)
    wait(lambda: _daemon_answers(runtime) or None, "the daemon to build the lab", daemon)
    log = runtime.log("exporter")
    wait(lambda: "creating poll task" in log.read_text() or None, "labgrid's exporter to be ready", exporter)
    state |= {
        "lab": spec.lab.name,
        "digest": spec.digest,
        "scale": vars(scale),
        "complete": True,
        "environment": environment_of(spec, address, str(runtime.private_key), console, ports),
    }
    runtime.write_json("state.json", state)


def _labgrid(tool: str, *words: str) -> list[str]:
    # Run as modules: the scripts might not be on PATH, or belong to another Python.
    return [sys.executable, "-m", f"labgrid.remote.{tool}", *words]


def _spawn(runtime: Runtime, name: str, argv: list[str], directory: Path) -> subprocess.Popen[bytes]:
    """Start a process in its own session, with a log file and the lab's directory in its environment."""
    environment = {**os.environ, LAB_VARIABLE: str(runtime.path), "PYTHONUNBUFFERED": "1"}
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
            why = f"{UP_TIMEOUT_S:g} s passed" if ended is None else f"the process exited with {ended}"
            raise CoordinatorError(
                f"the virtual lab did not start: it waited for {what}, but {why}", f"look at the logs in {runtime.path}"
            )
        time.sleep(_POLL_S)
    return value


def _daemon_answers(runtime: Runtime) -> bool:
    try:
        runtime.ask("ping", timeout_s=ANSWER_TIMEOUT_S)
    except LabError:
        return False
    return True


def _clean(runtime: Runtime, keep_files: bool = False) -> None:
    """End every known process of this lab, and remove its directory. Raises LabError."""
    state = runtime.read_json("state.json") or {}
    # ports.json has the daemon's own id: the process that was started may be its sudo.
    own = (runtime.read_json("ports.json") or {}).get("process")
    named = {**state.get("processes", {}), **({"daemon": own} if own else {})}
    processes = {name: ProcessId(**value) for name, value in named.items()}
    # The daemon ends first and alone: it switches its nodes off and takes their links down.
    daemon = [processes.pop("daemon")] if "daemon" in processes else []
    left = [*end(daemon, DOWN_TIMEOUT_S), *end(processes.values(), 1.0)]
    machines = runtime.read_json("machines.json") or {}
    # The kernel kills these processes with the daemon, which can take a moment.
    left += end(wait_gone([ProcessId(**value) for value in machines.get("processes", [])], 2.0), 1.0)
    for child in _CHILDREN:
        child.poll()
    if state.get("image"):
        shutil.rmtree(runtime.cards(state["image"]), ignore_errors=True)
    if left:
        raise LabError(
            f"these processes of the virtual lab did not end: {', '.join(str(p.pid) for p in left)}",
            "kill them as root",
        )
    if not keep_files:
        runtime.remove()
