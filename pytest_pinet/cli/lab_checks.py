"""Commands that check or show a lab: ``pinet check``, ``doctor``, ``discover``, ``matrix`` and ``graph``."""

from __future__ import annotations

import json
import sys
from itertools import chain
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pytest_pinet.cli.command import MISTAKE, PinetCommand, echo, say
from pytest_pinet.cli.options import (
    HISTORY_OPTION,
    LAB_OPTION,
    complete_boards,
    complete_combinations,
    complete_nics,
    complete_nodes,
    complete_topologies,
    lab_files,
    print_change,
    print_lines,
    print_result,
)
from pytest_pinet.errors import ConfigError, mistake_in
from pytest_pinet.model.traffic import Direction

if TYPE_CHECKING:
    from pytest_pinet.doctor.bench import Finding


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.argument("file", required=False, shell_complete=lab_files)
@click.pass_context
def check(ctx: click.Context, file: str | None, lab_file: str) -> None:
    """Check a lab file without using the lab, and list its interfaces.

    Also imports the modules of the key `imports`, as labgrid does, to know their drivers.

    FILE is the same as --lab FILE. A variable that is not set is a note, because this command uses no value of a
    template.

    Exit code: 0 if there is no error; 4 if the file, the lab's baselines or its acknowledged losses have one.
    """
    from pytest_pinet.config.baselines import load_reviewed
    from pytest_pinet.config.lab_path import is_name, lab_path
    from pytest_pinet.config.labfile import load
    from pytest_pinet.judge.hardware import ADDRESS, exchangeable
    from pytest_pinet.lab.labgrid.targets import check_file
    from pytest_pinet.report.diagrams import management_lines
    from pytest_pinet.report.text_wrap import count, text_table, wrap

    if file is not None and ctx.get_parameter_source("lab_file") is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"two lab files: {file} and --lab {lab_file}; expected one of them", ctx)
    file = lab_file if file is None else file
    lab = load(file, in_use=False)
    check_file(lab)
    echo(f"{file}: ok, lab {lab.name}: {len(lab.nodes)} nodes, {len(lab.interfaces())} interfaces")
    if is_name(file):
        echo(f"  packaged in {lab_path(file)}")
    reviewed = load_reviewed(lab)
    if reviewed.baselines or reviewed.acknowledged:
        known = count(len(reviewed.acknowledged), "acknowledged loss", "acknowledged losses")
        echo(f"  {count(len(reviewed.baselines), 'baseline')} and {known} in {lab.baselines}")
    for name, where in lab.unset.items():
        note = f"note: line {where.line}: the variable {name} is not set; commands that use a board need its value"
        print_lines(wrap(note, indent="  "))
    if lab.launcher is None:
        for text in chain.from_iterable(map(exchangeable, lab.nodes.values())):
            print_lines(wrap(f"note: {text}: {ADDRESS}", indent="  "))
    rows = [("interface", "NIC", "chip", "Mbit/s", "bus", "switch port")]
    for interface in lab.interfaces():
        nic = f"{lab.nodes[interface.node].board.name}:{interface.label}"
        speed, chip = str(interface.speed_mbps), interface.nic.chip[:18]
        rows.append((str(interface), nic, chip, speed, str(interface.bus), str(interface.port)))
    print_lines(f"  {line}" for line in text_table(rows, "<  <  <  >  <  <"))
    for line in management_lines(lab.nodes.values()):
        print_lines(wrap(line, indent="  "))


WRONG = 1


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print a list of {check, status, node, message, act}.")
@click.option(
    "--tryboot",
    is_flag=True,
    help="Only prove that each board can boot for a trial, as builds and boot tunings need. Reboots each board twice.",
)
@click.option(
    "--clear",
    is_flag=True,
    help="Put boards without a fault, which earlier runs have put out of service or suspect, back into service.",
)
@HISTORY_OPTION
@click.argument("nodes", metavar="[NODE]...", nargs=-1, shell_complete=complete_nodes)
def doctor(lab_file: str, as_json: bool, tryboot: bool, clear: bool, history_url: str, nodes: tuple[str, ...]) -> None:
    """Check the whole lab, or only these NODEs: from the lab file to the noise on the links.

    Each line begins with "ok", "BAD", "?" (the lab gives no information about it) or "-" (not checked, because an
    earlier check failed). Nodes that other users hold are not touched. All nodes are restored at the end. Boards that
    the history remembers are named last: out of service, or unlike others of their kind.

    Exit code: 0 if nothing is wrong; 1 if the lab has a fault; 4 if the lab file or a NODE is wrong.
    """
    from pytest_pinet.config import labfile
    from pytest_pinet.doctor.bench import Status, lines
    from pytest_pinet.doctor.examine import CHECKS, EARLIER_RUNS, TRIAL_BOOT, clear_boards, examine, remembered_boards

    found: list[tuple[str, Finding]] = []
    checks = TRIAL_BOOT if tryboot else CHECKS
    for check, findings in examine(lab_file, nodes, say, checks):
        found += [(check, finding) for finding in findings]
        print_lines(lines(check, findings) if not as_json else ())
    if not any(finding.mistake for _, finding in found):
        lab = labfile.load(lab_file)
        bad = {finding.node for _, finding in found if finding.status in (Status.WRONG, Status.NOT_CHECKED)}
        lab_is_bad = any(finding.node is None and finding.status is Status.WRONG for _, finding in found)
        chosen = set(nodes or lab.nodes)
        if clear:
            for text in clear_boards(history_url, lab.name, set() if lab_is_bad else chosen - bad):
                echo(text, err=as_json)
        if findings := remembered_boards(history_url, lab.name, chosen):
            found += [(EARLIER_RUNS, finding) for finding in findings]
            print_lines(lines(EARLIER_RUNS, findings) if not as_json else ())
    if as_json:
        echo(json.dumps([finding.as_json(check) for check, finding in found], indent=1))
    if any(finding.mistake for _, finding in found):
        sys.exit(MISTAKE)
    if any(finding.status is Status.WRONG for _, finding in found):
        sys.exit(WRONG)


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.option("--write", is_flag=True, help="Correct the `port:` values in the lab file, and show the changes.")
def discover(lab_file: str, write: bool) -> None:
    """Find the switch port of each NIC, by LLDP or by MAC address, and compare it with the lab file.

    Also prints each NIC with its MAC address, driver and place on the bus, as lines to paste into the lab file.

    Exit code: 0 if no port differs from the lab file, or if the file was corrected; 1 if a port differs.
    """
    from pytest_pinet.config import lab_text
    from pytest_pinet.config.lab_path import is_name, lab_path
    from pytest_pinet.config.labfile import load
    from pytest_pinet.doctor import discover as core
    from pytest_pinet.doctor.bench import Status

    if write and is_name(lab_file):
        raise ConfigError(f"--write cannot change the packaged lab {lab_file!r}: copy {lab_path(lab_file)} first")
    warnings: list[str] = []
    found = core.discover(load(lab_file), say, warnings.extend)
    places = found.places
    for warning in warnings:
        say(warning)
    print_lines([*core.table(places), "", *core.wrong_cables(places)])
    if lines := core.lab_file_lines(found):
        print_lines([f"For {lab_file}, to find each NIC by its address whatever its name:", *lines, ""])
    unknown = sum(place.status is Status.UNKNOWN for place in places)
    if unknown:
        echo(f"{unknown} of {len(places)} NICs were not found")
    wrong = [place for place in places if place.status is Status.WRONG]
    if not wrong:
        echo(f"{lab_file} is right{' for the other NICs' if unknown else ''}")
        return
    corrections = core.corrections(places)
    if not write or not corrections:
        echo("  -> move the cables" + (f", or: pinet discover --lab {lab_file} --write" if corrections else ""))
        sys.exit(WRONG)
    before = lab_text.read(lab_file)
    after = lab_text.with_ports(before, lab_file, corrections)
    lab_text.replace(lab_file, after)
    print_change(lab_file, before, after, around=0)
    if len(corrections) < len(wrong):
        sys.exit(WRONG)


EVERYTHING = "all"


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.option(
    "--topology", "topologies", multiple=True, default=("pair",), show_default=True, metavar="NAME",
    shell_complete=complete_topologies,
    help="pair, pairs:N, incast:N, outcast:N, mesh:N, chain or opposed; 'all': the largest of each kind that the lab "
    "can run. Repeat the option for more topologies.",
)  # fmt: skip
@click.option(
    "--board", "boards", multiple=True, metavar="GLOB", help="Only these boards.", shell_complete=complete_boards
)
@click.option("--nic", "nics", multiple=True, metavar="GLOB", help="Only these NICs.", shell_complete=complete_nics)
@click.option(
    "--tuning", "tunings", multiple=True, metavar="SETTINGS",
    help="Settings, such as rps=all+mtu=9000. Repeat the option for more tunings; 'none': no tuning.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print all that is known of each combination as JSON.")
@click.option(
    "--format", "form", type=click.Choice(["github", "gitlab"]),
    help="Print the job matrix of a CI system, one job for each board that can be measured.",
)  # fmt: skip
@click.option(
    "--runner", "runners", multiple=True, metavar="LABEL",
    help="With --format: label of the runners that reach the lab. Repeat the option for more labels; GitLab takes one. "
    "Default: self-hosted and network-lab for GitHub, network-lab for GitLab.",
)  # fmt: skip
def matrix(
    lab_file: str,
    topologies: tuple[str, ...],
    boards: tuple[str, ...],
    nics: tuple[str, ...],
    tunings: tuple[str, ...],
    as_json: bool,
    form: str | None,
    runners: tuple[str, ...],
) -> None:
    """List every board x NIC x topology of a lab: its nodes and its limit, or why the lab cannot run it."""
    from pytest_pinet.config.labfile import load, refuse_exact_boards
    from pytest_pinet.matrix.expansion import ALL, AS_IT_IS, entries, largest
    from pytest_pinet.model.topology import parse_topology
    from pytest_pinet.report.diagrams import job_matrix, matrix_record, matrix_text
    from pytest_pinet.session.arguments import check_axes
    from pytest_pinet.tuning.registry import parse_key

    if runners and form is None:
        raise ConfigError("--runner: there is no job matrix to write labels to; add --format github or --format gitlab")
    lab = load(lab_file, in_use=False)
    refuse_exact_boards(lab)
    check_axes({"board": boards, "nic": nics}, lab, "--{}".format)
    wanted = (boards or ALL, nics or ALL)
    chosen = []
    for name in topologies:
        try:
            chosen += largest(lab, *wanted) if name == EVERYTHING else [parse_topology(name)]
        except ValueError as error:
            raise ConfigError(f"--topology: {error}, or {EVERYTHING!r}") from None
    with mistake_in("--tuning"):
        tuned = tuple(dict.fromkeys(map(parse_key, tunings))) or AS_IT_IS
    found = entries(lab, list(dict.fromkeys(chosen)), *wanted, tunings=tuned)
    if form is not None:
        print_lines([job_matrix(form, found, runners)])
        return
    print_result(as_json, lambda: [matrix_record(one, lab.limits) for one in found], lambda: matrix_text(lab, found))


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.argument("combination", metavar="[COMBINATION-ID]", required=False, shell_complete=complete_combinations)
@click.option(
    "--direction", type=click.Choice([str(way) for way in Direction]),
    help="Direction of the traffic. By default the first direction of the topology.",
)  # fmt: skip
def graph(lab_file: str, combination: str | None, direction: str | None) -> None:
    """Draw a lab, or the part of it that a combination such as pi4b:onboard/incast:5 uses."""
    from pytest_pinet.config.labfile import load
    from pytest_pinet.lab.contention import all_domains, domains_of
    from pytest_pinet.matrix import expansion
    from pytest_pinet.report.diagrams import combination_text, lab_text

    lab = load(lab_file, in_use=False)
    if combination is None:
        if direction is not None:
            raise ConfigError(
                f"--direction {direction} needs a combination, as in: pi4b:onboard/pair --direction {direction}"
            )
        print_lines(lab_text(lab, all_domains(lab)))
    else:
        chosen = expansion.combination(lab, combination)
        way = Direction(direction) if direction is not None else chosen.topology.directions[0]
        with mistake_in("--direction"):
            chosen.topology.runs(way)
        print_lines(combination_text(lab, chosen, way, domains_of(lab, chosen)))
