import json

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.report.diagrams import MatrixEntry, job_matrix


def entry(board: str, nic: str, possible: bool = True) -> MatrixEntry:
    return MatrixEntry(CombinationId(board, nic, "pair"), object() if possible else None)  # type: ignore[arg-type]


ENTRIES = [entry("pi4b", "onboard"), entry("pi4b", "rtl8153"), entry("pi5", "onboard"), entry("cm4", "onboard", False)]


def test_github_gets_one_job_for_each_board_that_can_be_measured() -> None:
    line = job_matrix("github", ENTRIES, ())
    labels = ["self-hosted", "network-lab"]
    assert json.loads(line) == {"include": [{"board": "pi4b", "runner": labels}, {"board": "pi5", "runner": labels}]}
    # One line of $GITHUB_OUTPUT.
    assert "\n" not in line


def test_gitlab_gets_variables() -> None:
    assert json.loads(job_matrix("gitlab", ENTRIES, ["rack-2"])) == [{"BOARD": ["pi4b", "pi5"], "RUNNER": ["rack-2"]}]


@pytest.mark.parametrize(
    ("form", "entries", "runners", "message"),
    [
        ("github", ENTRIES[3:], (), "the lab can measure none of these combinations"),
        ("gitlab", ENTRIES, ("a", "b"), "--runner: a, b: a variable of GitLab holds one tag; expected one --runner"),
        ("github", [entry(f"b{n}", "n") for n in range(257)], (), "257 boards are more than 256 jobs"),
    ],
)
def test_what_a_ci_system_would_refuse(
    form: str, entries: list[MatrixEntry], runners: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        job_matrix(form, entries, runners)
