"""The command line of an nginx that serves a single file from memory and leaves nothing behind.

It has its own configuration, file and port, so other services of the machine are not touched. It runs as the user who
logged in.
"""

from __future__ import annotations

from pytest_pinet.traffic.process_guard import LISTENING

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


def command(address: str, port: int, size: int, connections: int, lifetime_s: float) -> str:
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
