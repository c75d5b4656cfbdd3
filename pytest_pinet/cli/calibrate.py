"""``pinet calibrate``: measures how much values vary when nothing changes, and writes the tolerances that follow."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli import lab_names
from pytest_pinet.cli.command import with_sections
from pytest_pinet.cli.exit_codes import INTERRUPTED
from pytest_pinet.cli.options import LAB_OPTION, Steps, print_result
from pytest_pinet.cli.paint import echo
from pytest_pinet.errors import ConfigError, InvalidMeasurement, KernelError, LabError, UnsupportedError, mistake_in
from pytest_pinet.execution.output_file import writing
from pytest_pinet.execution.path_kind import exists
from pytest_pinet.model.traffic import Direction

if TYPE_CHECKING:
    from pytest_pinet.calibration.connections import Levels
    from pytest_pinet.calibration.outcome import CalibrationOutcome
    from pytest_pinet.config.schema import LabOfFile
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
@click.argument("combinations", metavar="[COMBINATION]...", nargs=-1, shell_complete=lab_names.combinations)
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
    from pytest_pinet.calibration.connections import Levels
    from pytest_pinet.calibration.outcome import table
    from pytest_pinet.config.labfile import load
    from pytest_pinet.judge.profile import PROFILES
    from pytest_pinet.matrix.inventory import select_combinations
    from pytest_pinet.model.quantities import Bitrate
    from pytest_pinet.model.traffic import standard_traffic

    if length is not None and bitrate is None:
        raise ConfigError(f"--length {length} needs --udp BITRATE, because TCP has no datagrams")
    with mistake_in("--udp"):
        rate = Bitrate.parse(bitrate) if bitrate is not None else None
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
        echo(f"{combination.id}: {each}", err=True)
    if (days := total_s / 86400) > _MOST_DAYS:
        less = "reduce --connections, --links or --boots, or name fewer combinations"
        raise ConfigError(f"this takes up to {math.ceil(days)} days; expected at most {_MOST_DAYS}: {less}")
    echo(f"this takes about {_duration(total_s)} and writes {lab.calibration}", err=True)
    check_writable(lab.calibration)
    if dry_run:
        return
    if not yes and sys.stdin.isatty():
        click.confirm("Begin?", default=True, abort=True, err=True)
    done, errors, interrupted = _calibrate(
        lab, {one: {way: traffic(way) for way in directions} for one, directions in wanted.items()}, levels
    )
    for error in errors:
        echo(f"pinet: {error}", err=True)
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
    from pytest_pinet.calibration.outcome import outcome
    from pytest_pinet.config.calibration import write_calibration
    from pytest_pinet.judge.profile import PROFILES
    from pytest_pinet.lab.access import visit
    from pytest_pinet.report.text_wrap import count

    profile = PROFILES[lab.profile]
    done: list[CalibrationOutcome] = []
    errors: list[str] = []
    interrupted = False
    steps = Steps()
    try:
        with visit(lab, "calibrate", steps.say, errors.extend) as here:
            for combination, traffics in wanted.items():
                try:
                    course = measure(here, combination, traffics, levels, steps)
                    found = [
                        outcome(figure, attempts, profile, date.today(), course.build)
                        for figure, attempts in course.figures.items()
                    ]
                except (LabError, UnsupportedError, InvalidMeasurement, KernelError, ValueError) as error:
                    errors.append(f"{combination.id} is not calibrated: {error}")
                    continue
                finally:
                    here.keep_only(())
                write_calibration(lab.calibration, [one.calibration for one in found])
                done += found
                for note in course.notes:
                    steps.say(f"{combination.id}: {note}")
    except KeyboardInterrupt:
        interrupted = True
        errors.append(f"interrupted: {count(len(done), 'complete result')} saved")
    steps.end()
    return done, errors, interrupted


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


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
