"""A misspelled name differs by one letter. Less similar names may be right, although no list has them."""

from __future__ import annotations

import pytest

from pytest_pinet.execution.names import misspelled, nearest_word


@pytest.mark.parametrize(
    ("name", "accepted", "meant"),
    [
        ("e1000", ["e1000e", "igb"], "e1000e"),
        ("use_dak", ["use_dac"], "use_dac"),
        ("r8619", ["r8169"], "r8169"),
        ("interruptthrottlerate", ["InterruptThrottleRate"], "InterruptThrottleRate"),
        ("pcie_aspm", ["pciehp", "pcie_dpc"], None),
        ("trust_cpu", ["trust_bootloader"], None),
        ("r8961", ["r8169"], None),
        ("xen", ["xe"], None),
        ("e1000e", [], None),
    ],
)
def test_a_misspelled_name_differs_by_one_letter(name: str, accepted: list[str], meant: str | None) -> None:
    assert misspelled(name, accepted) == meant


@pytest.mark.parametrize(
    ("word", "accepted", "meant"),
    [
        ("--nic", ["--bisect", "--against", "--lab"], None),
        ("--nik", ["--nic", "--bisect", "--min"], "--nic"),
        ("--reason", ["--json", "--last"], None),
        ("--instr", ["--instructions", "--strict"], "--instructions"),
        ("--timeout", ["--acquire-timeout", "--min"], "--acquire-timeout"),
        ("--run", ["--run-dir", "--dry-run"], "--run-dir"),
        ("--dryrun", ["--run-dir", "--dry-run"], "--dry-run"),
        ("--nic", ["--pinet-nic", "--pinet-min"], "--pinet-nic"),
        ("--pinet-x", ["--pinet-nic", "--pinet-min"], None),
        ("--", ["--nic"], None),
        ("histroy", ["history", "demo"], "history"),
    ],
)
def test_the_nearest_option_or_command(word: str, accepted: list[str], meant: str | None) -> None:
    assert nearest_word(word, accepted) == meant
