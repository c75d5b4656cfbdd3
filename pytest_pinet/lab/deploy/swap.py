"""The script that replaces a module and restores the state of its network devices."""

from __future__ import annotations

import shlex

# Enough time for the probe of a USB adapter; a PCIe NIC is faster.
DEVICES_S = 15

_SCRIPT = """\
PATH=$PATH:/usr/sbin:/sbin; LC_ALL=C; export LC_ALL
m={module}; status={status}
say() {{ [ $status = /dev/null ] || {{ echo "$1" | tr '\\n' ' ' > $status.new; mv $status.new $status; }}; }}
had=$(for d in /sys/class/net/*; do
  l=$(readlink -f $d/device/driver/module 2>/dev/null); [ "${{l##*/}}" != $m ] || echo ${{d##*/}}; done)
keep=$(for d in $had; do
  [ "$(( $(cat /sys/class/net/$d/flags) & 1 ))" = 0 ] || echo "ip link set dev $d up"
  ip -o addr show dev $d scope global | while read -r _ _ _ a _; do echo "ip addr replace $a dev $d"; done
  ip -o route show dev $d proto static | while read -r r; do echo "ip route replace $r dev $d"; done
  ip -o route show default dev $d | while read -r r; do echo "ip route replace $r dev $d"; done; done)
back() {{
  n=0; while [ $n -lt {tenths} ]; do
    gone=; for d in $had; do [ -e /sys/class/net/$d ] || gone="$gone $d"; done
    [ -n "$gone" ] || break
    sleep 0.1; n=$((n + 1)); done
  echo "$keep" | while read -r c; do [ -z "$c" ] || $c 2>/dev/null; done
  [ -z "$gone" ]; }}
if grep -q "^$m " /proc/modules; then
  e=$(rmmod $m 2>&1) || {{ say "busy $e"; exit 1; }}; fi
if e=$( {{ {load}; }} 2>&1 ); then
  if back; then say ok; exit 0; fi
  why="lost$gone"; rmmod $m 2>/dev/null
else why="refused $e"; fi
{rescue}
say "$why"; exit 1
"""


def swap_script(module: str, load: str, status: str, rescue: str = "") -> str:
    """Return the script. ``load`` loads the new module; if that fails, ``rescue`` loads the known-good one.

    The file ``status`` gets ``ok``, or ``busy``, ``refused`` or ``lost`` with a text that explains it.
    """
    return _SCRIPT.format(
        module=module,
        load=load,
        status=shlex.quote(status),
        rescue=f"{rescue} 2>/dev/null; back" if rescue else ":",
        tenths=DEVICES_S * 10,
    )
