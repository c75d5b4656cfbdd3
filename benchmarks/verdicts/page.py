"""Formats the benchmark's results as a Markdown page."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.verdicts.faults import Shown
from benchmarks.verdicts.harder_links import ALL
from benchmarks.verdicts.links import LINKS
from benchmarks.verdicts.live import live
from benchmarks.verdicts.rivals import RIVALS, Ending
from benchmarks.verdicts.trials import OURS, STALL, Cell, Turns, cases, ideal
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.sequential import ERROR_RATE
from pytest_pinet.judge.stalls import unseen_share

TITLES = {
    "quiet": "quiet, recorded",
    "busy": "busy, recorded",
    "host": "disturbed host, model on the quiet recording",
    "s1": "s1, model of a Pi 5 with a 5 Gbit/s NIC",
    "s2": "s2, model of a CM4 receiving both ways at once",
    "s3": "s3, model of an IRQ lottery in a drifting lab",
    "drift": "quiet, in a lab that drifts",
    "unshaped": "unshaped, recorded (43 % between runs)",
}
CASES = {
    "0": "unchanged",
    **{str(n): f"{n} % slower" for n in (1, 2, 3, 5, 10)},
    "-10": "10 % faster",
    STALL: "20 % of the seconds at half rate",
}

# Cells to which the target of 1 % applies: a baseline of eight days, or days that differ by no more than the prior.
TARGET = 1.0
MOST_WRONG = 12.0
# A cell with a true rate of 1 % shows more wrong verdicts than this in 4 % of all counts.
ALLOWED, ALLOWED_OF = 10, 600
# With eight days, so many more points than with the ideal rule may stay undecided.
MOST_ABOVE = 15
# A change in mid-run begins after so many seconds of traffic.
LATE_S = 10
UNLIKE = (
    *("days 1 %", "days 2 %", "rough, days 1 %", "days on two levels, 5 %"),
    *("boots on two levels, 5 %", "boots on two levels, 10 %"),
    *("s3", "drift", "unshaped"),
)
# The latest cells of `python -m benchmarks.verdicts --unseen`.
UNSEEN = Path(__file__).parent / "unseen.txt"
# What was counted by hand: a cell with other seeds, builds by the boots of their baseline, and the seconds before
# baselines had days.
RECOUNTED = Path(__file__).parent / "recounted.json"
_UNSEEN_CELL = re.compile(r"^(\S.*?) +-(\d+) *%  (\S.*?) +wrong +([\d.]+) %", re.MULTILINE)
UNSEEN_HEAD = """No constant of the judge was chosen on these links (`benchmarks/verdicts/unseen.py`). The days of
the first ten differ by at most 0.8 %; the other four need a baseline of eight days. On *one day in
four* (4 % lower), no rule can do much better: a tenth of the baselines have no lower day (0.75 to
the 8th power), and then each lower day, which is one of four, looks like a slower build. On
*wandering far*, each day keeps half of the deviation of the day before: eight days in a row differ
less than days that are far apart. The number in brackets after the inconclusive share is that of the
ideal rule. Counted by `python -m benchmarks.verdicts --unseen`:
"""
# Rules of ours, in the order of columns.
COLUMNS = ("pinet, 1 day", "pinet, 2 days", "pinet, 8 days", "soak, 8 days")
HEAD = """# What the gate's verdicts are worth

{remains}

## How the cells are counted

By `python -m benchmarks.verdicts` (seed {seed}; {counts}; {fewer} gates a cell of the other rules; {total} in
all) {made}.
The time is simulated, so the machine has no influence on the results. The limit is a tolerance of 3 % below a baseline.

**Wrong** is `fail` if the link is unchanged or 1 % slower; a pass, with or without a flag, if it is 5 or 10 % slower;
`improved` if nothing improved; a pass without a flag if it stalls. Between 2 and 3 % slower only `improved` is wrong.
A link that is 3 % slower is at its limit. *Flagged* is a pass that names what was unusual or a suspicion that was
cleared (verdict `marginal`).

**The ideal rule** knows how much days and connections really differ (as normal variables, from 2000 sessions of each
link), has the budget of 20 connections, and errs in 1 % of the gates. It does not know of two levels, so our rule can
be better.

**The baseline** spans as many days as the column says: three runs on each, or six on a single day. A run of the first
day is one connection of 3 s, since nothing limits it yet. A later run is a gate with a limit, so it has at least the
connections that any verdict on its link needs: one on a quiet link, up to ten on a rough one. So accept a baseline on
the first day, and again when it spans eight. A new baseline is drawn for every three gates, so that every value
contains the baseline's own error. Wrong verdicts therefore come in groups, and the true intervals are wider than those
given. No link is calibrated.

**The links** are the same for every rule. Recorded links are in `benchmarks/verdicts/series/`. Their samples are drawn
by block bootstrap: pieces have at most 5 s, a session is one recorded run, and a connection begins as the recorded run
began. Links that could not be recorded are models: their parameters are from public logs of real boards, or say what
the name says. In all of them, a session is a day. A day has one boot, or three if boots are on two levels.
*Slow starts that jump* is a link that stays at 60 % for 1 to 4 s: a connection of 3 s may then be all start without a
sign of it. Such runs are left out of the baseline as soon as another run shows a slow start.

No clean hold-out exists: the thresholds of `judge/` were chosen with a view of the recordings and of these kinds of
links, though with other seeds. The parts for days were chosen on a simulation of levels alone.
"""
ALL_HEAD = """\
Each cell has the share of wrong verdicts with its 95 % interval (Wilson); the share of inconclusive ones, in brackets
that of the ideal rule; and the median and mean seconds of traffic. Shares are in per cent. More than 1 % wrong is bold.
"""
FEW_DAYS = """\
With a baseline of one day, no rule can tell a day on a lower level from a slower build. Example: half of the days are
5 % lower. Then a quarter of all gates compare a day on the lower level with a baseline on the upper one. A rule that
finds 95 % of the builds that are 5 % slower calls 95 % of these gates slower: 24 % of the unchanged builds. With two
days, a quarter of the baselines has the upper level alone, and every second day is a lower one: 12.5 % of the
unchanged builds look slower. Likewise, 12.5 % of the builds that are 5 % slower look unchanged.

Boots on two levels (10 % apart, half and half) look like a quiet link if all boots of the baseline, one to four, were
on one level. Such a baseline does not show the other level. So a rule that decides quiet links fails the first boot
on the other level. In a simulation ({builds} unchanged builds for each number of boots of one day, {date})
{failed} % failed, all of them with such a baseline; with six boots, {with_six} % failed. Nothing is called improved
with a baseline of one or two days.
"""
PROFILES_HEAD = """The table is in [the reference](../reference/tests.md#which-profile-sees-what): `standard`
passes after 3 s of traffic, so it does not see a link that slows down later. This is a matter of the
profile, not of the error rate.
"""


def page(
    cells: Sequence[Cell],
    turned: Sequence[Turns],
    flagged: dict[tuple[str, str], float],
    faults: Sequence[Shown],
    fewer: int,
    seed: int,
    made: str,
    missing: int = 0,
) -> str:
    """Return the whole page.

    ``flagged`` is the percentage flagged by soak within its shortest pass, by link and case. ``made`` says when and
    where the cells were counted. ``missing`` cells are not counted yet.
    """
    total = sum(cell.gates for cell in cells)
    counts = _counts(cells)
    remains = _remains(cells, missing)
    parts = [HEAD.format(remains=remains, seed=seed, counts=counts, fewer=fewer, total=total, made=made)]
    parts += ["## Every link, every change", "", ALL_HEAD, _all(cells), ""]
    if UNSEEN.exists():
        parts += [
            "## Links that the judge was not made for",
            "",
            UNSEEN_HEAD,
            "<!-- not compared: the benchmark takes a quarter of an hour -->",
            "",
            "```text",
            UNSEEN.read_text() + "```",
            "",
        ]
    parts += ["## Seconds of traffic, then and now", "", _seconds(cells), ""]
    parts += ["## Beside the rules of others", "", _beside(cells), ""]
    if measured := live():
        parts += ["## On a real link", "", measured, ""]
    parts += ["## Which profile sees what", "", PROFILES_HEAD, _stalls(flagged), ""]
    parts += ["## Two states in turn", "", _turns(turned), ""]
    parts += ["## Faults", "", _faults(faults), ""]
    return "\n".join(parts)


def targets(cells: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """Return the cells to which the target of 1 % applies, and the cells with fewer days than their links need."""
    ours = [cell for cell in cells if cell.rule in OURS and cell.case != STALL]
    sure = [cell for cell in ours if "8 days" in cell.rule or cell.link not in UNLIKE]
    return sure, [cell for cell in ours if cell not in sure]


def _remains(cells: Sequence[Cell], missing: int) -> str:
    """Return what the cells show: the condition and rate that hold, what is not reached, and tables of those cells."""
    sure, few = targets(cells)
    missed = [cell for cell in sure if cell.wrong > TARGET]
    open_cells, above = _undecided(cells)
    few_wrong = sum(not _is_over(cell) for cell in sure)
    lines = [
        "How many verdicts of the gate are wrong? At most 1 % should be. Simulated gates show whether this holds.",
        "A *cell* is one link with one change of its speed, judged by one rule in 600 gates or more.",
        "",
        f"**{len(sure) - len(missed)} of {len(sure)} cells have at most 1 % wrong verdicts**, if the baseline spans",
        f"eight days or the days of the link differ by at most 0.8 %. {few_wrong} of them have at most 10 wrong",
        "verdicts of 600.",
        "",
        "Where more verdicts are wrong:",
        "",
    ]
    if missed:
        lines.append(f"- [{len(missed)} of these cells](#cells-above-the-target) have more than 1 % wrong verdicts.")
    lines += _unseen_above()
    if few:
        worst = max(few, key=lambda cell: cell.wrong)
        over = sum(cell.wrong >= MOST_WRONG for cell in few)
        lines += [
            f"- If the baseline has fewer days than the link needs, up to {worst.wrong:.1f} % are wrong",
            f"  ({_name(worst)}). {over} of {len(few)} such cells have {MOST_WRONG:.0f} % or more.",
        ]
    lines += [
        "- With eight days, profile `standard` leaves more gates",
        f"  [undecided](#more-inconclusive-than-the-ideal-rule) than an ideal rule: by more than {MOST_ABOVE}",
        f"  percentage points in {len(above)} of {len(open_cells)} cells.",
    ]
    lines += _stalls_missed(cells)
    if missing:
        total = missing + sum(cell.rule in OURS for cell in cells)
        lines.append(f"- {missing} of {total} cells are not counted yet; their places are empty.")
    if missed:
        lines += ["", "## Cells above the target", "", *_missed(missed)]
    if few:
        lines += ["", "## Baselines with too few days or boots", "", _few_days(), *_table_of_wrong(_worst(few))]
    if above:
        lines += ["", "## More inconclusive than the ideal rule", "", *_table_of_open(above)]
    return "\n".join(lines)


def _is_over(cell: Cell) -> bool:
    """Return whether more verdicts are wrong than 10 of 600."""
    return cell.wrong_gates * ALLOWED_OF > ALLOWED * cell.gates


def _stalls_missed(cells: Sequence[Cell]) -> list[str]:
    """Return a line about the links that run at half rate now and then: no profile sees more than its table says."""
    stalls = [cell for cell in cells if cell.rule in OURS and cell.case == STALL]
    above = [cell for cell in stalls if cell.wrong > TARGET]
    if not above:
        return []
    rules = sorted({cell.rule for cell in above})
    return [
        "- A pass takes 3 s of traffic, so a fault that begins later [is missed](#which-profile-sees-what). A link",
        "  that runs at half rate in a fifth of its seconds passes more than 1 % of its gates without a flag in",
        f"  {len(above)} of {len(stalls)} cells ({', '.join(rules)}).",
    ]


def _unseen_above() -> list[str]:
    """Return a line about the cells above the target on the links that the judge was not made for."""
    cells = _UNSEEN_CELL.findall(UNSEEN.read_text()) if UNSEEN.exists() else []
    above = [
        f"*{link}*, {CASES[case]}, {rule}: {wrong} %" for link, case, rule, wrong in cells if float(wrong) > TARGET
    ]
    if not above:
        return []
    return [
        f"- Of the {len(cells)} cells of",
        "  [links that the judge was not made for](#links-that-the-judge-was-not-made-for),",
        f"  {len(above)} have more than 1 % wrong verdicts ({'; '.join(above)}).",
    ]


def _worst(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells above the target, worst first."""
    return sorted((cell for cell in cells if cell.wrong > TARGET), key=lambda cell: -cell.wrong)


def _missed(missed: Sequence[Cell]) -> list[str]:
    """Return the table of the cells above the target, and how many are so by more than chance explains."""
    again = json.loads(RECOUNTED.read_text())["cell"]
    other = " and ".join(f"{one['wrong']} of {one['gates']} (seed {seed})" for seed, one in again["seeds"].items())
    over = [cell for cell in missed if _is_over(cell)]
    sure = [cell for cell in missed if cell.wrong_interval[0] > TARGET]
    return [
        "The rule errs in 1 % of its gates by design where days differ much, so chance lifts some cells above 1 %.",
        f"Cells above 10 of 600: {len(over)}. Cells whose 95 % interval lies above 1 %: {len(sure)}. Three gates share",
        "a baseline, so wrong verdicts come in groups. One cell was counted again with other seeds on",
        f"{again['date']}: {again['link']}, {again['change']}:",
        f"{other} wrong.",
        "",
        "A baseline can mislead every rule. The days of a link in a drifting lab differ by 2 %. In 27 of the 28 gates",
        "that were wrong (1 % slower), the eight days of its baseline happened to differ by only 0.6 to 1.6 %.",
        "A stricter bound costs verdicts: in a simulation of levels of days alone (20000 such baselines), this",
        "rule errs in 1.0 % of the gates that are 1 % slower and leaves 65 % of the unchanged ones inconclusive; a",
        "rule that errs in 0.7 % leaves 72 %.",
        "",
        *_table_of_wrong(_worst(missed)),
    ]


def _few_days() -> str:
    """Return what a baseline of too few days or boots means, with the shares of a simulation."""
    boots = json.loads(RECOUNTED.read_text())["boots"]
    with_six = boots["failed"].pop("6")
    return FEW_DAYS.format(**boots | {"failed": _series(boots["failed"].values())}, with_six=with_six)


def _series(values: Iterable[float]) -> str:
    """Return ``1, 2 and 3``."""
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last


def _table_of_wrong(cells: Sequence[Cell]) -> list[str]:
    lines = [_row(["link", "change", "rule", "wrong %", "95 % interval"]), _row(["---"] * 5)]
    for cell in cells:
        low, high = cell.wrong_interval
        lines.append(_row([*_names(cell), f"{cell.wrong:.1f}", f"{low:.1f} to {high:.1f}"]))
    return lines


def _table_of_open(cells: Sequence[Cell]) -> list[str]:
    lines = [_row(["link", "change", "rule", "inconclusive %", "ideal %"]), _row(["---"] * 5)]
    for cell in cells:
        known = ideal(cell.link, cell.case, 8)
        lines.append(_row([*_names(cell), f"{cell.percent(Ending.INCONCLUSIVE):.3g}", f"{known:.0f}"]))
    return lines


def _counts(cells: Sequence[Cell]) -> str:
    """Return how many cells of our rules have how many gates."""
    found = Counter(cell.gates for cell in cells if cell.rule in OURS)
    return ", ".join(f"{gates} gates in {count} cells" for gates, count in sorted(found.items(), reverse=True))


def _undecided(cells: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """Return the cells of profile `standard` with eight days, and those much more inconclusive than the ideal rule."""
    own = [cell for cell in cells if cell.rule == "pinet, 8 days" and cell.case != STALL]
    above = [cell for cell in own if cell.percent(Ending.INCONCLUSIVE) > ideal(cell.link, cell.case, 8) + MOST_ABOVE]
    return own, above


def _names(cell: Cell) -> tuple[str, str, str]:
    return TITLES.get(cell.link, cell.link), CASES[cell.case], cell.rule


def _name(cell: Cell) -> str:
    return ", ".join(_names(cell))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _all(cells: Sequence[Cell]) -> str:
    found = {(cell.link, cell.case, cell.rule): cell for cell in cells}
    lines = [_row(["link", "change", *COLUMNS]), _row(["---"] * (2 + len(COLUMNS)))]
    for link in ALL:
        for case in cases():
            own = [found.get((link, case, rule)) for rule in COLUMNS]
            if any(own):
                lines.append(_row([TITLES.get(link, link), CASES[case], *(_cell(cell) for cell in own)]))
    return "\n".join(lines)


def _cell(cell: Cell | None) -> str:
    """Return ``0.2 (0.0 to 0.9); 2 (0); 3 / 3.2 s``."""
    if cell is None:
        return ""
    low, high = cell.wrong_interval
    wrong = f"**{cell.wrong:.1f}**" if cell.wrong > TARGET else f"{cell.wrong:.1f}"
    known = "" if cell.case == STALL else f" ({ideal(cell.link, cell.case, OURS[cell.rule][1]):.0f})"
    flagged = cell.percent(Ending.FLAGGED)
    more = f"; flagged {flagged:.2g}" if flagged >= 1 else ""
    undecided = f"{cell.percent(Ending.INCONCLUSIVE):.3g}{known}"
    return f"{wrong} ({low:.1f} to {high:.1f}); {undecided}; {cell.median_s:.0f} / {cell.mean_s:.1f} s{more}"


def _seconds(cells: Sequence[Cell]) -> str:
    """Return the mean seconds of traffic for a verdict before baselines had days, and now."""
    before = json.loads(RECOUNTED.read_text())["seconds"]
    found = {(cell.link, cell.case, cell.rule): cell for cell in cells}
    rules = ("pinet, 1 day", "pinet, 8 days")
    lines = [
        f"Mean seconds of traffic for a verdict on {before['date']} (commit {before['commit']};",
        f"{before['gates']} gates a cell, a baseline of eight sessions of four connections), before the judge knew the",
        "days of a baseline, and now. The aim for quiet links is at most 1.3 times as many.",
        "",
        _row(["link", "change", "then", *rules]),
        _row(["---"] * 5),
    ]
    for link, means in before["mean"].items():
        for case, mean in means.items():
            own = [found.get((link, case, rule)) for rule in rules]
            now = [f"{cell.mean_s:.1f} ({cell.mean_s / mean:.2f} times)" if cell else "" for cell in own]
            lines.append(_row([TITLES[link], CASES[case], f"{mean:.1f}", *now]))
    return "\n".join(lines)


def _beside(cells: Sequence[Cell]) -> str:
    rules = ("pinet, 8 days", *RIVALS)
    found = {(cell.link, cell.case, cell.rule): cell for cell in cells}
    lines = [
        "The highest share of false alarms (unchanged, 1 % slower), then of misses (5 and 10 % slower), both in per",
        "cent; then the median of the seconds if unchanged / 5 % slower. The other rules know the same baseline.",
        "",
        _row(["link", *rules]),
        _row(["---"] * (1 + len(rules))),
    ]
    for link in LINKS:
        if any((link, case, rule) not in found for case in ("0", "1", "5", "10") for rule in rules):
            continue
        row = [TITLES[link]]
        for rule in rules:
            alarms = max(found[link, case, rule].wrong for case in ("0", "1"))
            missed = max(found[link, case, rule].wrong for case in ("5", "10"))
            seconds = [found[link, case, rule].median_s for case in ("0", "5")]
            row.append(f"{_mark(alarms)}, {_mark(missed)}; {seconds[0]:.0f} / {seconds[1]:.0f} s")
        lines.append(_row(row))
    return "\n".join(lines)


def _mark(per_cent: float) -> str:
    return f"**{per_cent:.1f}**" if per_cent > 1 else f"{per_cent:.1f}"


def profiles() -> str:
    """Return the table of what each profile sees."""
    heads = (
        "profile", "passes after", "fails after", "at most", "a link that is slower",
        "slower for good after 10 s of traffic", "a fault that comes and goes",
    )  # fmt: skip
    lines = [_row(heads), _row(["---"] * len(heads))]
    for profile in PROFILES.values():
        seconds = profile.passes_after * profile.connection_s
        share = unseen_share(profile.least_counted_s, ERROR_RATE) * 100
        late = "found" if seconds > LATE_S else "passes"
        rare = f"missed if active less than {share:.2g} % of the time"
        fails = f"{profile.fails_after} connections"
        name = f"`{profile.name}`"
        most = f"{profile.budget_s:g} s"
        lines.append(_row([name, f"{seconds} s of traffic", fails, most, "found", late, rare]))
    return "\n".join(lines)


def _stalls(flagged: dict[tuple[str, str], float]) -> str:
    shortest = PROFILES["soak"].passes_after * PROFILES["soak"].connection_s
    lines = [f"Per cent of gates of profile `soak` that are flagged within {shortest} s of traffic:", ""]
    lines += [_row(["link", CASES[STALL], "unchanged (false flags)"]), _row(["---"] * 3)]
    lines += [
        _row([TITLES[link], f"{flagged[link, STALL]:.1f}", f"{flagged[link, '0']:.1f}"])
        for link in LINKS
        if (link, STALL) in flagged
    ]
    return "\n".join(lines)


def _turns(turned: Sequence[Turns]) -> str:
    lines = [
        "`judge/interleaved.py` (`compare_connections`, as `gate.compare` calls it), connections of 3 s in the order",
        "A B B A B A A B, both states in one session. The table has per cent of comparisons, with the noise that a",
        "calibration shows, and without a calibration.",
        "",
        _row(["link", "B is", "calibrated", "slower", "same", "faster", "inconclusive", "median s"]),
        _row(["---"] * 8),
    ]
    for turn in turned:
        shares = []
        for result in (Relation.SLOWER, Relation.SAME, Relation.FASTER, Relation.INCONCLUSIVE):
            share = turn.results[result]
            wrong = (
                (result is Relation.SLOWER and turn.slower <= 1)
                or (result is Relation.SAME and turn.slower >= 5)
                or (result is Relation.FASTER and turn.slower >= 0)
            )
            shares.append(f"**{share:.1f}**" if wrong and share else f"{share:.1f}")
        known = "yes" if turn.calibrated else "no"
        lines.append(_row([TITLES[turn.link], CASES[str(turn.slower)], known, *shares, f"{turn.median_s:.0f}"]))
    return "\n".join(lines)


def _faults(faults: Sequence[Shown]) -> str:
    lines = [
        "The first connection of an unchanged link has a fault; the others have none. The rivals' rules get the",
        "samples that their own tools would give them (LNST: a failed iteration is a sample of 0). A failed clean-up",
        "leaves no trace in samples; the tests of `lab/` show it. For a frozen endpoint, the rivals' seconds are only",
        "seconds of traffic: LNST itself hung for 15 min 36 s. A fault that ends in an error never reaches our rule.",
        "The test in the table proves on the real gate that the fault is reported within 20 s.",
        "",
        _row(["fault", "pinet", *RIVALS]),
        _row(["---"] * (2 + len(RIVALS))),
    ]
    for name in dict.fromkeys(shown.fault for shown in faults):
        own = {shown.rule: shown for shown in faults if shown.fault == name}
        lines.append(_row([name, *(_said(own[rule]) for rule in ("pinet", *RIVALS))]))
    return "\n".join(lines)


def _said(shown: Shown) -> str:
    return shown.verdict if shown.seconds is None else f"{shown.verdict}; {shown.seconds:.0f} s"
