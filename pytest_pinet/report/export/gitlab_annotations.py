"""Exports the verdicts of a run as annotations of a GitLab job (``artifacts: reports: annotations``).

GitLab shows links only: each one leads to the report of the job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pytest_pinet.model.record.run import RunRecord
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.export.cases import cases_of, required, settings_of

# A job page with more links is not readable.
MOST = 10
_LONGEST = 200
_QUIET = (Verdict.PASS, Verdict.SKIPPED)


def gitlab_annotations(run: RunRecord, settings: Mapping[str, str]) -> str:
    """Return JSON: the answer of a gate, then each verdict but ``pass``, the worst first.

    ``--set link=URL`` is the address of the report.
    """
    link = required("gitlab-annotations", settings_of("gitlab-annotations", settings, "link"), "link", "URL")
    cases = [case for case in cases_of(run) if case.verdict not in _QUIET]
    cases.sort(key=lambda case: SEVERITY.index(case.verdict))
    shown = cases if len(cases) <= MOST else cases[: MOST - 1]
    labels = [run.change.sentence if run.change is not None else "report of all metrics"]
    labels += [": ".join(filter(None, [case.verdict.value, case.name, case.text])) for case in shown]
    if more := len(cases) - len(shown):
        labels.append(f"and {more} more")
    links = [{"external_link": {"label": label[:_LONGEST], "url": link}} for label in labels]
    return json.dumps({"network throughput": links}, indent=1) + "\n"
