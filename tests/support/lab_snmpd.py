"""net-snmp's own agent inside the switch of the virtual lab, for gates on a switch that is managed by SNMP.

The lab reaches the agent through the ssh server of the switch, as through the host of labgrid's exporter. Ports stay in
their bridge: the VLANs are tables of `snmp_tables_agent`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from tests.support.gate_project import GateLab
from tests.support.snmp_tables_agent import FIRST
from tests.support.snmpd_agent import BRIDGE_AND_POE, CONFIGURATION, COUNTERS, PORT, TABLES_AGENT, passed

_FOLDER = "/run/snmp"
_LLDPD = "lldpd -k -I 'p*' -O /run/pinet/lldpd.conf"
# lldpd leaves the file of its pid behind.
_STOP_LLDPD = (
    "pid=$(cat /run/lldpd.pid); kill $pid; n=0;"
    " while kill -0 $pid 2>/dev/null && [ $n -lt 100 ]; do sleep 0.05; n=$((n + 1)); done"
)
_START = f"""\
cd {_FOLDER} && export MIBS= SNMPCONFPATH={_FOLDER} SNMP_PERSISTENT_DIR={_FOLDER}/kept PATH=$PATH:/usr/sbin:/sbin
snmpd -C -c {_FOLDER}/snmpd.conf -p {_FOLDER}/pid -LE 4 -Lf {_FOLDER}/log >{_FOLDER}/output 2>&1 </dev/null
{_STOP_LLDPD}; {_LLDPD} -x -X tcp:127.0.0.1:1705 >/dev/null 2>&1 </dev/null
"""
_STOP = f"kill $(cat {_FOLDER}/pid); {_STOP_LLDPD}; rm -rf {_FOLDER}; {_LLDPD} >/dev/null 2>&1 </dev/null"
_POLL_S = 0.05


class SwitchAgent:
    """The agent of the switch ``sw1``."""

    def __init__(self, lab: GateLab) -> None:
        self._lab = lab

    def execute(self, command: str, text: str = "") -> str:
        """Run a command on the switch, with this text as its input."""
        port = self._lab.environment["LG_SWITCH_SW1"].rpartition(":")[2]
        argv = ["ssh", "-F", "none", "-i", self._lab.environment["LG_KEYFILE"], "-p", port, "-oLogLevel=ERROR"]
        argv += ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "root@127.0.0.1", command]
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def lab_file(self, folder: Path, text: str, **settings: str) -> Path:
        """Write a lab file of the running lab in which ``sw1`` is managed by SNMP with these settings."""
        old = '      address: !template "$LG_SWITCH_SW1"\n'
        lines = "".join(f"      {name}: {value}\n" for name, value in settings.items())
        new = f'      address: snmp://127.0.0.1:{PORT}\n      proxy: !template "$LG_SWITCH_SW1"\n{lines}'
        assert text.count(old) == text.count("backend: linux") == 1
        file = folder / "lab.yaml"
        file.write_text(text.replace("backend: linux", "backend: snmp").replace(old, new))
        return file


@contextmanager
def lab_snmpd(lab: GateLab, mode: str, fed: Mapping[str, str] | None = None) -> Iterator[SwitchAgent]:
    """Run snmpd in the switch ``sw1``, with the tables of a mode of ``snmp_tables_agent``.

    ``fed`` has the node that each port powers. Its outlet follows the PoE setting of the port, which is off at first.
    """
    agent = SwitchAgent(lab)
    numbers = {str(FIRST - 1 + int(port.removeprefix("p"))): node for port, node in (fed or {}).items()}
    files = {
        "tables.py": TABLES_AGENT.read_text(),
        "snmpd.conf": CONFIGURATION.format(port=PORT)
        + passed(f"/usr/bin/env python3 {_FOLDER}/tables.py", mode, (*BRIDGE_AND_POE, *COUNTERS)),
        "poe": json.dumps(dict.fromkeys(numbers, 2)),
    }
    for name, text in files.items():
        agent.execute(f"mkdir -p {_FOLDER} && cat >{_FOLDER}/{name}", text)
    agent.execute(_START)
    ended = Event()
    feeding = Thread(target=_feed, args=(lab, agent, numbers, ended))
    feeding.start()
    try:
        yield agent
    finally:
        ended.set()
        feeding.join()
        agent.execute(_STOP)


def _feed(lab: GateLab, agent: SwitchAgent, numbers: Mapping[str, str], ended: Event) -> None:
    """Let the outlets of nodes follow the PoE of their ports."""
    seen = dict.fromkeys(numbers, 2)
    while numbers and not ended.wait(_POLL_S):
        with suppress(ValueError):
            now = json.loads(agent.execute(f"cat {_FOLDER}/poe"))
            for number, node in numbers.items():
                if now[number] != seen[number]:
                    seen[number] = now[number]
                    lab.switch_power(now[number] == 1, node)
