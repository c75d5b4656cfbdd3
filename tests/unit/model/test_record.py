from __future__ import annotations

import pytest
from pydantic import ValidationError

from pytest_pinet.model.record.measurement import WindowRecord
from pytest_pinet.model.verdict import Verdict
from tests.support.report_records import direction, result


def test_a_key_that_a_result_does_not_have_is_not_written() -> None:
    one = result("pi4b:onboard/pair", {"tx": direction(9e8)})
    assert "ladder" not in one.dump()
    assert one.replace(scale=0.1).dump()["scale"] == 0.1
    assert one.dump()["evenness"] is None


def test_a_key_that_only_the_first_files_lack_is_always_written() -> None:
    window = WindowRecord.model_validate({"connection": 1, "start_s": 0, "seconds": 1, "start_skew_s": None})
    assert window.dump()["start_skew_within_s"] is None


def test_a_skew_that_no_end_reports_is_written_as_null_beside_the_windows() -> None:
    one = result("pi4b:onboard/pair", {})
    assert "start_skew_s" not in one.dump()
    window = WindowRecord(connection=1, start_s=0, seconds=1, start_skew_s=None)
    assert one.replace(windows=[window]).dump()["start_skew_s"] is None


def test_a_record_cannot_be_changed() -> None:
    one = result("pi4b:onboard/pair", {})
    with pytest.raises(ValidationError, match="frozen"):
        one.verdict = Verdict.PASS  # type: ignore[misc]  # mypy refuses it too


def test_a_replaced_value_is_checked() -> None:
    one = result("pi4b:onboard/pair", {})
    assert one.replace(verdict="pass", notes=["a"]).notes == ("a",)
    with pytest.raises(ValueError, match="verdict"):
        one.replace(verdict="good")
    with pytest.raises(TypeError, match="ResultRecord has no color"):
        one.replace(color="red")
