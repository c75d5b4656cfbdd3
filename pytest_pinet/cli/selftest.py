"""``pinet selftest``: slows a link down by known amounts, and counts how often the gate is right."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli import lab_names
from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.exit_codes import INTERRUPTED
from pytest_pinet.cli.options import LAB_OPTION, Steps, print_lines
from pytest_pinet.cli.paint import echo
from pytest_pinet.errors import ConfigError, InvalidMeasurement, KernelError, LabError, UnsupportedError, mistake_in
from pytest_pinet.model.traffic import Direction

if TYPE_CHECKING:
    from pytest_pinet.calibration.selftest import SelftestPlan, SelftestReport
    from pytest_pinet.config.calibration import Calibration
    from pytest_pinet.config.schema import LabOfFile
    from pytest_pinet.model.combination import Combination

WRONG = 1
TOLERANCE = 0.03
_MOST = 0.9


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.argument("combinations", metavar="[COMBINATION]...", nargs=-1, shell_complete=lab_names.combinations)
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
    from pytest_pinet.matrix.inventory import select_combinations

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
        report = SelftestReport(one, given or _calibrated(one, calibration) or TOLERANCE, one.topology.ways(one_way))
        total_s += plan.seconds(len(report.ways), report.tolerance)
        reports.append(report)
    names = ", ".join(report.combination.id for report in reports)
    echo(
        f"{names}: {(len(plan.reductions) + 1) * repeats} gates each, seed {plan.seed}, about {total_s / 60:.0f} min",
        err=True,
    )
    errors, interrupted = _run(lab, plan, reports)
    wrong = _show(reports, as_json)
    for error in errors:
        echo(f"pinet: {error}", err=True)
    if errors or wrong:
        sys.exit(INTERRUPTED if interrupted else WRONG)


def _run(lab: LabOfFile, plan: SelftestPlan, reports: list[SelftestReport]) -> tuple[list[str], bool]:
    """Fill the reports. Return a message for each error, and whether a user interrupted it."""
    from pytest_pinet.calibration.selftest_run import Selftest
    from pytest_pinet.config.reference_data import ReferenceData
    from pytest_pinet.lab.access import visit

    # The limits are made here, from values that were just measured.
    known = ReferenceData(lab, gated=False)
    steps = Steps()
    errors: list[str] = []
    interrupted = False
    try:
        with visit(lab, "selftest", steps.say, errors.extend) as here:
            for report in reports:
                try:
                    with here.open(report.combination) as link:
                        Selftest(here, link, plan, known, steps, steps.say).run(report)
                except (LabError, UnsupportedError, InvalidMeasurement, KernelError) as error:
                    errors.append(f"{report.combination.id}: {error}")
                finally:
                    here.keep_only(())
    except KeyboardInterrupt:
        interrupted = True
        errors.append("interrupted: only the gates before the interruption are counted")
    steps.end()
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

    with mistake_in(option):
        share = Share.parse(text).fraction
    if not 0 < share <= _MOST:
        raise ConfigError(f"{option} {text.strip()}: expected a share above 0%, at most {_MOST:.0%}")
    return share
