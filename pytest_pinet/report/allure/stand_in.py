"""A provisional result for a running test. It remains if the process dies, so that Allure shows the test."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.allure.content import labels, parameters
from pytest_pinet.report.allure.identity import Subject
from pytest_pinet.report.allure.verdicts import PREFIX
from pytest_pinet.report.json_file import replace_file

_MESSAGE = f"{PREFIX[Verdict.ERROR]}: the process that ran this test died; look at the end of the run's output"


def write_stand_in(folder: Path, subject: Subject) -> Path:
    """Write the stand-in and return its path. The caller removes it when the real result exists. Raises OSError."""
    now = int(time.time() * 1000)
    name = str(uuid.uuid4())
    result = {
        "uuid": name,
        "name": f"{subject.combination} · error",
        "status": "broken",
        "statusDetails": {"message": _MESSAGE},
        "testCaseId": subject.id,
        "historyId": subject.id,
        "fullName": f"{subject.path}#{subject.test}",
        "start": now,
        "stop": now,
        "parameters": [
            {"name": key, "value": value, **({"excluded": True} if excluded else {})}
            for key, value, excluded in parameters(subject, [])
        ],
        "labels": [{"name": key, "value": value} for key, value in labels(subject, [])],
    }
    path = folder / f"{name}-result.json"
    replace_file(path, json.dumps(result).encode("ascii"))
    return path
