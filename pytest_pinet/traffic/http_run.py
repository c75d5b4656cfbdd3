"""Run the server and the load generator of one HTTP measurement."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pytest_pinet.errors import PinetError, TrafficError
from pytest_pinet.execution.shell import Completed, Process, Shell
from pytest_pinet.model.traffic import HttpTraffic
from pytest_pinet.traffic import nginx, wrk
from pytest_pinet.traffic.iperf3_run import PortTaken
from pytest_pinet.traffic.iperf3_watch import POLL_S, PROGRESS_S, SIGN_OF_LIFE_S, sign_of_life
from pytest_pinet.traffic.mid_run_probe import MidRunProbe
from pytest_pinet.traffic.process_guard import CONNECT_TIMEOUT_S, LIFETIME_S, LISTENING, begin_at, guarded
from pytest_pinet.traffic.tool import BeforeClient, Progress

GRACE_S = 15.0
# nginx retries to bind for about this long.
SERVER_START_S = CONNECT_TIMEOUT_S + 3.0

__all__ = ["HttpRun", "PortTaken", "evidence"]


@dataclass(frozen=True)
class HttpRun:
    """One nginx on ``server`` and one wrk on ``client``.

    ``cores`` and ``timeout`` (a form of TIMEOUTS) are the client's.
    """

    traffic: HttpTraffic
    address: str
    port: int
    server: Shell
    client: Shell
    cores: int
    timeout: str

    @property
    def server_command(self) -> str:
        life = self.traffic.seconds + LIFETIME_S + CONNECT_TIMEOUT_S
        return nginx.command(self.address, self.port, self.traffic.size, self.traffic.streams, life)

    @property
    def client_command(self) -> str:
        url = f"http://{self.address}:{self.port}{nginx.PATH_OF_FILE}"
        argv = wrk.argv(self.traffic, url, self.cores)
        return f"{nginx.MANY_FILES}; {guarded(argv, self.timeout, self.traffic.seconds + LIFETIME_S)}"

    def both(
        self, on_progress: Progress | None, midway: MidRunProbe, before_client: BeforeClient | None
    ) -> tuple[Completed, Completed]:
        """Run both processes to their ends. Return the results of server and client. Raises PortTaken or LabError."""
        with _HttpStopper(self.server.spawn(self.server_command), self.server) as server:
            self._await_listening(server.process)
            begin_s = None if before_client is None else before_client(self.client)
            command = begin_at(begin_s) + self.client_command
            with _HttpStopper(self.client.spawn(command), self.client) as client:
                self._await_client(client.process, on_progress, midway)
            died = server.process.poll() is not None
        if died:
            raise TrafficError(
                f"the nginx on {self.server.name} ended in the middle of the traffic",
                f"look why it ended on {self.server.name}: its console, dmesg, memory; then repeat",
                evidence(server.done, client.done),
            )
        return server.done, client.done

    def _await_listening(self, server: Process) -> None:
        deadline = time.monotonic() + SERVER_START_S
        while LISTENING not in server.lines():
            if server.poll() is not None:
                self._explain(server.wait(1.0))
            if time.monotonic() > deadline:
                sign_of_life(self.server, "before the traffic")
                raise TrafficError(
                    f"the nginx on {self.server.name} does not listen on port {self.port} after {SERVER_START_S:g} s",
                    f"look at the load of {self.server.name}",
                )
            time.sleep(POLL_S / 4)

    def _explain(self, done: Completed) -> None:
        """Raise the error for a server that ended before a client could connect."""
        if "Address already in use" in done.stderr:
            raise PortTaken
        said = [line for line in done.stderr.splitlines() if "[emerg]" in line] or done.stderr.splitlines()
        why = said[-1].partition("[emerg]")[2].strip() or said[-1] if said else f"exit status {done.returncode}"
        raise TrafficError(
            f"nginx on {self.server.name} does not start: {why}",
            f"look at what nginx needs on {self.server.name}",
            done.stdout + done.stderr,
        )

    def _await_client(self, client: Process, on_progress: Progress | None, midway: MidRunProbe) -> None:
        """Wait for the end of wrk. Raises SshError if an end does not answer, TrafficError if wrk hangs."""
        seconds = self.traffic.seconds
        start = time.monotonic()
        next_sign, next_progress = start + SIGN_OF_LIFE_S, start + PROGRESS_S
        while client.poll() is None:
            midway.look()
            now = time.monotonic()
            if now >= next_sign:
                for shell in (self.client, self.server):
                    sign_of_life(shell, f"{now - start:.0f} s after the start of {seconds} s of traffic")
                next_sign = time.monotonic() + SIGN_OF_LIFE_S
            if now >= start + seconds + GRACE_S:
                raise TrafficError(
                    f"wrk on {self.client.name} still runs {now - start - seconds:.0f} s after the traffic should have "
                    "ended, though both ends answer",
                    "look for a link that went down during the traffic",
                )
            if on_progress is not None and now >= next_progress:
                on_progress(min(now - start, seconds))
                next_progress = now + PROGRESS_S
            time.sleep(POLL_S)


class _HttpStopper:
    """Stops a process, here and on its end, on every exit from the block.

    A failed stop never hides an earlier error.
    """

    def __init__(self, process: Process, shell: Shell) -> None:
        self.process = process
        self.done = Completed(0, "", "")
        self._shell = shell

    def __enter__(self) -> _HttpStopper:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.done = self.process.stop()
        except PinetError as trouble:
            if error is None:
                raise
            error.add_note(f"a process on {self._shell.name} could not be stopped: {trouble}")


def evidence(served: Completed, asked: Completed) -> str:
    """Return the output of both processes, for a report."""
    parts = (("nginx", served.stdout + served.stderr), ("wrk", asked.stdout + asked.stderr))
    return "".join(f"{name}: {text.strip()}\n" for name, text in parts if text.strip())
