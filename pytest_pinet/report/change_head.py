"""Computes the answer on a whole change from the results of its run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.judge.costs import JUDGED
from pytest_pinet.judge.difference import LAYOUT, Relation
from pytest_pinet.judge.exact import UNCHANGED
from pytest_pinet.judge.exact_functions import explaining
from pytest_pinet.model.exact import FunctionChange
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.record.change import (
    EXACT,
    BuildRecord,
    ChangeEntryRecord,
    ChangeHeadRecord,
    ChangeRecord,
    RanRecord,
)
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord, SkippedRecord
from pytest_pinet.model.verdict import GATE, GOOD, SEVERITY, SKIP, STOP, Verdict, change_verdict, gated
from pytest_pinet.report.exact_text import by_nic, exact_label, function_rows, once
from pytest_pinet.report.sentences import of_interest
from pytest_pinet.report.text_wrap import first_paragraph

# A build with these findings comes up and moves packets, so a bisection can judge it. Other builds are skipped.
MEASURABLE = ("slow link", "link drops", "no traffic")
# The finding when the kernel broke during traffic, without a more specific kind.
KERNEL = "kernel"
# The keys of ethtool -i, and how reports name them.
_ETHTOOL = {"driver": "driver", "version": "version", "firmware-version": "firmware"}


def change_head(
    a: BuildRecord,
    b: BuildRecord,
    results: Sequence[ResultRecord],
    accepted: bool,
    turns: int,
    failed: int = 0,
    interrupted: bool = False,
    exact: bool = False,
) -> ChangeHeadRecord:
    """Return the verdict on each direction, the worst first, and the verdict on the whole change.

    The change does not pass, but is undecided, if ``failed`` tests failed, if a test died or if the run was
    ``interrupted``: an unmeasured combination might be slower. ``exact``: the builds were compared on exact boards.
    """
    entries = sorted(
        (entry for result in results if not result.died for entry in _entries(result, accepted)),
        key=lambda entry: (SEVERITY.index(entry.verdict), entry.finding != "", entry.change or 0.0, entry.id),
    )
    interrupted = interrupted or any(result.not_begun for result in results)
    failed = failed or (0 if interrupted else sum(bool(result.died) for result in results))
    found = change_verdict(entry.verdict for entry in entries)
    if found is Verdict.PASS and (failed or interrupted):
        found = Verdict.INCONCLUSIVE
        tests = "1 test" if failed == 1 else f"{failed} tests"
        but = f"{tests} failed for another reason" if failed else "the run was interrupted"
        sentence = f"No decision on {b.name}: no metric is slower, but {but}."
    else:
        own = f"the {a.name}" if exact else "the boards' own build"
        against = "the accepted baselines" if accepted else a.name if a.key else own
        sentence = _sentence(found, entries, against, b.name, is_alone=a.key == b.key)
        if exact and (told := _functions(found, results)):
            sentence = f"{sentence[:-1]}; {told}."
    return ChangeHeadRecord(
        a=a,
        b=b,
        baseline="accepted" if accepted else EXACT if exact else "interleaved",
        verdict=found,
        exit=GATE[found].exit,
        bisect_exit=bisect_code(found, entries, exact),
        sentence=sentence,
        turns=turns,
        entries=tuple(entries),
        nics=tuple(once(_nic(result) for result in results)),
        changed=tuple(once(f"{side}: {text}" for side, ran in _ran(results) for text in ran.changed)),
        not_proved=tuple(once(f"{side}: {text}" for side, ran in _ran(results) for text in ran.not_proved)),
    )


def bisect_code(found: Verdict, entries: Sequence[ChangeEntryRecord], exact: bool = False) -> int:
    """Return the code for ``git bisect run``: 0 good, 1 bad, 125 if this commit cannot be judged.

    ``exact``: the values are of exact boards. Such a board breaks for a reason that no commit changes (two boots of the
    known-good build differ), so 131 ends the bisection, which would skip one commit after the other.
    """
    if found is Verdict.PASS:
        return 0
    if any(one.verdict is Verdict.FAIL and one.finding in ("", *MEASURABLE) for one in entries):
        return 1
    return STOP if exact and any(one.verdict is Verdict.ERROR for one in entries) else SKIP


def with_note(head: ChangeHeadRecord, note: str) -> ChangeHeadRecord:
    """Return the answer of an exact gate with the note on both builds; the same answer without a note.

    With a note, the same build on both sides is measured and not judged.
    """
    if not note:
        return head
    head = head.replace(note=note)
    if head.a.key != head.b.key:
        return head.replace(sentence=f"{head.sentence[:-1]}; {note}.")
    if head.verdict is not Verdict.INCONCLUSIVE:
        return head
    # The next commit cannot be judged, either.
    return head.replace(sentence=f"No decision: {note}.", bisect_exit=STOP)


def _ran(results: Iterable[ResultRecord]) -> Iterable[tuple[str, RanRecord]]:
    return (entry for result in results for entry in sorted((result.ran or {}).items()))


def _nic(result: ResultRecord) -> str:
    """Return what ``ethtool -i`` says of the NIC under test with each build; empty if it says nothing."""
    sides = grouped(
        (", ".join(f"{_ETHTOOL[key]} {ran.nic[key]}" for key in _ETHTOOL if ran.nic.get(key)), side)
        for side, ran in sorted((result.ran or {}).items())
    )
    parts = "; ".join(f"{' and '.join(names)}: {words}" for words, names in sides.items() if words)
    return f"{result.combination.dut}: {parts}" if parts else ""


NO_BASELINE = "no baseline is accepted"
RUN_FIRST = "run the test with the known-good build, then pinet accept"


def _entries(result: ResultRecord, accepted: bool) -> Iterable[ChangeEntryRecord]:
    figures = of_interest(result.figures or {})
    for name, one in figures.items():
        if one.verdict is Verdict.SKIPPED and not accepted:
            # Neither build has a value (`unjudged`).
            continue
        if not result.directions or one.verdict is Verdict.FAIL:
            known = not accepted or one.limit is not None or one.stopped or one.verdict is not Verdict.PASS
            verdict, why = (one.verdict, one.reason) if known else (Verdict.INCONCLUSIVE, f"{NO_BASELINE}: {RUN_FIRST}")
            yield _entry(result, name, verdict, why)
    if not result.directions and not figures:
        broke = result.verdict is Verdict.FAIL and not result.has_no_rate
        finding = result.finding or KERNEL if broke else ""
        yield _entry(result, "", result.verdict, first_paragraph(result.message)).replace(finding=finding)
    for way, direction in result.directions.items():
        if result.change is not None:
            yield _of_change(result, way, result.change)
        elif accepted:
            yield _of_accepted(result, way, direction)
    if result.change is not None:
        yield from _dearer(result, result.change)


def _of_change(result: ResultRecord, way: str, change: ChangeRecord) -> ChangeEntryRecord:
    """Return the verdict on build B against build A."""
    one = change.directions[way]
    differs = one.verdict in (Verdict.FAIL, Verdict.IMPROVED)
    return _entry(result, way, one.verdict, one.why).replace(
        a_bps=one.a_bps or None,
        b_bps=one.b_bps or None,
        change=one.change,
        suspect=change.suspects[0].text if differs and change.suspects else "",
    )


def _dearer(result: ResultRecord, change: ChangeRecord) -> Iterable[ChangeEntryRecord]:
    """Yield the costs of the device under test that are certainly dearer. Other costs are no metrics of a change."""
    for key, one in (change.costs or {}).items():
        if one.verdict is Verdict.FAIL or key in (result.layout or ()):
            entry = _entry(result, key, one.verdict, one.why)
            yield entry.replace(direction="", cost=key, a=one.a, b=one.b, change=one.change)


def unjudged(results: Sequence[ResultRecord]) -> list[SkippedRecord]:
    """Return what has no verdict: values that no turn has, undecided costs, unknown costs of all results together."""
    changes = [(result, result.change) for result in results if result.change is not None]
    found = [
        SkippedRecord(id=f"{result.id}-{name}", reason=one.reason)
        for result in results
        for name, one in (result.figures or {}).items()
        if one.verdict is Verdict.SKIPPED
    ]
    found += [
        SkippedRecord(id=f"{result.id}-{key}", reason=one.why)
        for result, change in changes
        for key, one in (change.costs or {}).items()
        if one.verdict is Verdict.INCONCLUSIVE and key not in (result.layout or ())
    ]
    unknown = once(change.costs_unknown for _, change in changes if change.costs_unknown)
    return [*found, *(SkippedRecord(id="cost of a Gbit", reason=reason) for reason in unknown)]


def _of_accepted(result: ResultRecord, way: str, direction: DirectionRecord) -> ChangeEntryRecord:
    """Return the verdict against an accepted baseline. Without a gating baseline it is undecided, unless it fails."""
    verdict, why = gated(direction.verdict), direction.reason
    baseline, limited = direction.baseline, result.limited_by
    if verdict is Verdict.PASS and (baseline is None or baseline.verdict is Verdict.SKIPPED):
        known = NO_BASELINE if baseline is None else baseline.text
        verdict, why = Verdict.INCONCLUSIVE, f"{known}: {RUN_FIRST}"
    a_bps = None if baseline is None else baseline.figure_bps
    slower = verdict is Verdict.FAIL and limited is not None
    return _entry(result, way, verdict, why).replace(
        a_bps=a_bps,
        b_bps=direction.goodput_bps,
        change=direction.goodput_bps / a_bps - 1 if a_bps is not None and a_bps > 0 else None,
        suspect=f"limited by {limited.cause}: {limited.text}" if slower and limited is not None else "",
    )


def _entry(result: ResultRecord, way: str, verdict: Verdict, text: str) -> ChangeEntryRecord:
    layout = way in (result.layout or ()) or None
    return ChangeEntryRecord(
        id=result.id, direction=way, verdict=gated(verdict), text=text, lab=result.lab, layout=layout
    )


def _sentence(found: Verdict, entries: Sequence[ChangeEntryRecord], against: str, b: str, is_alone: bool) -> str:
    if not entries:
        return f"No decision on {b}: nothing was measured."
    of = {verdict: [entry for entry in entries if entry.verdict is verdict] for verdict in GATE}
    if found is Verdict.FAIL:
        dearer = [entry for entry in of[found] if entry.cost]
        slower = [entry for entry in of[found] if not entry.finding and not entry.cost]
        findings = [entry.finding for entry in of[found] if entry.finding]
        parts = [_worst(slower, len(entries) - len(dearer))] if slower else []
        parts += [_dearest(dearer, entries)] if dearer else []
        kinds = ", ".join(dict.fromkeys(findings))
        parts += [f"{kinds} ({len(findings)} of {len(entries)} results)"] if findings else []
        # The name of A says nothing if A is the same build.
        return f"{b} must not be merged: {'; '.join(parts)}{'' if is_alone else f', against {against}'}."
    if found is Verdict.ERROR:
        return f"No decision on {b}: the lab broke {len(of[found])} of {len(entries)} results."
    layout = [entry for entry in of[Verdict.INCONCLUSIVE] if entry.layout]
    if found is Verdict.INCONCLUSIVE and layout:
        many = f"{len(layout)} of {len(entries)} metrics"
        return f"No decision on {b}: {LAYOUT} {many}; with --layout-counts, this is a regression."
    if found is Verdict.INCONCLUSIVE:
        return f"No decision on {b}: {len(of[found])} of {len(entries)} metrics are undecided."
    faster = len(of[Verdict.IMPROVED])
    more = f", {faster} of them faster" if faster else ""
    none = f"none of {len(entries)} metrics is" if len(entries) > 1 else "the metric is not"
    return f"{b} may be merged: {none} slower than with {against}{more}."


def _dearest(dearer: Sequence[ChangeEntryRecord], entries: Sequence[ChangeEntryRecord]) -> str:
    """Return the cost that grew most, with its metric, and that goodput did not change, if it did not."""
    worst = max(dearer, key=lambda entry: entry.change or 0.0)
    as_fast = all(one.verdict in GOOD for one in entries if not one.cost and one.result_key == worst.result_key)
    took = f"takes {(worst.change or 0.0) * 100:.0f} % more {JUDGED[worst.cost or '']} in {worst.id}"
    return f"as fast, but {took}" if as_fast else took


def _functions(found: Verdict, results: Sequence[ResultRecord]) -> str:
    """Return the function that explains most of a regression, or else the first of all that changed; or empty text."""
    judged = [one for one in results if found is not Verdict.FAIL or one.verdict is Verdict.FAIL]
    grown = [one.exact for one in judged if one.exact is not None and one.exact.functions]
    if found is Verdict.FAIL and grown:
        worst = max(grown, key=lambda one: (one.change_of_sum or 0.0) / (one.a.instructions or 1.0))
        missed = [one for one in worst.functions if one.missed]
        (first, *_) = missed or explaining(worst.functions, worst.shift, Relation.SLOWER)
        # A window may be slower with fewer instructions.
        if first.change > 0:
            return f"largest growth: {_function(first)}"
    # Of several NICs: the one whose driver changed most, or else any function.
    rows = [function_rows(own) for own in by_nic(judged).values()]
    rows = [own for own in rows if own]
    if not rows:
        return ""
    own = max(rows, key=lambda one: (not one[0].record.same_code, -one[0].order.rank, abs(one[0].record.change)))
    many = sum(map(len, rows))
    of = f"first of {many} functions" if many > 1 else "the only function"
    return f"{of} that changed: {_function(own[0].record)}"


def _function(one: FunctionChange) -> str:
    return f"{one.function} {one.a:.2f} -> {one.b:.2f} ({one.change:+.2f})"


def _worst(slower: Sequence[ChangeEntryRecord], of: int) -> str:
    worst = min(slower, key=lambda entry: entry.change or 0.0)
    # An exact gate also fails if only the instructions grow. Unchanged goodput is then no part of the sentence.
    if worst.change is None or worst.change > -UNCHANGED:
        return f"{len(slower)} of {of} metrics slower"
    name = exact_label(worst.id) if CombinationId.parse(worst.id).board == EXACT else worst.id
    return f"{len(slower)} of {of} metrics slower, by {-worst.change * 100:.1f} % in {name}"
