"""Exports of verdicts for CI systems: the cases of a run, as KTAP, for LAVA, and for NIPA."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.grouping import grouped, occurrences
from pytest_pinet.execution.names import unknown
from pytest_pinet.history.points import instructions_of, metric_id
from pytest_pinet.history.records import reason_of
from pytest_pinet.history.results_file import moment
from pytest_pinet.model.metric_key import within
from pytest_pinet.model.record.change import ChangeEntryRecord
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import GOOD, Verdict, worst
from pytest_pinet.report.exact_text import rate_text, window_of
from pytest_pinet.report.text_wrap import first_paragraph, rate

# KCIDB, NIPA, LAVA and GitLab accept these characters between the dots of a path.
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
# The name of a result without a metric: an error before or during the measurement.
NO_METRIC = "measurement"
# The name of how evenly several flows shared a link.
EVENNESS = "evenness"


@dataclass(frozen=True)
class Case:
    """One verdict. ``group`` names its combination and ``label`` its metric, in plain characters.

    If runs of several labs were merged, ``group`` begins with the lab. ``figure`` is the id of the metric. ``text`` is
    the reason of the verdict on one line; empty without a reason.
    ``direction`` has the values; None for a verdict without goodput.
    """

    group: str
    label: str
    figure: str
    verdict: Verdict
    text: str
    result: ResultRecord
    direction: DirectionRecord | None = None

    @property
    def name(self) -> str:
        """The whole name: ``pi4b.onboard.pair.tcp-P1-tx``."""
        return f"{self.group}.{self.label}"

    @property
    def value_text(self) -> str:
        """Goodput and limit as part of a sentence, of exact boards instructions and rate; empty without a value."""
        if self.direction is None:
            return ""
        exact, limit = self.result.exact, self.direction.limit_bps
        if exact is None:
            return f"goodput {rate(self.direction.goodput_bps)}{f', limit {rate(limit)}' if limit is not None else ''}"
        counted = instructions_of(exact)
        sums = "" if counted is None else f"{counted[0]:.2f} -> {counted[1]:.2f} instructions per {exact.unit}, "
        return f"{sums}{rate_text(window_of(self.result.id), exact, exact.b)} in virtual time"

    @property
    def goodput_gbit(self) -> float | None:
        """The goodput in Gbit/s; None without goodput, which exact boards do not have."""
        return None if self.direction is None or self.result.exact is not None else self.direction.goodput_bps / 1e9

    @property
    def instructions(self) -> float | None:
        """The instructions of build B for each packet of an exact board; None if none were counted."""
        return None if self.result.exact is None else self.result.exact.b.instructions


def plain_name(figure: str) -> str:
    """Return the id of a combination or metric with dots between its parts and no other special character.

    ``pi4b:onboard/incast:2/rps=all/tcp-P1-tx`` becomes ``pi4b.onboard.incast-2.rps-all.tcp-P1-tx``.
    """
    board, _, rest = figure.partition(":")
    return ".".join(_part(part) for part in (board, *rest.split("/")) if part)


def _part(text: str) -> str:
    return _OTHER.sub("-", text).strip("-") or "-"


def cases_of(run: RunRecord) -> list[Case]:
    """Return all verdicts of a run in their order. A repeated metric is numbered: ``tcp-P1-tx-2``."""
    entries: dict[tuple[str | None, str, str], ChangeEntryRecord] = {}
    for entry in run.change.entries if run.change is not None else ():
        entries.setdefault((*entry.result_key, entry.direction), entry)
    found = [_answered(case, entries) for result in run.results for case in _of_result(result)]
    numbered = zip(found, occurrences(case.name for case in found), strict=True)
    return [case if number == 1 else replace(case, label=f"{case.label}-{number}") for case, number in numbered]


def _of_result(result: ResultRecord) -> Iterator[Case]:
    combination = plain_name(result.combination.id)
    group = combination if result.lab is None else f"{_part(result.lab)}.{combination}"

    def label(figure: str) -> str:
        return ".".join(_part(part) for part in within(figure, result.combination.id).split("/") if part) or NO_METRIC

    for way, direction in result.directions.items():
        figure = metric_id(result.id, way)
        yield Case(group, label(figure), figure, direction.verdict, _line(reason_of(direction)), result, direction)
    if result.evenness is not None:
        even, figure = result.evenness, f"{result.id}-{EVENNESS}"
        yield Case(group, label(figure), figure, even.verdict, _line(even.reason), result)
    if not result.directions:
        figure = result.id if result.has_no_rate else result.combination.id
        yield Case(group, label(figure), figure, result.verdict, _line(first_paragraph(result.message)), result)


def _answered(case: Case, entries: Mapping[tuple[str | None, str, str], ChangeEntryRecord]) -> Case:
    """Return the case with its verdict in a gate of a build, which can be stricter than its limit."""
    if case.result.died:
        return case
    way = next((way for way, one in case.result.directions.items() if one is case.direction), "")
    entry = entries.get((*case.result.key, way)) if case.direction is not None or not case.result.directions else None
    if entry is None:
        return case
    # An undecided metric keeps its own reason, such as an invalid measurement.
    undecided = entry.verdict is Verdict.INCONCLUSIVE and case.verdict is Verdict.INVALID
    verdict = case.verdict if undecided else entry.verdict
    return replace(case, verdict=verdict, text=_line(": ".join(filter(None, [entry.finding, entry.text]))))


def _line(text: str) -> str:
    return " ".join(text.split())


def by_group(cases: list[Case]) -> dict[str, list[Case]]:
    """Return the cases of each combination, in the order of their first case."""
    return grouped((case.group, case) for case in cases)


def result_word(verdict: Verdict, undecided: str) -> str:
    """Return ``pass``, ``fail`` or ``skip``, or ``undecided`` for a verdict that decides nothing."""
    if verdict in GOOD:
        return "pass"
    return {Verdict.FAIL: "fail", Verdict.SKIPPED: "skip"}.get(verdict, undecided)


def settings_of(form: str, given: Mapping[str, str], *known: str) -> dict[str, str]:
    """Return the settings of an exporter, empty where none was given. Raises ConfigError for an unknown name."""
    for name in given:
        if name not in known:
            raise ConfigError(f"--set: {unknown(f'setting of {form}', name, known)}")
    return {name: given.get(name, "").strip() for name in known}


def required(form: str, settings: Mapping[str, str], name: str, form_of_value: str) -> str:
    """Return a setting that a format cannot do without. Raises ConfigError."""
    if not settings[name]:
        raise ConfigError(f"{form} needs {name}; pass --set {name}={form_of_value}")
    return settings[name]


# `#` begins a directive. NIPA takes [FAIL], FAIL: and SKIP: anywhere in the text for a result.
_DIRECTIVE = str.maketrans("#[]", "-()")
_RESULT = re.compile(r"\b(fail|skip)(ped|ed)?:", re.IGNORECASE)
# KTAP's words for a result and its directive. Linaro's parser makes the text of a directive part of the name: no text.
_KTAP = {"pass": ("ok", ""), "fail": ("not ok", ""), "skip": ("ok", "SKIP"), "error": ("not ok", "ERROR")}


def ktap(run: RunRecord, settings: Mapping[str, str]) -> str:
    """Return the verdicts as KTAP, in the flat form that all readers of kernel selftests take.

    ``kunit.py parse``, NIPA, Linaro's ``parse-output.py`` (LAVA) and openQA read it: one selftest for each combination,
    and in comments below it one subtest for each metric. The form of ktap.rst with indented subtests is read by
    kunit.py only. KTAP has no field for numbers, so the goodput is diagnostic data; of exact boards, the instructions.

    A metric without a decision is ``not ok # ERROR``, which most readers count as failed.

    With ``--set undecided=skip`` it is ``ok # SKIP``: then only a slower or broken build fails.
    """
    undecided = "skip" if settings_of("ktap", settings, "undecided")["undecided"] == "skip" else "error"
    groups = by_group(cases_of(run))
    lines = ["TAP version 13", f"1..{len(groups)}"]
    for number, (group, cases) in enumerate(groups.items(), 1):
        words = [result_word(case.verdict, undecided) for case in cases]
        lines += [f"# selftests: pinet: {group}", "# TAP version 13", f"# 1..{len(cases)}"]
        for place, (case, word) in enumerate(zip(cases, words, strict=True), 1):
            lines += [f"# # {_ktap_text(case)}", f"# {_ktap_status(case, place, word)}"]
        lines += _ktap_of_group(group, number, Counter(words))
    return "\n".join(lines) + "\n"


def _ktap_text(case: Case) -> str:
    words = [case.label, case.value_text, f"{case.verdict}{f', {case.text}' if case.text else ''}"]
    return _RESULT.sub(lambda match: match[0][:-1], " ".join(filter(None, words)).translate(_DIRECTIVE))


def _ktap_status(case: Case, number: int, result: str) -> str:
    word, directive = _KTAP[result]
    data = [f"time={case.result.seconds * 1000:.0f}ms"]
    if case.instructions is not None:
        data.append(f"instructions={case.instructions:.2f}")
    elif case.goodput_gbit is not None:
        data.append(f"goodput={case.goodput_gbit:.4f}Gbit/s")
    return f"{word} {number} {case.label} # {' '.join(filter(None, [directive, *data]))}"


def _ktap_of_group(group: str, number: int, results: Counter[str]) -> list[str]:
    passed, failed, skipped, errors = (results[one] for one in _KTAP)
    totals = f"# # Totals: pass:{passed} fail:{failed} xfail:0 xpass:0 skip:{skipped} error:{errors}"
    if failed or errors:
        return [totals, f"not ok {number} selftests: pinet: {group} # exit=1"]
    return [totals, f"ok {number} selftests: pinet: {group}{'' if passed else ' # SKIP'}"]


LAVA_UNDECIDED = "unknown"


def lava(run: RunRecord, settings: Mapping[str, str]) -> str:
    """Return the verdicts as the signals of a LAVA test shell, which a job prints on the console of its device.

    There is one line for each metric. LAVA splits it at blanks, and each word has exactly one ``=``."""
    settings_of("lava", settings)
    return "".join(f"<LAVA_SIGNAL_TESTCASE {_lava_words(case)}>\n" for case in cases_of(run))


def _lava_words(case: Case) -> str:
    words = [f"TEST_CASE_ID={case.name}", f"RESULT={result_word(case.verdict, LAVA_UNDECIDED)}"]
    if case.instructions is not None:
        words += ["UNITS=instructions", f"MEASUREMENT={case.instructions:.2f}"]
    elif case.goodput_gbit is not None:
        words += ["UNITS=Gbit/s", f"MEASUREMENT={case.goodput_gbit:.6f}"]
    return " ".join(words)


NIPA_GROUP = "selftests-pinet"
NIPA_UNDECIDED = "warn"
# NIPA takes the time of a branch from its last 17 characters.
_BRANCH = re.compile(r".+-\d{4}-\d\d-\d\d--\d\d-\d\d")
# The lengths of the columns of NIPA's database.
_LONGEST_NAME, _LONGEST_TEST, _LONGEST_SUBTEST = 80, 128, 256
_NO_WORD = re.compile(r"[^0-9A-Za-z]+")


def nipa(run: RunRecord, settings: Mapping[str, str]) -> str:
    """Return the JSON of one run for NIPA, the CI of netdev: the file that a runner serves at the URL in its manifest.

    It has one test for each combination, and in it one subtest for each metric. NIPA has no field for numbers. They are
    on the page that ``link`` names. ``--set branch=NAME`` names the branch of NIPA's branches.json.

    ``--set executor=NAME`` names the runner (default: ``pinet-`` and the lab), ``--set link=URL`` the page of the run.
    A metric without a decision is ``warn``, which does not count as passed.
    """
    given = settings_of("nipa", settings, "branch", "executor", "link")
    branch = required("nipa", given, "branch", "net-next-2026-11-23--12-00")
    if not _BRANCH.fullmatch(branch):
        raise ConfigError(f"--set branch: {branch!r} does not end in a time; expected net-next-2026-11-23--12-00")
    link = given["link"]
    tests = [_nipa_test(group, cases, link) for group, cases in by_group(cases_of(run)).items()]
    found: dict[str, object] = {
        "executor": (given["executor"] or f"pinet-{_nipa_word(run.lab)}")[:_LONGEST_NAME],
        "branch": branch,
        "start": str(moment(run.started)),
        "end": str(moment(run.finished or run.started)),
        "link": link,
        "device": _nipa_device(run),
        "results": tests,
    }
    return json.dumps(found, indent=1) + "\n"


def _nipa_test(group: str, cases: Sequence[Case], link: str) -> dict[str, object]:
    # One measurement may have several metrics.
    seconds = sum({id(case.result): case.result.seconds for case in cases}.values())
    return {
        "test": _nipa_word(group)[:_LONGEST_TEST],
        "group": NIPA_GROUP,
        "result": result_word(worst([case.verdict for case in cases]), NIPA_UNDECIDED),
        "time": round(seconds, 1),
        "link": link,
        "results": [
            {
                "test": _nipa_word(case.label)[:_LONGEST_SUBTEST],
                "result": result_word(case.verdict, NIPA_UNDECIDED),
                "time": round(case.result.seconds),
            }
            for case in cases
        ],
    }


def _nipa_device(run: RunRecord) -> dict[str, str]:
    """Return the driver of each NIC. NIPA lists a device again whenever this changes, so versions are no part of it."""
    drivers = {
        f"{one.combination.board}:{one.combination.nic}": driver
        for one in run.results
        if (driver := one.build.get("driver"))
    }
    return dict(sorted(drivers.items()))


def _nipa_word(text: str) -> str:
    return _NO_WORD.sub("-", text).strip("-")
