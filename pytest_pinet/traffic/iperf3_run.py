"""Run the two processes of one iperf3 run, from start to end."""

from __future__ import annotations

import re
from dataclasses import replace

from pytest_pinet.errors import LabError, PinetError, TrafficError
from pytest_pinet.execution.shell import Completed, Shell
from pytest_pinet.traffic.iperf3_command import FLOWING, Iperf3Run, client_command, server_command
from pytest_pinet.traffic.iperf3_trouble import Output, ProcessRole, explain
from pytest_pinet.traffic.iperf3_watch import Iperf3Process, await_client, await_end, await_listening, sign_of_life
from pytest_pinet.traffic.process_guard import LISTENING
from pytest_pinet.traffic.tool import BeforeClient, Progress, Watch

# A one-off server ends with its client. It has this long to do so, and less after a failed client.
SERVER_END_S = 3.0
KILLED_END_S = 0.5
_KILLED = (127, 137, 143)

_TOLD = re.compile(rf"^(?:{LISTENING}|{FLOWING}( \d+\.\d+)?)\n", re.MULTILINE)


class PortTaken(Exception):
    """Another program listens on the port. The caller tries another port; this error is never shown."""


def run_both(
    run: Iperf3Run,
    client: Shell,
    server: Shell,
    grace_s: float,
    on_progress: Progress | None,
    watch: Watch | None = None,
    before_client: BeforeClient | None = None,
) -> tuple[Output, Output]:
    """Run both processes to their ends and return their outputs, the client's first.

    ``before_client`` is called once the server listens, and may wait for others. When this returns or raises, neither
    process runs on. Raises PortTaken, LabError or UnsupportedError.
    """
    with (
        _Keeping() as kept,
        _Iperf3Stopper(
            Iperf3Process(server.spawn(server_command(run)), server), ProcessRole.SERVER, client, kept
        ) as far,
    ):
        if not await_listening(far, run.port):
            raise _server_trouble(_output(ProcessRole.SERVER, server, client, far.process.wait(1.0)))
        if before_client is not None:
            run = replace(run, begin_s=before_client(client))
        with _Iperf3Stopper(
            Iperf3Process(client.spawn(client_command(run)), client), ProcessRole.CLIENT, server, kept
        ) as near:
            await_client(near, far, run.port, run.seconds, grace_s, on_progress, watch, run.quiet)
            client_ended = near.process.poll() is not None
            near_output = _output(ProcessRole.CLIENT, client, server, near.process.stop())
        server_ended = await_end(far.process, KILLED_END_S if near_output.failed else SERVER_END_S)
        if near_output.failed or not client_ended or not server_ended:
            # The message of a run with a hanging end ("cannot be reached") would send people to the cable.
            for shell in (client, server):
                sign_of_life(shell, "at the end of the run")
        far_output = _output(ProcessRole.SERVER, server, client, far.process.stop())
        _judge_ends(near_output, far_output, client_ended, server_ended)
    return near_output, far_output


class _Keeping:
    """Adds the output of both processes to an error that ends the run: it is evidence, and gives no result."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []

    def __enter__(self) -> _Keeping:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # An end that does not support the request moved nothing.
        if not isinstance(error, LabError):
            return
        known = error.evidence if isinstance(error, TrafficError) else ""
        text = "".join(o.evidence for o in self.outputs if o.stdout.strip() and o.evidence not in known)
        if isinstance(error, TrafficError):
            error.evidence += text
        elif text:
            error.add_note(text)


class _Iperf3Stopper:
    """Stops a process, here and on its end, on every exit from the block.

    A failed stop never hides an earlier error.
    """

    def __init__(self, running: Iperf3Process, role: ProcessRole, other: Shell, kept: _Keeping) -> None:
        self._running = running
        self._role = role
        self._other = other
        self._kept = kept

    def __enter__(self) -> Iperf3Process:
        return self._running

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            done = self._running.process.stop()
        except PinetError as trouble:
            if error is None:
                raise
            error.add_note(f"iperf3 on {self._running.shell.name} could not be stopped: {trouble}")
        else:
            self._kept.outputs.append(_output(self._role, self._running.shell, self._other, done))


def _judge_ends(client: Output, server: Output, client_ended: bool, server_ended: bool) -> None:
    """Raise the error of the process that failed first, as far as the outputs show.

    A process that we stopped did not fail.
    """
    if server_ended and "already in use" in server.error:
        raise PortTaken
    if server_ended and server.returncode in _KILLED and (client.returncode not in _KILLED or not client_ended):
        raise explain(server)
    if not client_ended:
        raise TrafficError(
            f"the iperf3 server on {server.end} ended, but the client on {client.end} continued",
            f"check the link between {server.end} and {client.end}",
            client.evidence + server.evidence,
        )
    if client.failed or not client.stdout.strip():
        raise explain(client)
    if not server_ended:
        raise TrafficError(
            f"the iperf3 server on {server.end} did not end with its client",
            f"look at the load of {server.end}, then repeat",
            server.evidence,
        )
    if server.failed:
        raise explain(server)


def _server_trouble(server: Output) -> PinetError | PortTaken:
    return PortTaken() if "already in use" in server.error else explain(server)


def _output(role: ProcessRole, here: Shell, there: Shell, done: Completed) -> Output:
    began = next((float(found[1]) for found in _TOLD.finditer(done.stdout) if found[1]), None)
    return Output(role, here.name, there.name, done.returncode, _TOLD.sub("", done.stdout), done.stderr, began)
