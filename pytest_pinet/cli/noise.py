"""How much a lab varies, and what its gates find: ``pinet calibrate`` and ``pinet selftest``."""

from __future__ import annotations

import json
import math
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import INTERRUPTED, PINET, PinetCommand, echo, parsed, say, with_sections
from pytest_pinet.cli.options import LAB_OPTION, Steps, complete_combinations, print_lines, print_result
from pytest_pinet.errors import ConfigError, InvalidMeasurement, KernelError, LabError, UnsupportedError, mistake_in
from pytest_pinet.execution.files import exists, writing
from pytest_pinet.model.traffic import Direction

if TYPE_CHECKING:
    from pytest_pinet.calibration.connections import CalibrationOutcome, Levels
    from pytest_pinet.calibration.selftest import SelftestPlan, SelftestReport
    from pytest_pinet.config.calibration import Calibration
    from pytest_pinet.config.schema import LabOfFile
    from pytest_pinet.lab.access import LabAccess
    from pytest_pinet.model.combination import Combination
    from pytest_pinet.model.traffic import Traffic


FAILED = 1
_FEWEST_CONNECTIONS = 2
_MOST_DAYS = 7


@click.command(
    cls=with_sections(
        {
            "How often to measure": ["--connections", "--links", "--boots"],
            "Traffic": ["--direction", "--streams", "--udp", "--length"],
        }
    )
)
@LAB_OPTION
@click.argument("combinations", metavar="[COMBINATION]...", nargs=-1, shell_complete=complete_combinations)
@click.option(
    "--connections",
    type=click.IntRange(_FEWEST_CONNECTIONS, 1000),
    default=5,
    show_default=True,
    help="Connections for each link-up.",
)
@click.option(
    "--links", type=click.IntRange(0, 100), default=3, show_default=True,
    help="Fresh link-ups for each boot. The device under test takes its link down and up.",
)  # fmt: skip
@click.option("--boots", type=click.IntRange(0, 100), default=0, show_default=True, help="Power cycles of the nodes.")
@click.option(
    "--direction", type=click.Choice([str(way) for way in Direction]), help="By default tx and rx, alternately."
)
@click.option("--streams", type=click.IntRange(1, 128), default=1, show_default=True, help="Parallel TCP connections.")
@click.option("--udp", "bitrate", metavar="BITRATE", help="Send UDP at this rate for each stream, such as 900M.")
@click.option("--length", type=click.IntRange(16, 65507), metavar="BYTES", help="Payload of each datagram.")
@click.option("--json", "as_json", is_flag=True, help="Print a list instead of the table.")
@click.option("--yes", is_flag=True, help="Begin without a question.")
@click.option("--dry-run", is_flag=True, help="Print what would be measured and how long it takes, and stop.")
def calibrate(
    lab_file: str,
    combinations: tuple[str, ...],
    connections: int,
    links: int,
    boots: int,
    direction: str | None,
    streams: int,
    bitrate: str | None,
    length: int | None,
    as_json: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Measure how much results vary between connections, link-ups and boots when nothing changes.

    The noise, tolerance and repeats of each result are written to the lab's calibration file. The gate reads them from
    there. Each COMBINATION is an id or a glob ('pi4b:*/pair'; default: all pairs).

    Exit code: 0 if all are calibrated; 1 after an error of the lab; 4 for wrong arguments; 130 if interrupted.
    """
    from pytest_pinet.calibration.connections import Levels, table
    from pytest_pinet.config.labfile import load
    from pytest_pinet.judge.profile import PROFILES
    from pytest_pinet.matrix.expansion import select_combinations
    from pytest_pinet.model.quantities import Bitrate
    from pytest_pinet.model.traffic import standard_traffic

    if length is not None and bitrate is None:
        raise ConfigError(f"--length {length} needs --udp BITRATE, because TCP has no datagrams")
    rate = parsed("--udp", Bitrate.parse, bitrate) if bitrate is not None else None
    lab = load(lab_file)
    one_way = Direction(direction) if direction is not None else None
    chosen = select_combinations(lab, combinations)
    with mistake_in("--direction"):
        wanted = {combination: combination.topology.ways(one_way) for combination in chosen}
    levels = Levels(connections, links, boots)
    connection_s = PROFILES[lab.profile].connection_s

    def traffic(way: Direction) -> Traffic:
        sent = standard_traffic(way, connection_s, streams)
        if rate is None:
            return sent
        return replace(sent, udp=True, bitrate=rate, length=length)

    total_s = 0.0
    for combination, directions in wanted.items():
        boot_s = max(node.boot_timeout_s for node in combination.nodes) / 2
        total_s += levels.seconds(len(directions), connection_s, boot_s)
        each = f"{levels.connections} connections of {connection_s} s, {' and '.join(map(str, directions))}"
        say(f"{combination.id}: {each}")
    if (days := total_s / 86400) > _MOST_DAYS:
        less = "reduce --connections, --links or --boots, or name fewer combinations"
        raise ConfigError(f"this takes up to {math.ceil(days)} days; expected at most {_MOST_DAYS}: {less}")
    duration = f"{total_s:.0f} s" if total_s < 100 else f"{total_s / 60:.0f} min"
    say(f"this takes about {duration} and writes {lab.calibration}")
    check_writable(lab.calibration)
    if dry_run:
        return
    if not yes and sys.stdin.isatty():
        click.confirm("Begin?", default=True, abort=True, err=True)
    done, errors, interrupted = _calibrate(
        lab, {one: {way: traffic(way) for way in directions} for one, directions in wanted.items()}, levels
    )
    for error in errors:
        say(f"{PINET} {error}")
    print_result(as_json, lambda: [one.as_json() for one in done], lambda: table(done) if done else [])
    if errors:
        sys.exit(INTERRUPTED if interrupted else FAILED)


def _calibrate(
    lab: LabOfFile, wanted: dict[Combination, dict[Direction, Traffic]], levels: Levels
) -> tuple[list[CalibrationOutcome], list[str], bool]:
    """Measure the combinations. Return outcomes, errors, and whether a user interrupted it.

    Complete outcomes are saved at once.
    """
    from pytest_pinet.calibration.connections import calibrate as measure
    from pytest_pinet.calibration.connections import outcome
    from pytest_pinet.config.calibration import write_calibration
    from pytest_pinet.judge.profile import PROFILES
    from pytest_pinet.report.text_wrap import count

    profile = PROFILES[lab.profile]
    done: list[CalibrationOutcome] = []

    def one(here: LabAccess, combination: Combination, steps: Steps) -> None:
        course = measure(here, combination, wanted[combination], levels, steps)
        try:
            found = [outcome(*each, profile, date.today(), course.build) for each in course.figures.items()]
        except ValueError as error:
            raise InvalidMeasurement(str(error)) from None
        write_calibration(lab.calibration, [one.calibration for one in found])
        done.extend(found)
        for note in course.notes:
            steps.say(f"{combination.id}: {note}")

    errors, interrupted = _visit_each(lab, "calibrate", wanted, one, " is not calibrated")
    if interrupted:
        errors.append(f"interrupted: {count(len(done), 'complete result')} saved")
    return done, errors, interrupted


def _visit_each(
    lab: LabOfFile,
    purpose: str,
    wanted: Iterable[Combination],
    one: Callable[[LabAccess, Combination, Steps], None],
    failed: str = "",
) -> tuple[list[str], bool]:
    """Use a lab for one combination after the other. Return an error for each that ``failed``, and if interrupted."""
    from pytest_pinet.lab.access import visit

    errors: list[str] = []
    steps = Steps()
    try:
        with visit(lab, purpose, steps.say, errors.extend) as here:
            for combination in wanted:
                try:
                    one(here, combination, steps)
                except (LabError, UnsupportedError, InvalidMeasurement, KernelError) as error:
                    errors.append(f"{combination.id}{failed}: {error}")
                finally:
                    here.keep_only(())
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    steps.end()
    return errors, interrupted


def check_writable(path: Path) -> None:
    """Check before any measurement that the result can be written. Raises ConfigError."""
    from pytest_pinet.config.calibration import read_calibration

    if exists(path):
        read_calibration(path)
        if not os.access(path, os.W_OK):
            raise ConfigError(f"cannot write the calibration to {path}; make the file writable")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass


WRONG = 1
_TOLERANCE = 0.03
_MOST = 0.9


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.argument("combinations", metavar="[COMBINATION]...", nargs=-1, shell_complete=complete_combinations)
@click.option("--reductions", default="3%,5%,10%", show_default=True, help="By how much the link is slowed down.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=2, show_default=True, help="Gates for each reduction.")
@click.option(
    "--tolerance", help="The limit is this much below the baseline.  [default: the calibrated tolerance, or 3%]"
)
@click.option(
    "--direction", type=click.Choice([str(Direction.TX), str(Direction.RX)]), help="By default both, alternately."
)
@click.option("--seed", type=int, help="Repeat the random order of an earlier self-test.")
@click.option("--json", "as_json", is_flag=True, help="Print a list instead of the tables.")
def selftest(
    lab_file: str,
    combinations: tuple[str, ...],
    reductions: str,
    repeats: int,
    tolerance: str | None,
    direction: str | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Run gates on links that are slowed by known amounts and on unchanged links, and count the right verdicts.

    A shaper on the peer slows the link. The shaper is always removed, even if this command is interrupted or killed.
    Each COMBINATION is the id of a pair or a glob ('pi4b:*/pair'; default: the first pair of the lab, which takes about
    3 minutes).

    Exit code: 0 if all verdicts are right; 1 for wrong verdicts or after an error of the lab; 4 for wrong arguments;
    130 if interrupted.
    """
    from pytest_pinet.calibration.selftest import SelftestPlan, SelftestReport
    from pytest_pinet.config.calibration import load_calibration
    from pytest_pinet.config.labfile import load
    from pytest_pinet.judge.profile import PROFILES
    from pytest_pinet.matrix.expansion import select_combinations

    lab = load(lab_file)
    wanted = select_combinations(lab, combinations) if combinations else select_combinations(lab, ())[:1]
    for one in wanted:
        if one.topology.name != "pair":
            raise ConfigError(
                f"{one.id} is no pair; a self-test slows one link, so it needs pairs, such as pi4b:onboard/pair"
            )
    calibration = load_calibration(lab)
    given = _share("--tolerance", tolerance) if tolerance is not None else None
    plan = SelftestPlan(
        tuple(sorted({_share("--reductions", text) for text in reductions.split(",")})),
        repeats,
        PROFILES[lab.profile],
        seed if seed is not None else random.randrange(1_000_000),
    )
    one_way = Direction(direction) if direction is not None else None
    reports = []
    total_s = 0.0
    for one in wanted:
        report = SelftestReport(one, given or _calibrated(one, calibration) or _TOLERANCE, one.topology.ways(one_way))
        total_s += plan.seconds(len(report.ways), report.tolerance)
        reports.append(report)
    names = ", ".join(report.combination.id for report in reports)
    say(f"{names}: {(len(plan.reductions) + 1) * repeats} gates each, seed {plan.seed}, about {total_s / 60:.0f} min")
    errors, interrupted = _run(lab, plan, reports)
    wrong = _show(reports, as_json)
    for error in errors:
        say(f"{PINET} {error}")
    if errors or wrong:
        sys.exit(INTERRUPTED if interrupted else WRONG)


def _run(lab: LabOfFile, plan: SelftestPlan, reports: list[SelftestReport]) -> tuple[list[str], bool]:
    """Fill the reports. Return a message for each error, and whether a user interrupted it."""
    from pytest_pinet.calibration.selftest import Selftest
    from pytest_pinet.config.calibration import ReferenceData

    # The limits are made here, from values that were just measured.
    known = ReferenceData(lab, gated=False)
    wanted = {report.combination: report for report in reports}

    def one(here: LabAccess, combination: Combination, steps: Steps) -> None:
        with here.open(combination) as link:
            Selftest(here, link, plan, known, steps, steps.say).run(wanted[combination])

    errors, interrupted = _visit_each(lab, "selftest", wanted, one)
    if interrupted:
        errors.append("interrupted: only the gates before the interruption are counted")
    return errors, interrupted


def _show(reports: list[SelftestReport], as_json: bool) -> bool:
    """Print the results. Return whether any verdict is wrong."""
    from pytest_pinet.calibration.selftest import Mark, count, sentence, table

    records = []
    wrong = False
    for report in reports:
        counts = count(report.outcomes, report.baselines, report.tolerance)
        wrong |= any(one.marks[Mark.WRONG] or one.shaper_erred or not one.judged for one in counts)
        text = sentence(report.combination.id, report.tolerance, counts) if counts else ""
        records.append(
            {
                "id": report.combination.id,
                "tolerance": report.tolerance,
                "baselines_bps": {str(way): rate.bps for way, rate in report.baselines.items()},
                "counts": [one.as_json() for one in counts],
                "gates": [one.as_json() for one in report.outcomes],
                "sentence": text,
            }
        )
        if counts and not as_json:
            print_lines([*table(counts), text, ""])
    if as_json:
        echo(json.dumps(records, indent=1))
    return wrong


def _calibrated(combination: Combination, calibration: Mapping[str, Calibration]) -> float | None:
    """Return the largest tolerance of the combination's metrics, so that one limit covers them all."""
    prefix = f"{combination.id}/tcp-P1-"
    return max((own.tolerance.fraction for name, own in calibration.items() if name.startswith(prefix)), default=None)


def _share(option: str, text: str) -> float:
    from pytest_pinet.model.quantities import Share

    share = parsed(option, Share.parse, text).fraction
    if not 0 < share <= _MOST:
        raise ConfigError(f"{option} {text.strip()}: expected a share above 0%, at most {_MOST:.0%}")
    return share
