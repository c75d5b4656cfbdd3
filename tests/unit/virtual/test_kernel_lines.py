"""The kernel messages of a panic."""

from __future__ import annotations

import pytest

from pytest_pinet.virtual.kernel_lines import panic_at_boot, panic_in_traffic, stamped


@pytest.mark.parametrize("lines", [panic_at_boot("Raspberry Pi 4"), panic_in_traffic("Raspberry Pi 4")])
def test_a_panic_has_a_first_line_a_trace_and_a_last_line(lines: list[str]) -> None:
    text = stamped(lines, 1.5)
    assert text.startswith("[    1.500000] ")
    assert "Kernel panic - not syncing: " in text
    assert "Hardware name: Raspberry Pi 4 (DT)" in text
    assert "Call trace:" in text
    assert lines[-1].startswith("---[ end Kernel panic - not syncing: ")
