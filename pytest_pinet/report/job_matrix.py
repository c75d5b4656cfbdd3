"""The job matrix of a CI system: one job for each board, because a boot serves all measurements of a board."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pytest_pinet.errors import ConfigError
from pytest_pinet.report.diagrams.matrix import MatrixEntry

RUNNERS = {"github": ("self-hosted", "network-lab"), "gitlab": ("network-lab",)}
# GitHub refuses larger matrices.
MOST_JOBS = 256


def job_matrix(form: str, entries: Sequence[MatrixEntry], runners: Sequence[str]) -> str:
    """Return one line of JSON, which is also YAML. Raises ConfigError if there is nothing to measure.

    For GitHub it is the value of ``strategy: matrix`` with the keys ``board`` and ``runner``, for GitLab the value of
    ``parallel: matrix`` with the variables BOARD and RUNNER.
    """
    labels = list(runners or RUNNERS[form])
    boards = list(dict.fromkeys(entry.identity.board for entry in entries if entry.combination is not None))
    if not boards:
        raise ConfigError("the lab can measure none of these combinations; 'pinet matrix' without --format says why")
    if len(boards) > MOST_JOBS:
        raise ConfigError(f"{len(boards)} boards are more than {MOST_JOBS} jobs; choose some with --board")
    if form == "github":
        return json.dumps({"include": [{"board": board, "runner": labels} for board in boards]}, separators=(",", ":"))
    if len(labels) > 1:
        raise ConfigError(f"--runner: {', '.join(labels)}: a variable of GitLab holds one tag; expected one --runner")
    return json.dumps([{"BOARD": boards, "RUNNER": labels}], separators=(",", ":"))
