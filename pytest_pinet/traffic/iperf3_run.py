"""Run the two processes of one iperf3 run, from start to end."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pytest_pinet.errors import LabError, TrafficError
from pytest_pinet.execution.shell import Completed, Process, Shell
from pytest_pinet.traffic.iperf3_command import (
    FLOWING,
    SLOW_CLOCK_S,
    Iperf3Run,
    client_command,
    client_is_dut,
    server_command,
)
from pytest_pinet.traffic.iperf3_trouble import Output, ProcessRole, explain
from pytest_pinet.traffic.processes import (
    ANSWER_S,
    ENDED,
    LISTENING,
    REPORT,
    PortTaken,
    await_end,
    await_listening,
    await_traffic,
    running,
    sign_of_life,
)
from pytest_pinet.traffic.tool import TrafficJob

# How long the client may go on after its server ended; it notices a closed connection at once.
ORPHAN_S = 1.5
# A one-off server ends with its client. It has this long to do so, and less after a failed client.
SERVER_END_S = 3.0
KILLED_END_S = 0.5
_KILLED = (127, 137, 143)

_TOLD = re.compile(rf"^(?:{LISTENING}|{FLOWING}( \d+\.\d+)?)\n", re.MULTILINE)
_AT_END = re.compile(rf"^{ENDED}\n(.*?)^{REPORT}\n", re.MULTILINE | re.DOTALL)


def run_both(run: Iperf3Run, job: TrafficJob) -> tuple[Output, Output]:
    """Run both processes to their ends and return their outputs, the client's first.

    When this returns or raises, neither process runs on. Raises PortTaken, LabError or UnsupportedError.
    """
    is_dut = client_is_dut(run.traffic.direction, run.sends)
    client, server = (job.dut, job.peer) if is_dut else (job.peer, job.dut)
    outputs: list[Output] = []

    def near_output(done: Completed) -> Output:
        return _output(ProcessRole.CLIENT, client, server, done)

    def far_output(done: Completed) -> Output:
        return _output(ProcessRole.SERVER, server, client, done)

    with (
        _evidence_of(outputs),
        running(server, server_command(run), "iperf3", lambda done: outputs.append(far_output(done))) as far,
    ):
        if not await_listening(far, server, "iperf3 server", run.port):
            told = far_output(far.wait(1.0))
            raise PortTaken if "already in use" in told.error else explain(told)
        if job.before_client is not None:
            run = replace(run, begin_s=job.before_client(client))
        with running(client, client_command(run), "iperf3", lambda done: outputs.append(near_output(done))) as near:
            _await_client(run, job, (client, near), (server, far))
            client_ended = near.poll() is not None
            client_output = near_output(near.stop())
        # The read of a slow board at the end of the traffic comes first.
        end_s = SERVER_END_S + (SLOW_CLOCK_S if run.server.at_end else 0.0)
        server_ended = await_end(far, KILLED_END_S if client_output.failed else end_s)
        if client_output.failed or not client_ended or not server_ended:
            # The message of a run with a hanging end ("cannot be reached") would send people to the cable.
            for shell in (client, server):
                sign_of_life(shell, "at the end of the run")
        server_output = far_output(far.stop())
        _judge_ends(client_output, server_output, client_ended, server_ended)
    return client_output, server_output


@contextmanager
def _evidence_of(outputs: list[Output]) -> Iterator[None]:
    """Add the output of both processes to an error that ends the run: it is evidence, and gives no result."""
    try:
        yield
    except LabError as error:  # an end that does not support the request moved nothing
        known = error.evidence if isinstance(error, TrafficError) else ""
        text = "".join(o.evidence for o in outputs if o.stdout.strip() and o.evidence not in known)
        if isinstance(error, TrafficError):
            error.add_evidence(text)
        elif text:
            error.add_note(text)
        raise


def _await_client(
    run: Iperf3Run, job: TrafficJob, client: tuple[Shell, Process], server: tuple[Shell, Process]
) -> None:
    """Wait for the end of the client, or for an early end of the server. Raises SshError or TrafficError."""
    orphan_since: float | None = None
    # The output of a slow board is held back until the board has read what it reads at the end of the traffic.
    orphan_s = ORPHAN_S + (SLOW_CLOCK_S if run.client.at_end else 0.0)

    def ended() -> bool:
        nonlocal orphan_since
        if client[1].poll() is not None:
            return True
        if server[1].poll() is not None and orphan_since is None:
            orphan_since = time.monotonic()
        return orphan_since is not None and time.monotonic() > orphan_since + orphan_s

    def hanging(late_s: float) -> TrafficError:
        states = [_state(client[0], "-c", run.port), _state(server[0], "-s", run.port)]
        ends = f"the client on {client[0].name} and the server on {server[0].name}"
        return TrafficError(
            f"iperf3 still runs {late_s:.0f} s after the traffic should have ended, though both ends answer "
            f"({ends}; {'; '.join(states)})",
            "look for a stopped or starved iperf3, and for a link that went down during the traffic",
        )

    await_traffic(
        ended,
        (client[0], server[0]),
        run.seconds,
        hanging,
        grace_s=run.patience_s,
        on_progress=job.on_progress,
        watch=job.watch,
        quiet=run.quiet,
    )


def _state(shell: Shell, option: str, port: int) -> str:
    # Find our iperf3, not another one on this end. Uses /proc, since ps may be missing.
    look = (
        'for p in /proc/[0-9]*; do read -r name 2>/dev/null <$p/comm && [ "$name" = iperf3 ] || continue; '
        f"tr '\\0' ' ' <$p/cmdline | grep -q -- ' {option} .* -p {port} ' && grep ^State: $p/status; done; true"
    )
    try:
        found = shell.run(look, timeout_s=ANSWER_S).stdout.split("\n")[0]
    except LabError as error:
        return f"{shell.name}: {error.message}"
    return f"{shell.name}: {' '.join(found.split()) or 'no such process'}"


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


def _output(role: ProcessRole, here: Shell, there: Shell, done: Completed) -> Output:
    began = next((float(found[1]) for found in _TOLD.finditer(done.stdout) if found[1]), None)
    at_end = _AT_END.search(done.stdout)
    report = _TOLD.sub("", _AT_END.sub("", done.stdout))
    return Output(role, here.name, there.name, done.returncode, report, done.stderr, began, at_end[1] if at_end else "")
