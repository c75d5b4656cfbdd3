"""The quick form of ``make fuzz``: each reader with a few examples, and what the fuzzer reports."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from tools.fuzz.board_targets import CARD
from tools.fuzz.build_targets import RELEASE
from tools.fuzz.more_targets import PARTS
from tools.fuzz.run import Finding, fuzz, read
from tools.fuzz.target import Target
from tools.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_each_reader_reads_or_refuses(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    target = TARGETS[name]
    for sample in target.samples():
        read(target, sample)
    assert fuzz(target, 5, 60.0, seed=1) > 0


def test_a_traceback_is_reported_with_its_example() -> None:
    def reader(data: bytes) -> None:
        if b"b" not in data:
            raise KeyError("b")

    with pytest.raises(Finding, match=r"KeyError: 'b'(?s:.*)in reader(?s:.*)Failing test case"):
        fuzz(Target(lambda: [b"abc"], reader), 200, 60.0, seed=1)


def test_a_hang_is_reported() -> None:
    with pytest.raises(Finding, match=r"HangError: not read after 0.1 s of processor time"):
        read(Target(lambda: [b""], lambda data: time.sleep(30)), b"", hang_s=0.1)


def test_a_reader_that_only_waits_for_a_processor_is_no_hang() -> None:
    read(Target(lambda: [b""], lambda data: time.sleep(0.3)), b"", hang_s=0.1)


def test_a_stopped_fuzzer_is_no_hang() -> None:
    """A process that does not run gets one signal for all that were due: here, one that blocks it."""

    def reader(data: bytes) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        time.sleep(0.5)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})

    read(Target(lambda: [b""], reader), b"", hang_s=0.02)


def test_a_failure_that_does_not_come_again_is_reported() -> None:
    seen: list[bytes] = []

    def reader(data: bytes) -> None:
        seen.append(data)
        if len(seen) == 1:
            raise KeyError("b")

    with pytest.raises(Finding, match="KeyError: 'b'"):
        fuzz(Target(lambda: [b"abc"], reader), 20, 60.0, seed=1)


def test_a_refusal_is_no_finding() -> None:
    def reader(data: bytes) -> None:
        raise ConfigError("no")

    assert fuzz(Target(lambda: [b"abc"], reader), 5, 60.0, seed=1) == 5


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("octets", b"uptime\n"),
        ("state of an end", b"cpu=cpu a b c d e\ncpu_after=cpu 1 2 3 4 5\n"),
        ("idle board", b"cpu 1 2 3\n1.0\n\ncpu 1 2 3\n2.0\n"),
        ("idle board", b"cpu 1 2 3 4 5\n1.0\n\ncpu 1 2 3 4 5 6\n2.0\n"),
        ("idle board", b"cpu 1 2 3 4 5\n1.0\n\ncpu 1 2 3 " + b"9" * 400 + b" 5\n2.0\n"),
        ("clock", b"scaling_cur_freq=" + b"9" * 5000),
        ("boot files", b"=====8<=====where\n/boot\n"),
        ("boot files", CARD.replace(b"444392", b"\xc2\xb2")),
        ("boot files", CARD.replace(b"9485312", b"\xc2\xb2")),
        ("boot report", b"=====8<=====revision\nno\n"),
        ("ARP", b"eth0 1 0xno 1 2\n"),
        ("ARP", b"eth0 1 0x1 \xc2\xb2 2\n"),
        ("MAINTAINERS", PARTS + b"obj-m += genet.o\ngenet-y := " + b"9" * 400 + b".o\n"),
        ("network manager", b"\n"),
        ("network manager", b"device eth0\nnmcli GENERAL.STATE:\xc2\xb2 (x)\n"),
        ("management", b"eth0.5 VID: \xc2\xb2\n"),
        ("management", b"4: eth0.7@eth0: protocol 802.1Q id x\n"),
        ("management", b"usb /sys eth0\n"),
        ("machine", b"mhz " + b"9" * 400),
        ("machine", b"khz " + b"9" * 5000),
        ("observer", b"9" * 50 + b".34 1000 2000 1 2 up 1000\n12.64 4294967295 9 1 4 up 1000\n"),
        ("make output", RELEASE + PARTS + b"9" * 400 + b"/e1000e.o\n"),
        ("modules.builtin", b"\xff\xfe\n"),
        ("machine", b"nic eth0\n Supported link modes: " + b"9" * 5000 + b"base\n"),
    ],
)  # fmt: skip
def test_what_the_fuzzer_found_is_read_or_refused(name: str, data: bytes) -> None:
    read(TARGETS[name], data)
