"""Run the server and the load generator of one HTTP measurement.

The server is an nginx that serves a single file from memory and leaves nothing behind. It has its own configuration,
file and port, so other services of the machine are not touched. It runs as the user who logged in.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pytest_pinet.errors import PinetError, TrafficError
from pytest_pinet.execution.shell import Completed, Process, Shell
from pytest_pinet.model.traffic import HttpTraffic
from pytest_pinet.traffic import wrk
from pytest_pinet.traffic.iperf3_run import PortTaken
from pytest_pinet.traffic.iperf3_watch import POLL_S, PROGRESS_S, SIGN_OF_LIFE_S, sign_of_life
from pytest_pinet.traffic.mid_run_probe import MidRunProbe
from pytest_pinet.traffic.process_guard import CONNECT_TIMEOUT_S, LIFETIME_S, LISTENING, begin_at, guarded
from pytest_pinet.traffic.tool import BeforeClient, Progress

# Paths are relative to the folder of ``-p``. The other end counts errors of single requests.
_CONFIGURATION = """\
daemon off;
worker_processes auto;
pid pid;
error_log error.log crit;
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  sendfile on; tcp_nopush on;
  keepalive_requests 1000000000; keepalive_timeout 1h;
  open_file_cache max=16;
  default_type application/octet-stream;
  server {{ listen {address}:{port}; root www; }}
}}
"""
# /dev/shm is in memory on every system with a C library. All processes are in one process group, led by the ssh login
# or by the command of the runner. Ending the group also ends workers whose master was killed. The second shell does
# this if the first one was killed or exceeds its lifetime. It checks once a second, in its own session if possible.
_SCRIPT = """\
PATH=$PATH:/usr/sbin:/sbin; me=$$; umask 022; {files}
d=$(mktemp -d /dev/shm/pinet-http-XXXXXX 2>/dev/null) || d=$(mktemp -d) || exit 1
clean() {{ trap '' HUP INT TERM; kill -TERM -- -$me 2>/dev/null; rm -rf "$d"; }}
own=; command -v setsid >/dev/null && own=setsid
$own sh -c 'trap "" HUP INT TERM; n=0; while kill -0 $1 && [ $n -lt {life} ]; do sleep 1; n=$((n+1)); done
  kill -TERM -- -$1; rm -rf "$2"; kill -KILL -- -$1' sh $me "$d" </dev/null >/dev/null 2>&1 & w=$!
trap 'kill -KILL $w; [ -z "$p" ] || {{ kill $p; wait $p; }} 2>/dev/null; clean' EXIT; trap 'exit 143' HUP INT TERM
chmod 755 "$d" && mkdir "$d/www" && head -c {size} /dev/zero >"$d/www/data" || exit 1
cat >"$d/nginx.conf" <<'CONFIGURATION'
{configuration}CONFIGURATION
nginx -p "$d/" -c "$d/nginx.conf" & p=$!
while kill -0 $p 2>/dev/null && ! {{ [ -s "$d/pid" ] && {listens}; }}; do sleep 0.02; done
kill -0 $p 2>/dev/null && echo '{listening}'
wait $p; r=$?; p=; head -c 4000 "$d/error.log" >&2; exit $r"""
PATH_OF_FILE = "/data"
# Shells begin with a limit of 1024 open files, and each connection is one (nginx needs more). Raise it to the hard
# limit.
MANY_FILES = "ulimit -n $(ulimit -H -n) 2>/dev/null || :"


def nginx_command(address: str, port: int, size: int, connections: int, lifetime_s: float) -> str:
    """Return the shell command line of a server, which prints LISTENING once clients can connect."""
    configuration = _CONFIGURATION.format(connections=2 * connections + 64, address=address, port=port)
    listens = f"grep -q ':{port:04X} 0*:0000 0A' /proc/net/tcp /proc/net/tcp6 2>/dev/null"
    return _SCRIPT.format(
        life=round(lifetime_s),
        size=size,
        configuration=configuration,
        listens=listens,
        listening=LISTENING,
        files=MANY_FILES,
    )


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
        return nginx_command(self.address, self.port, self.traffic.size, self.traffic.streams, life)

    @property
    def client_command(self) -> str:
        url = f"http://{self.address}:{self.port}{PATH_OF_FILE}"
        argv = wrk.argv(self.traffic, url, self.cores)
        return f"{MANY_FILES}; {guarded(argv, self.timeout, self.traffic.seconds + LIFETIME_S)}"

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
                f"the nginx on {self.server.name} ended during the traffic",
                f"find out why it ended on {self.server.name} (console, dmesg, memory), then repeat",
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
