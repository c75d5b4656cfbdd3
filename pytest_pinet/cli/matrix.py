"""``pinet matrix``: shows what a lab can measure, and why not the rest, without using the lab."""

from __future__ import annotations

import click

from pytest_pinet.cli import lab_names
from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.options import LAB_OPTION, print_lines, print_result
from pytest_pinet.errors import ConfigError, mistake_in

EVERYTHING = "all"


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.option(
    "--topology", "topologies", multiple=True, default=("pair",), show_default=True, metavar="NAME",
    shell_complete=lab_names.topologies,
    help="pair, pairs:N, incast:N, outcast:N, mesh:N, chain or opposed; 'all': the largest of each kind that the lab "
    "can run. Repeat the option for more topologies.",
)  # fmt: skip
@click.option(
    "--board", "boards", multiple=True, metavar="GLOB", help="Only these boards.", shell_complete=lab_names.boards
)
@click.option("--nic", "nics", multiple=True, metavar="GLOB", help="Only these NICs.", shell_complete=lab_names.nics)
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
    from pytest_pinet.matrix.inventory import ALL, AS_IT_IS, entries, largest
    from pytest_pinet.model.topology import parse_topology
    from pytest_pinet.report.diagrams import job_matrix, matrix_records, matrix_text
    from pytest_pinet.session.options import check_axes
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
    print_result(as_json, lambda: matrix_records(lab, found), lambda: matrix_text(lab, found))
