"""Formats that boards, switches, kernel trees and other programs write: see `targets`."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import yaml

from pytest_pinet.builds.config_txt import evaluate, first_line, pi_models
from pytest_pinet.builds.kernel_tree import SCRIPT, KernelTree
from pytest_pinet.catalogue.maintainers import Owner, parse_contacts
from pytest_pinet.errors import PinetError, SwitchError, Where
from pytest_pinet.exact.results import read_counts, read_results, with_functions
from pytest_pinet.exact.store import dumps, loads
from pytest_pinet.judge.ktap import read_ktap
from pytest_pinet.lab.switch import cli_family
from pytest_pinet.lab.switch.cli import CliSwitch
from pytest_pinet.lab.switch.cli_session import RefusedError
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.linux import Bridges, LinuxSwitch
from pytest_pinet.lab.switch.switchport import PortState
from pytest_pinet.model.lab import Switch
from pytest_pinet.report.allure.identity import allure2_history, allure3_history, known_tests, remembered, runs_of
from pytest_pinet.scheduling.planner import Estimates
from pytest_pinet.tuning.journal import replay
from tests.support.board_answers import Answering
from tests.support.exact_boots import boot
from tools.fuzz.target import ROOT, SCRATCH, Target, as_text, in_file

PARTS = b"\n=== next ===\n"
KTAP = b"""\
TAP version 13
1..1
# selftests: drivers/net: ping.py
# KTAP version 1
# 1..3
# ok 1 ping.test_v4
# ok 2 ping.test_v6 # SKIP Test requires IPv6 connectivity
# not ok 3 ping.test_tcp
not ok 1 selftests: drivers/net: ping.py # exit=1
"""
EXACT = b"""\
banner Linux version 6.1.0-56-arm64 #1 SMP
driver e1000e
window pktgen tx 60 2500 130225000 50
window request tx 128 300 246160000 -
symbols
ffff800008000000 _text
ffff800008010000 memset
ffff80007a000000 e1000_receive_skb\t[e1000e]
end
"""
COUNTS = struct.pack("=4s8Q", b"SNAP", 2, 0xFFFF800008010000, 0xFFFF80007A000000, 2, 0, 40, 1, 10) + struct.pack(
    "=4s4Q", b"SNAP", 0, 1, 1, 60
)
CONFIG_TXT = b"""\
include other.txt
kernel=kernel8.img
[pi4]
initramfs initrd.img,second.img followkernel
[board-type=0x11]
os_prefix=new/
[all]
auto_initramfs=1
device_tree=bcm2711-rpi-4-b.dtb
[0x12345678]
[gpio4=1]
arm_64bit=0
"""
OTHER_TXT = b"include config.txt\n[none]\ncmdline=x.txt\n"
CONTACTS = b"""\
Doug Berger <opendmb@gmail.com> (supporter:BROADCOM GENET ETHERNET DRIVER)
netdev@vger.kernel.org (open list:NETWORKING DRIVERS)
linux-kernel@vger.kernel.org (open list)
"""
MAKEFILE = b"""\
obj-$(CONFIG_BCMGENET) += genet.o
genet-y := bcmgenet.o \\
	bcmmii.o
obj-m += e1000e.o
"""
STATES = b"""\
0x1003|1|1000|full|br0|1
0x1002|0|-1|unknown||
[{"ifname":"lan1","vlans":[{"vlan":1,"flags":["PVID","Egress Untagged"]},{"vlan":5,"vlanEnd":8}]}]
"""
COUNTERS = b"boot-2 155406 509 0 0 12 0\nboot-3 1 2 3 4 5 6\n"
NEIGHBOURS = b"""\
[{"mac":"DC:A6:32:01:02:03","ifname":"lan1","flags":[],"master":"br-lan","state":""}]

---
{"lldp": [{"interface": [{"name": "lan1", "chassis": [{"id": [{"type": "mac", "value": "dc:a6:32:01:02:02"}],
 "name": [{"value": "pi4b-1"}]}],
 "port": [{"id": [{"type": "ifname", "value": "eth0"}], "descr": [{"value": "x"}]}]}]}]}
"""
ALLURE = json.dumps({
    "uuid": "a", "name": "pi4b:onboard/pair", "testCaseId": "c1", "historyId": "h1", "status": "failed",
    "parameters": [{"name": "combination", "value": "pi4b:onboard/pair"}],
    "labels": [{"name": "figure", "value": "pi4b:onboard/pair/tcp-P1-tx"}, {"name": "suite", "value": "x"}],
}).encode()  # fmt: skip
MEMORY = json.dumps({"c1": ["pi4b:onboard/pair/tcp-P1-tx"], "c2": []}).encode()
PROCESS = {"host": "runner", "boot": "x", "machine": "ffff", "pid": 999999, "start": 1}
SWITCH_JOURNAL = json.dumps(
    {"lab": "/lab.yaml", "switches": {"sw1": {"p1": {"state": {"admin_up": True, "vlan": 3}, **PROCESS}}}}
).encode()
REPLAYED = b"done # mtu of pi4b-1:usb: \nfailed # governor of pi4b-1: sh: 1: cannot create x: Permission denied\n"
RESULTS = b'{"test": "t.py::a[x]", "seconds": 5.1, "traffic_seconds": 3.0}\n{"test": "t.py::b", "seconds": 1}\n'


def _exact(data: bytes) -> None:
    written, _, counts = data.partition(PARTS)
    with suppress(PinetError):
        read_counts(counts)
    results = read_results(written.decode("utf-8", "replace"))
    with_functions(results, read_counts(counts), 0x40200000)


def _config_txt(data: bytes) -> None:
    config, _, other = (part.decode("utf-8", "replace") for part in data.partition(PARTS))
    for model in pi_models().values():
        found = evaluate({"config.txt": config, "other.txt": other}.get, model)
        found.files(lambda path: len(path) % 2 == 0)
    first_line(config)


def _maintainers(data: bytes) -> None:
    contacts, _, makefile = data.partition(PARTS)
    owner = Owner("x", "y", parse_contacts(contacts.decode("utf-8", "replace")), "z")
    for value in (owner.entries, owner.to, owner.lists):
        list(value)
    tree = SCRATCH / "tree-of-maintainers"
    for name, content in (
        ("MAINTAINERS", b""),
        (SCRIPT, b""),
        ("Makefile", contacts),
        ("drivers/net/Makefile", makefile),
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    kernel = KernelTree(tree)
    for driver in ("genet", "e1000e", "nosuch"):
        kernel.file_of(driver)
    str(kernel.source)


def _allure(data: bytes) -> None:
    folder = SCRATCH / "allure"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    result, _, memory = data.partition(PARTS)
    (folder / "a-result.json").write_bytes(result)
    (folder / "memory.json").write_bytes(memory)
    tests = remembered(known_tests(folder), folder / "memory.json")
    runs = runs_of((), "")
    [test.allure3_id for test in tests]
    allure3_history(runs, tests)
    allure2_history(runs, tests)


def _linux_switch(text: str) -> None:
    ports = ("lan1", "lan2")
    switch = Switch("sw1", "linux", ports, {}, Where("lab.yaml", 3))
    linux = LinuxSwitch(switch, Answering(text), Bridges(1, "br-lan"))  # type: ignore[arg-type]
    for act in (linux.states, linux.counters, linux.neighbours):
        with suppress(SwitchError):
            act(ports)


class _Session:
    """A command line with these answers to its commands, in any order of the questions."""

    def __init__(self, commands: Iterable[str], answers: Iterable[str]) -> None:
        self._answers = dict(zip(commands, chain(answers, repeat("")), strict=False))

    def ask(self, command: str) -> str:
        if command not in self._answers:
            raise RefusedError(f"no answer to {command!r}")
        return self._answers[command]

    def change(self, commands: Iterable[str]) -> None:
        for _ in commands:
            pass

    def close(self) -> None: ...


@cache
def _families() -> Mapping[str, Any]:
    path = ROOT / "tests/unit/lab/switch/switch_family_samples.yaml"
    found: Mapping[str, Any] = yaml.safe_load(path.read_text())
    return found


def _of_family(name: str) -> Target:
    def read(data: bytes) -> None:
        own = _families()[name]
        session = _Session(own["shows"], data.decode("utf-8", "replace").split(PARTS.decode()))
        ports = tuple(own["ports"])
        where = Where("lab.yaml", 3)
        switch = CliSwitch(Switch("sw1", "cli", ports, {}, where), cli_family.load(name, where), session)
        acts: tuple[Callable[[], object], ...] = (
            lambda: switch.states(ports),
            lambda: switch.counters(ports[:1]),
            lambda: switch.neighbours(ports),
            lambda: switch.configure({ports[0]: PortState(vlan=7)}),
        )
        for act in acts:
            with suppress(SwitchError):
                act()

    return Target(lambda: [PARTS.join(one.encode() for one in _families()[name]["shows"].values())], read)


def _switch_journal(data: bytes) -> None:
    folder = SCRATCH / "journal"
    shutil.rmtree(folder, ignore_errors=True)
    journal = Journal("/lab.yaml", folder)
    journal.record("sw1", {"p1": PortState(vlan=3)})
    (page,) = folder.glob("*.json")
    page.write_bytes(data)
    journal.left_behind()
    journal.original("sw1", "p1")
    journal.forget("sw1", ["p1"])


def _estimates(data: bytes) -> None:
    folder = SCRATCH / "runs" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    in_file("runs/1/results.jsonl", data)
    Estimates.of_earlier_runs(Path(SCRATCH) / "runs")["x"]


def _ktap(written: str) -> None:
    if (found := read_ktap(written)) is not None:
        str((found.verdict, found.sentence))


MORE: Mapping[str, Target] = {
    "KTAP": Target(lambda: [KTAP], as_text(_ktap)),
    "exact results": Target(lambda: [EXACT + PARTS + COUNTS], _exact),
    "exact boot": Target(lambda: [dumps(boot())], loads, (ValueError,)),
    "config.txt": Target(lambda: [CONFIG_TXT + PARTS + OTHER_TXT], _config_txt),
    "MAINTAINERS": Target(lambda: [CONTACTS + PARTS + MAKEFILE], _maintainers),
    "Allure": Target(lambda: [ALLURE + PARTS + MEMORY, ALLURE], _allure),
    "Linux switch": Target(lambda: [STATES, COUNTERS, NEIGHBOURS], as_text(_linux_switch)),
    **{f"switch {name}": _of_family(name) for name in ("cisco_ios", "mikrotik_routeros")},
    "switch journal": Target(lambda: [SWITCH_JOURNAL], _switch_journal),
    "tuning journal": Target(lambda: [REPLAYED], as_text(lambda text: replay(Answering(text)))),  # type: ignore[arg-type]
    "estimates": Target(lambda: [RESULTS], _estimates),
}
