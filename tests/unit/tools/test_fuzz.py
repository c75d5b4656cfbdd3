"""The quick form of ``make fuzz``: each reader with a few examples, and what the fuzzer reports."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
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
