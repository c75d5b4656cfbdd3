"""The part of an error that fits a line of a report."""

import pytest

from pytest_pinet.errors import LabError, first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (LabError("no answer", "look at it"), "no answer"),
        (ValueError("\n  in the middle  \nof it"), "in the middle"),
        (TimeoutError(), "TimeoutError"),
        (OSError("x" * 1000), "x" * 200),
    ],
)
def test_an_error_is_told_in_one_line(error: Exception, line: str) -> None:
    assert first_line(error) == line
