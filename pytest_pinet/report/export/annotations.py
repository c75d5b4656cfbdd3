"""Exports the verdicts of a run that are not good as annotations of a job, for GitHub and for GitLab.

GitLab (``artifacts: reports: annotations``) shows links only: each one leads to the report of the job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.model.verdict import GOOD, SEVERITY, Verdict
from pytest_pinet.report.export.cases import Case, cases_of, required, settings_of

# GitHub shows the first 10 of each kind in a step. A job page of GitLab with more links is not readable.
MOST = 10
_KINDS = {
    Verdict.FAIL: "error",
    Verdict.ERROR: "warning",
    Verdict.INVALID: "warning",
    Verdict.INCONCLUSIVE: "warning",
    Verdict.MARGINAL: "notice",
    Verdict.IMPROVED: "notice",
}
_LONGEST = 200
_QUIET = (Verdict.PASS, Verdict.SKIPPED)


def github(run: RunRecord, settings: Mapping[str, str]) -> str:
    """Return a line for each verdict but ``pass``, the worst first. Where more than 10 exist, the last one counts them.

    An error is a slower or broken build, a warning is a metric without a decision. A metric of an exact gate is shown
    at the line of the function that changed most, if the sources of the build were found.
    """
    settings_of("github", settings)
    cases = sorted(cases_of(run), key=lambda case: SEVERITY.index(case.verdict))
    lines: list[str] = []
    for kind in dict.fromkeys(_KINDS.values()):
        own = [case for case in cases if _KINDS.get(case.verdict) == kind]
        shown = own if len(own) <= MOST else own[: MOST - 1]
        lines += [_annotation(kind, case) for case in shown]
        if more := len(own) - len(shown):
            lines.append(f"::{kind} title=pinet::and {more} more; all are in the summary of this job")
    return "".join(f"{line}\n" for line in lines)


def _annotation(kind: str, case: Case) -> str:
    properties = [*_place(case), f"title={_property(case.name)}"]
    text = case.text or str(case.verdict)
    if case.verdict not in GOOD and case.verdict is not Verdict.FAIL:
        text = f"{case.verdict}: {text}"
    return f"::{kind} {','.join(properties)}::{_data(text)}"


def _place(case: Case) -> list[str]:
    exact = case.result.exact
    functions = exact.functions if exact is not None and case.verdict is Verdict.FAIL else ()
    source = next((one.source for one in functions if one.source), "")
    file, _, line = source.rpartition(":")
    return [f"file={_property(file)}", f"line={line}"] if file and line.isdigit() else []


def _data(text: str) -> str:
    """Return a message as GitHub's runner reads it: toolkit, packages/core/src/command.ts, ``escapeData``."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return the value of a property: ``escapeProperty`` of the same file."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


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
