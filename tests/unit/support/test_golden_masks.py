"""The masks of golden files, the unmasked values, and the message on a difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import golden
from tests.support.golden import Masks

RESULT = {
    "verdict": "fail",
    "reason": "80.0 Mbit/s is below the limit 84.7 Mbit/s (-5.6 %)",
    "started": "2026-11-23T18:51:11.540124+00:00",
    "seconds": 22.009114,
    "directions": {"tx": {"goodput_bps": 80000000.00000015, "samples": [{"start_s": 0.0, "seconds": 0.25}]}},
    "cables": [{"end": "pi3b-1:onboard", "node": {"rx_bytes": 4711, "rx_errors": None}}],
    "files": ["raw/a.txt"],
}


def test_times_and_counters_are_masked_and_verdicts_and_values_stay() -> None:
    assert Masks({}).data(RESULT) == {
        "verdict": "fail",
        "reason": "80.0 Mbit/s is below the limit 84.7 Mbit/s (-5.6 %)",
        "started": "<time>",
        "seconds": "<duration>",
        "directions": {"tx": {"goodput_bps": 80000000.0, "samples": [{"start_s": 0.0, "seconds": 0.25}]}},
        "cables": [{"end": "pi3b-1:onboard", "node": {"rx_bytes": "<counter>", "rx_errors": None}}],
        "files": ["raw/a.txt"],
    }


def test_lines_that_pytest_fills_do_not_depend_on_what_is_masked() -> None:
    masks = Masks({"project": Path("/tmp/x1")})
    short = masks.text("===== 1 failed, 1 passed in 9.28s =====\n--- generated xml file: /tmp/x1/junit.xml ---")
    long = masks.text("==== 1 failed, 1 passed in 141.28s (0:02:21) ===\n-- generated xml file: /tmp/x1/junit.xml --")
    assert short == long
    assert "1 failed, 1 passed in <duration>" in short


def test_a_difference_is_a_diff_and_says_how_to_rewrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    monkeypatch.setenv(golden.VARIABLE, "rewrite")
    golden.check("a.txt", "pass\n")
    monkeypatch.delenv(golden.VARIABLE)
    golden.check("a.txt", "pass\n")
    with pytest.raises(AssertionError, match=r"a\.txt is not as it was frozen:") as caught:
        golden.check("a.txt", "fail\n")
    assert {"-pass", "+fail"} <= set(str(caught.value).splitlines())
    assert golden.HOW_TO_REWRITE in str(caught.value)
