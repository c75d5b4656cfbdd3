"""``pinet calibrate``: measures how much values vary when nothing changes, and writes the tolerances that follow."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.lab_file import LAB_OPTION
from pytest_pinet.cli.progress import Steps
from pytest_pinet.errors import ConfigError, InvalidMeasurement, KernelError, LabError, UnsupportedError
from pytest_pinet.model.traffic import Direction, Traffic

if TYPE_CHECKING:
    from pytest_pinet.calibration.levels import Levels
    from pytest_pinet.calibration.outcome import CalibrationOutcome
    from pytest_pinet.config.lab_of_file import LabOfFile
    from pytest_pinet.model.combination import Combination

TROUBLE = 1
_FEWEST_RUNS = 2


@click.command()
@LAB_OPTION
@click.argument("combinations", metavar="[COMBINATION]...", nargs=-1)
@click.option(
    "--runs", type=click.IntRange(min=_FEWEST_RUNS), default=5, show_default=True, help="Connections of each link-up."
)
@click.option(
    "--links", type=click.IntRange(min=0), default=3, show_default=True,
    help="Fresh link-ups of each boot: the device under test takes its link down and up.",
)  # fmt: skip
@click.option("--boots", type=click.IntRange(min=0), default=0, show_default=True, help="Power cycles of the nodes.")
@click.option(
    "--direction", type=click.Choice([str(way) for way in Direction]), help="By default tx and rx, each by itself."
)
@click.option("--streams", type=click.IntRange(1, 128), default=1, show_default=True, help="TCP connections at once.")
@click.option("--udp", "bitrate", metavar="BITRATE", help="UDP at this rate of each stream, such as 900M.")
@click.option("--length", type=click.IntRange(16, 65507), metavar="BYTES", help="Payload of a datagram.")
@click.option("--json", "as_json", is_flag=True, help="Print a list instead of the table.")
@click.option("--yes", is_flag=True, help="Do not ask before it begins.")
@click.option("--dry-run", is_flag=True, help="Say what would be measured and how long it takes, and stop.")
def calibrate(
    lab_file: str,
    combinations: tuple[str, ...],
    runs: int,
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
    """Measure how much each figure varies between connections, link-ups and boots when nothing changes.

    Writes noise, tolerance and repeats of each figure into the lab's calibration file; gates read it from there. Each
    COMBINATION is an id or a glob ('pi4b:*/pair'; default: all pairs). Exit code 0, 1 for trouble in the lab, 4 for a
    mistake of yours.
    """
    from pytest_pinet.calibration.levels import Levels
    from pytest_pinet.config.labfile import load
    from pytest_pinet.judge.profile import PROFILES
    from pytest_pinet.matrix.selection import select_combinations
    from pytest_pinet.measure.default_traffic import datagrams, standard_traffic, ways
    from pytest_pinet.model.quantities import Bitrate

    if length is not None and bitrate is None:
        raise ConfigError(f"--length {length}: TCP has no datagrams; expected --udp BITRATE with it")
    try:
        rate = Bitrate.parse(bitrate) if bitrate is not None else None
    except ValueError as error:
        raise ConfigError(f"--udp: {error}") from None
    lab = load(lab_file)
    asked = Direction(direction) if direction is not None else None
    wanted = {}
    for combination in select_combinations(lab, combinations):
        try:
            wanted[combination] = ways(combination, asked)
        except ValueError as error:
            raise ConfigError(f"--direction: {error}") from None
    levels = Levels(runs, links, boots)
    connection_s = PROFILES[lab.profile].connection_s

    def traffic(way: Direction) -> Traffic:
        if rate is None:
            return standard_traffic(way, connection_s, streams)
        return datagrams(way, connection_s, rate, length, streams)

    total_s = 0.0
    for combination, directions in wanted.items():
        boot_s = max(node.boot_timeout_s for node in combination.nodes) / 2
        total_s += levels.seconds(len(directions), connection_s, boot_s)
        each = f"{levels.connections} connections of {connection_s} s, {' and '.join(map(str, directions))}"
        click.echo(f"{combination.id}: {each}", err=True)
    click.echo(f"about {_duration(total_s)} in all; writes {lab.calibration}", err=True)
    check_writable(lab.calibration)
    if dry_run:
        return
    if not yes and sys.stdin.isatty():
        click.confirm("begin?", default=True, abort=True, err=True)
    asked_for = {one: {way: traffic(way) for way in directions} for one, directions in wanted.items()}
    done, trouble = _calibrate(lab, asked_for, levels)
    _report(done, as_json)
    if trouble:
        sys.exit(TROUBLE)


def _calibrate(
    lab: LabOfFile, wanted: dict[Combination, dict[Direction, Traffic]], levels: Levels
) -> tuple[list[CalibrationOutcome], bool]:
    """Measure the combinations.

    Return the outcomes, and whether there was an error; complete outcomes are saved at once.
    """
    from pytest_pinet.calibration.attempts import calibrate as measure
    from pytest_pinet.calibration.outcome import outcome
    from pytest_pinet.config.calibration import write_calibration
    from pytest_pinet.judge.profile import PROFILES
    from pytest_pinet.lab.visit import visit

    profile = PROFILES[lab.profile]
    done: list[CalibrationOutcome] = []
    troubles: list[str] = []
    steps = Steps()
    try:
        with visit(lab, "calibrate", steps.say, troubles.extend) as here:
            for combination, traffics in wanted.items():
                try:
                    course = measure(here, combination, traffics, levels, steps)
                    found = [
                        outcome(figure, attempts, profile, date.today(), course.build)
                        for figure, attempts in course.figures.items()
                    ]
                except (LabError, UnsupportedError, InvalidMeasurement, KernelError, ValueError) as error:
                    troubles.append(f"{combination.id} is not calibrated: {error}")
                    continue
                finally:
                    here.leave()
                write_calibration(lab.calibration, [one.calibration for one in found])
                done += found
                for note in course.notes:
                    steps.say(f"{combination.id}: {note}")
    except KeyboardInterrupt:
        troubles.append(f"interrupted: {len(done)} figures are complete, and written")
    steps.end()
    for trouble in troubles:
        click.echo(f"pinet: {trouble}", err=True)
    return done, bool(troubles)


def check_writable(path: Path) -> None:
    """Check before any measurement that the result can be written. Raises ConfigError."""
    import os
    import tempfile

    from pytest_pinet.config.calibration import read_calibration

    if path.exists():
        read_calibration(path)
        if not os.access(path, os.W_OK):
            raise ConfigError(f"{path}: cannot be written, and the calibration goes there; expected a file that can")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}), and the calibration goes there") from None


def _report(done: Sequence[CalibrationOutcome], as_json: bool) -> None:
    from pytest_pinet.calibration.outcome import table

    if as_json:
        click.echo(json.dumps([one.as_json() for one in done], indent=1))
    elif done:
        for line in table(done):
            click.echo(line)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
