"""``pinet watch``: counts rare events of boards that work, and says what their number proves."""

from __future__ import annotations

import math
import re
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import LAB_ERROR, parsed, say, with_sections
from pytest_pinet.cli.options import LAB_OPTION, complete_nodes, print_lines
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.model.verdict import GATE, gated

if TYPE_CHECKING:
    from pytest_pinet.watch.journal import Tally

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?/ ?([0-9]+) ?h")


@click.command(
    cls=with_sections(
        {
            "What to watch": ["--lab", "--for", "--traffic", "--limit"],
            "Two builds": ["--build", "--against", "--turn", "--yes"],
        }
    )
)
@LAB_OPTION
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("nodes", metavar="[NODE]...", nargs=-1, shell_complete=complete_nodes)
@click.option("--for", "length", metavar="TIME", help="Stop after this time, such as '40 h'. By default at Ctrl-C.")
@click.option(
    "--traffic", metavar="PAUSE",
    help="Send 10 s of TCP each way, with this pause ('10 min'; '0 s': without end), find links that become slow, and "
    "count only hours under traffic. Leases the boards.",
)  # fmt: skip
@click.option("--limit", metavar="RATE", help="The rate of events to keep, such as '0.5/1000h'. Stop when certain.")
@click.option("--build", metavar="BUILD", help="B: the build under test. Alternates with A on each board. Leases them.")
@click.option("--against", metavar="BUILD", help="A: the known-good build. By default the boards' own.")
@click.option("--turn", metavar="TIME", default="2 h", show_default=True, help="How long each build runs at a time.")
@click.option("--yes", is_flag=True, help="Boot builds also on boards that only a person can reset.")
@click.option("--report", is_flag=True, help="Only print what FOLDER says so far.")
def watch(
    lab_file: str,
    folder: Path,
    nodes: tuple[str, ...],
    length: str | None,
    traffic: str | None,
    limit: str | None,
    build: str | None,
    against: str | None,
    turn: str,
    yes: bool,
    report: bool,
) -> None:
    """Watch boards that work for rare events: stalls, link drops, reboots, kernel messages, slow links.

    One sample a second over ssh, without root and without traffic. Without --traffic and --build, no board is leased or
    changed. All events are kept in FOLDER; the same command goes on where an earlier one ended, also after a crash.
    NODEs are all boards of the lab by default. With --traffic or --build, NODEs are the boards under test.

    \b
    pinet watch stalls/ --lab bench.yaml --for '40 h'
    pinet watch stalls/ --report
    pinet watch ab/ pi5-1 --build new/ --against old/ --traffic '0 s'

    Exit code: 0 if no event was seen, the limit is kept, or B has as many events as A; 1 if not; 2 if the lab failed; 3
    if nothing is certain yet; 4 for wrong arguments.
    """
    from pytest_pinet.ab.options import read_ab_options
    from pytest_pinet.config.labfile import load, refuse_exact_boards
    from pytest_pinet.doctor.examine import select
    from pytest_pinet.judge.turns import Side
    from pytest_pinet.lab.access import visit
    from pytest_pinet.model.quantities import parse_duration
    from pytest_pinet.watch.journal import Journal, read, tally
    from pytest_pinet.watch.turns import Plan, pairs, watch_until
    from pytest_pinet.watch.watching import open_watch

    if report:
        _end(tally(read(folder)))
    seconds = math.inf if length is None else parsed("--for", parse_duration, length)
    pause_s = None if traffic is None else parsed("--traffic", parse_duration, traffic)
    turn_s = parsed("--turn", parse_duration, turn)
    rate = _rate(limit) if limit is not None else None
    lab = load(lab_file)
    refuse_exact_boards(lab)
    chosen = [node for node in select(lab, nodes) if not node.runner]
    options = read_ab_options(build, against, None, "--{}".format)
    plan = Plan(seconds, pause_s, options, turn_s, lambda _: yes)
    wanted = []
    if options is not None or pause_s is not None:
        wanted = pairs(lab, chosen, bool(nodes))
        chosen = list({node.name: node for one in wanted for node in one.nodes}.values())
    about = {"lab": lab.name, "nodes": sorted(node.name for node in chosen), "keys": options.keys if options else []}
    builds = [options.name(one) for one in Side] if options is not None else []
    trouble: list[str] = []
    failed = False
    with closing(Journal(folder)) as journal:
        journal.begin(about, builds=builds, traffic=pause_s is not None, limit=rate)
        try:
            with visit(lab, "watch", say, trouble.extend) as here:
                here.start()
                watching = open_watch(lab, chosen, journal, say)
                with watching.running():
                    say(f"watching {', '.join(about['nodes'])}; Ctrl-C ends it with the report")
                    watch_until(watching, here, wanted, plan)
        except KeyboardInterrupt:
            pass
        except PinetError as error:
            if isinstance(error, ConfigError):
                raise
            failed = True
            trouble.append(str(error))
        finally:
            for text in trouble:
                say(f"pinet: {text}")
    _end(tally(journal.records), failed)


def _rate(text: str) -> float:
    """Read ``0.5/1000h`` as events per 1,000 h. Raises ConfigError."""
    from pytest_pinet.judge.event_rate import PER_H

    match = _RATE.fullmatch(text.strip())
    if match is None or not float(match[1]) or not int(match[2]):
        raise ConfigError(f"--limit: {text!r} is no rate of events; expected a form such as '0.5/1000h'")
    return float(match[1]) * PER_H / int(match[2])


def _end(found: Tally, failed: bool = False) -> None:
    """Print the report, and exit with the code of its verdict, or of a lab that failed."""
    print_lines(found.lines())
    sys.exit(LAB_ERROR if failed else GATE[gated(found.verdict)].exit)
