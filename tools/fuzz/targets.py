"""What is fuzzed: each format with samples, and what reads it. A reader may refuse its input with our own errors."""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache

from pytest_pinet.builds.archives import Unreadable, deb_files, tar_files
from pytest_pinet.builds.kernel_files import Loader, read_image, read_module
from pytest_pinet.builds.load import load_build
from pytest_pinet.builds.places import read_metadata
from pytest_pinet.config import labfile
from pytest_pinet.config.baselines import read_acknowledged, read_baselines
from pytest_pinet.config.calibration import read_calibration
from pytest_pinet.errors import PinetError, Where
from pytest_pinet.evidence import sockets
from pytest_pinet.evidence.build import MARK, parse_settings, settings_commands
from pytest_pinet.evidence.collecting import script, sections, sources
from pytest_pinet.evidence.fdt import NotDeviceTree, read_device_tree
from pytest_pinet.evidence.nics import parse_board
from pytest_pinet.evidence.node_state import parse_temperature, parse_throttled
from pytest_pinet.evidence.sources import Texts
from pytest_pinet.execution.text import for_log
from pytest_pinet.history.compare import RunSet, compared
from pytest_pinet.history.history import import_lines, lines_of
from pytest_pinet.history.points import Point, StoredRun
from pytest_pinet.history.records import points_of
from pytest_pinet.history.results_file import HEAD, LINES, read_run, record_of
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.lab.console.record import plain_line, recognise
from pytest_pinet.lab.node import management
from pytest_pinet.lab.switch import cli_family
from pytest_pinet.model.evidence import EndEvidence
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.report.export.openmetrics import openmetrics
from pytest_pinet.report.markdown import summary_markdown
from pytest_pinet.report.page.page import page
from pytest_pinet.report.sentences import comparison_table
from pytest_pinet.report.terminal import summary_table
from pytest_pinet.report.trends import all_series
from pytest_pinet.traffic import ping
from pytest_pinet.traffic.http import parse_wrk
from pytest_pinet.traffic.iperf3_parser import flows
from pytest_pinet.traffic.iperf3_report import read
from pytest_pinet.traffic.iperf3_trouble import Output, ProcessRole, error_text, partial
from tests.support import build_files as made
from tests.support.gate_records import gated_run
from tests.support.history_records import day, kept
from tests.support.report_records import NIGHT, run_record
from tools.fuzz.board_targets import BOARDS
from tools.fuzz.build_targets import BUILDS
from tools.fuzz.more_targets import MORE
from tools.fuzz.target import SCRATCH, Target, as_text, files, in_file


def _lab(data: bytes) -> object:
    return labfile.load(in_file("lab.yaml", data))


def _results(data: bytes) -> None:
    _show(read_run(in_file("results.json", data)))


def _killed(data: bytes) -> None:
    head, _, lines = data.partition(PARTS.encode())
    in_file(HEAD, head)
    _show(record_of(in_file(LINES, lines))[0])


def _show(run: RunRecord) -> None:
    stored, points = points_of(run, "", "results.json")
    for text in (*summary_table(run.results, run.skipped), summary_markdown(run), openmetrics(points)):
        for_log(text).encode("utf-8")
    side = RunSet("a", tuple(points))
    comparison_table(side, side, compared(side, side, 0.03))
    _show_history([(stored, points)])


def _show_history(runs: Sequence[tuple[StoredRun, list[Point]]]) -> None:
    database = SCRATCH / "history.db"
    for file in SCRATCH.glob("history.db*"):
        file.unlink()
    with HistoryStore.open(str(database), create=True) as store:
        store.add_all(runs)
        list(lines_of(store.everything()))
        page(all_series(store, 20), datetime(2026, 1, 1, tzinfo=UTC), None)


def _history(data: bytes) -> None:
    for file in SCRATCH.glob("history.db*"):
        file.unlink()
    with HistoryStore.open(str(SCRATCH / "history.db"), create=True) as store:
        refused: list[str] = []
        import_lines(store, data.decode("utf-8", "replace").splitlines(), "h.jsonl", refused.append)
        list(lines_of(store.everything()))
        page(all_series(store, 20), datetime(2026, 1, 1, tzinfo=UTC), None)


def _iperf3(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    partial(text)
    error_text(text)
    for way in Direction:
        with suppress(PinetError):
            report = read(Output(ProcessRole.CLIENT, "a", "b", 0, text, ""))
            flows(Traffic(way, duration_s=2, warmup_s=None), report, report)


def _families(data: bytes) -> None:
    for name in ("own", "cisco_ios", "mikrotik_routeros"):
        with suppress(PinetError):
            cli_family.load(name, Where("lab.yaml", 1), str(in_file("f.yaml", data)))


def _build(data: bytes) -> object:
    folder = SCRATCH / "build"
    folder.mkdir(exist_ok=True)
    made.write(folder, {"Image": made.image(), "modules.tar": made.tar(made.tree()), "build.yaml": data})
    return load_build(str(folder))


def _tree(data: bytes) -> object:
    folder = SCRATCH / "tree"
    folder.mkdir(exist_ok=True)
    (folder / "bcm2711.dtb").write_bytes(data)
    (folder / "build.yaml").write_text("device_trees: bcm2711.dtb\n")
    with suppress(PinetError):
        load_build(str(folder))
    return read_device_tree(data)


def _console(data: bytes) -> None:
    for line in data.splitlines():
        recognise(plain_line(line))


@cache
def _readings() -> list[bytes]:
    """Return what this machine says of its loopback before and after traffic, in one text."""
    shell = ["sh", "-c", f"{script('lo')}\necho {PARTS}\n{script('lo', 1.0)}"]
    return [subprocess.run(shell, capture_output=True, timeout=60, check=False).stdout]


def _evidence(data: bytes) -> None:
    before, _, after = data.decode("utf-8", "replace").partition(PARTS)
    first, last = sections(before, "lo"), sections(after, "lo")
    for source in sources():
        source.add(EndEvidence("pi:lo", "lo"), Texts(first.get(source.name, ""), last.get(source.name, "")))
    parse_settings("".join(f"{MARK}{part}\n{before}\n" for part in settings_commands("lo")))


def _left_by(run: RunRecord) -> bytes:
    """Return what a run leaves if it is killed: its own data and the lines of its results."""
    head = run.dump()
    results = head.pop("results")
    return "\n".join([json.dumps(head), PARTS, *map(json.dumps, results)]).encode()


PARTS = "=== after ==="
RUNS = (day(1), run_record(NIGHT), gated_run(2))
BOARD = b"model=Raspberry Pi 4\nown=/x\ndevice=eth0\nmac=dc:a6:32:01:02:03\ndriver: bcmgenet\nbus-info: fd58.ethernet\n"
MANAGED = b"server 192.0.2.1\nroute 192.0.2.9 dev eth0\naddress eth0 192.0.2.1/24\nlower br0 eth0\neth0.5 VID: 5\n"
MANAGED += (
    b"usb /sys/devices/usb1/1-1/1-1.1:1.0 eth0\npart eth1 /sys/class/net/br0\nwifi wlan0\nroot eth0\n"
    b"4: eth0.7@eth0: <UP> mtu 1500 vlan protocol 802.1Q id 7 <REORDER_HDR> addrgenmode eui64\n"
)
OCTETS = b"""\
uptime 812.40
0      60     192.168.1.7:22 192.168.1.2:42150
\t cubic rtt:3.011/3.409 mss:1448 bytes_sent:3241 bytes_acked:3181 bytes_received:3677 segs_out:26 segs_in:22 send 1bps
"""
BASELINES = b"""\
baselines:
- id: pi4b:onboard/pair/tcp-P1-tx
  goodput: 941 Mbit/s
  runs: [941 Mbit/s, 940 Mbit/s]
  date: '2026-11-21'
  reason: right
  sessions: [{day: '2026-11-20', runs: 2}]
  build: {kernel: 6.12.25}
"""
ACKNOWLEDGED = b"""\
acknowledged:
- id: pi4b:onboard/pair/tcp-P1-tx
  owner: Ann
  until: '2026-12-31'
  link: https://lore.kernel.org/r/1
  goodput: 895.8 Mbit/s
  date: '2026-11-16'
"""
BUILD = (
    b"name: x\nkernel: Image\nmodules: [modules.tar]\ncmdline: [a, b]\nconfig: [dtparam=x]\n"
    b"options: {e1000e: {debug: 1}}\n"
)
KERNEL_LINES = (
    b"[    1.5] Kernel panic - not syncing: x\n<3>[   2.0] eth0: transmit queue 0 timed out\n[ 3.0] Oops: 1 [#1]\n"
)

TARGETS: Mapping[str, Target] = {
    "lab file": Target(files("lab/*.yaml"), _lab),
    "results.json": Target(
        lambda: [json.dumps(one.dump()).encode() for one in RUNS],
        _results,
    ),
    "killed run": Target(lambda: [_left_by(one) for one in RUNS], _killed),
    "history": Target(
        lambda: [*files("tests/data/history/*.jsonl")(), "\n".join(lines_of(kept([day(1), gated_run(2)]))).encode()],
        _history,
    ),
    "iperf3": Target(files("tests/data/iperf3/*/*.json"), _iperf3),
    "build.yaml": Target(
        lambda: [BUILD, b"kernel: Image\nsysctls: {net.ipv4.tcp_sack: 0}\nfirmware: {a/b: Image}\n"], _build
    ),
    "metadata.json": Target(
        files("tests/data/artefacts/*.json"), lambda data: read_metadata(data, Where("metadata.json"), "folder")
    ),
    "kernel": Target(lambda: [made.image(), made.zboot(b"\x1f\x8b" * 9)], read_image, (Unreadable, Loader)),
    "module": Target(lambda: [made.module("e1000e")], lambda data: read_module(data, "x.ko"), (Unreadable,)),
    "package": Target(
        lambda: [made.package(made.tree())],
        lambda data: list(deb_files(in_file("x.deb", data))),
        (Unreadable, OSError),
    ),
    "archive": Target(lambda: [made.tar(made.tree())], lambda data: list(tar_files(data)), (Unreadable,)),
    "device tree": Target(lambda: [made.device_tree(), *files("tests/data/**/*.dtb")()], _tree, (NotDeviceTree,)),
    "baselines": Target(lambda: [BASELINES], lambda data: read_baselines(in_file("b.yaml", data))),
    "acknowledged": Target(lambda: [ACKNOWLEDGED], lambda data: read_acknowledged(in_file("acknowledged.yaml", data))),
    "calibration": Target(
        lambda: [*files("lab/*.calibration.yaml", "pytest_pinet/labs/*.calibration.yaml")(), b"calibration: []\n"],
        lambda data: read_calibration(in_file("c.yaml", data)),
    ),
    "switch family": Target(
        lambda: [b"own:\n  like: cisco_ios\n  title: x\n", *files("pytest_pinet/catalogue/switch_families/*.yaml")()],
        _families,
    ),
    "ping": Target(files("tests/data/ping/*"), as_text(ping.parse), (ValueError,)),
    "wrk": Target(files("tests/data/wrk/*"), as_text(parse_wrk), (PinetError, ValueError)),
    "ss": Target(files("tests/data/ss/*"), as_text(lambda text: sockets.parse_sockets(text, 1))),
    "board": Target(lambda: [BOARD], as_text(parse_board)),
    "management": Target(lambda: [MANAGED], as_text(management.parse)),
    "octets": Target(lambda: [OCTETS], as_text(sockets.parse_octets)),
    "temperature": Target(
        lambda: [b"temp=48.3'C\nthrottled=0x50005\n", b"48300\n"],
        as_text(lambda text: (parse_temperature(text), parse_throttled(text))),
    ),
    "evidence": Target(_readings, _evidence),
    "console": Target(lambda: [KERNEL_LINES], _console),
    **MORE,
    **BOARDS,
    **BUILDS,
}


def prepare() -> None:
    """Keep what the readers write below a folder of this run."""
    os.environ["XDG_CACHE_HOME"] = str(SCRATCH / "cache")
    logging.disable()
    atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)
