"""Run the server and the load generator of one HTTP measurement.

The server is an nginx that serves a single file from memory and leaves nothing behind. It has its own configuration,
file and port, so other services of the machine are not touched. It runs as the user who logged in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from pytest_pinet.errors import TrafficError
from pytest_pinet.execution.shell import Completed, Shell
from pytest_pinet.model.traffic import HttpTraffic
from pytest_pinet.traffic import wrk
from pytest_pinet.traffic.processes import (
    CONNECT_TIMEOUT_S,
    LIFETIME_S,
    LISTENING,
    PortTaken,
    await_listening,
    await_traffic,
    begin_at,
    guarded,
    running,
)
from pytest_pinet.traffic.tool import TrafficJob

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


# nginx retries to bind for about this long.
BINDING_S = 3.0


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

    def both(self, job: TrafficJob) -> tuple[Completed, Completed]:
        """Run both processes to their ends. Return the results of server and client. Raises PortTaken or LabError."""
        served: list[Completed] = []
        asked: list[Completed] = []
        with running(self.server, self.server_command, "nginx", served.append) as server:
            if not await_listening(server, self.server, "nginx", self.port, BINDING_S):
                self._explain(server.wait(1.0))
            begin_s = None if job.before_client is None else job.before_client(self.client)
            with running(self.client, begin_at(begin_s) + self.client_command, "wrk", asked.append) as client:
                await_traffic(
                    lambda: client.poll() is not None,
                    (self.client, self.server),
                    self.traffic.seconds,
                    self._hanging,
                    on_progress=job.on_progress,
                    watch=job.watch,
                )
            died = server.poll() is not None
        if died:
            raise TrafficError(
                f"the nginx on {self.server.name} ended during the traffic",
                f"find out why it ended on {self.server.name} (console, dmesg, memory), then repeat",
                evidence(served[0], asked[0]),
            )
        return served[0], asked[0]

    def _explain(self, done: Completed) -> NoReturn:
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

    def _hanging(self, late_s: float) -> TrafficError:
        return TrafficError(
            f"wrk on {self.client.name} still runs {late_s:.0f} s after the traffic should have ended, though both "
            "ends answer",
            "look for a link that went down during the traffic",
        )


def evidence(served: Completed, asked: Completed) -> str:
    """Return the output of both processes, for a report."""
    parts = (("nginx", served.stdout + served.stderr), ("wrk", asked.stdout + asked.stderr))
    return "".join(f"{name}: {text.strip()}\n" for name, text in parts if text.strip())
