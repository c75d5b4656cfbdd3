"""A misspelled name differs by one letter. Less similar names may be right, although no list has them."""

from __future__ import annotations

import pytest

from pytest_pinet.execution.names import misspelled


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
