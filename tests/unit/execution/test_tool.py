"""Commands of this machine that print an answer and end."""

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import output


def test_the_answer_is_in_english_and_has_the_environment() -> None:
    text = output(["sh", "-c", "echo $LC_ALL $MORE"], 5.0, {"MORE": "more"})
    assert text == "C.UTF-8 more\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sh", "-c", "echo first; echo 'no module' >&2; exit 3"], "failed with exit code 3: no module\n  -> do this"),
        (["sh", "-c", "exit 3"], "`sh -c exit 3` failed with exit code 3: no message\n  -> do this"),
        (["sh", "-c", "sleep 5", *["word"] * 20], f"`sh -c sleep 5{' word' * 9} ...` did not end within 0.05 s"),
        (["/none"], "/none cannot be started: No such file or directory"),
    ],
)
def test_a_failure_is_one_sentence(argv: list[str], message: str) -> None:
    with pytest.raises(LabError) as raised:
        output(argv, 0.05 if "sleep 5" in argv else 5.0, act="do this")
    assert str(raised.value).endswith(message)
