"""Exports the verdicts of a run for NIPA, the CI of netdev: the file that a runner serves at the URL in its manifest.

One test for each combination, and in it one subtest for each metric. NIPA has no field for numbers. They are on the
page that ``link`` names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.results_file import moment
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.model.verdict import worst
from pytest_pinet.report.export.cases import Case, by_group, cases_of, required, result_word, settings_of

GROUP = "selftests-pinet"
UNDECIDED = "warn"
# NIPA takes the time of a branch from its last 17 characters.
_BRANCH = re.compile(r".+-\d{4}-\d\d-\d\d--\d\d-\d\d")
# The lengths of the columns of NIPA's database.
_LONGEST_NAME, _LONGEST_TEST, _LONGEST_SUBTEST = 80, 128, 256
_NO_WORD = re.compile(r"[^0-9A-Za-z]+")


def nipa(run: RunRecord, settings: Mapping[str, str]) -> str:
    """Return the JSON of one run. ``--set branch=NAME`` names the branch of NIPA's branches.json.

    ``--set executor=NAME`` names the runner (default: ``pinet-`` and the lab), ``--set link=URL`` the page of the run.
    A metric without a decision is ``warn``, which does not count as passed.
    """
    given = settings_of("nipa", settings, "branch", "executor", "link")
    branch = required("nipa", given, "branch", "net-next-2026-11-23--12-00")
    if not _BRANCH.fullmatch(branch):
        raise ConfigError(f"--set branch: {branch!r} does not end in a time; expected net-next-2026-11-23--12-00")
    link = given["link"]
    tests = [_test(group, cases, link) for group, cases in by_group(cases_of(run)).items()]
    found: dict[str, object] = {
        "executor": (given["executor"] or f"pinet-{_word(run.lab)}")[:_LONGEST_NAME],
        "branch": branch,
        "start": str(moment(run.started)),
        "end": str(moment(run.finished or run.started)),
        "link": link,
        "device": _device(run),
        "results": tests,
    }
    return json.dumps(found, indent=1) + "\n"


def _test(group: str, cases: Sequence[Case], link: str) -> dict[str, object]:
    # One measurement may have several metrics.
    seconds = sum({id(case.result): case.result.seconds for case in cases}.values())
    return {
        "test": _word(group)[:_LONGEST_TEST],
        "group": GROUP,
        "result": result_word(worst([case.verdict for case in cases]), UNDECIDED),
        "time": round(seconds, 1),
        "link": link,
        "results": [_subtest(case) for case in cases],
    }


def _subtest(case: Case) -> dict[str, object]:
    name = _NO_WORD.sub("-", case.label).strip("-")[:_LONGEST_SUBTEST]
    return {"test": name, "result": result_word(case.verdict, UNDECIDED), "time": round(case.result.seconds)}


def _device(run: RunRecord) -> dict[str, str]:
    """Return the driver of each NIC. NIPA lists a device again whenever this changes, so versions are no part of it."""
    drivers = {
        f"{one.combination.board}:{one.combination.nic}": driver
        for one in run.results
        if (driver := one.build.get("driver"))
    }
    return dict(sorted(drivers.items()))


def _word(text: str) -> str:
    return _NO_WORD.sub("-", text).strip("-")
