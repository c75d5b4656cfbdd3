"""``pinet doctor``: checks a whole lab, and reports what is wrong and who must fix it."""

from __future__ import annotations

import json
import sys

import click

from pytest_pinet.cli.lab_file import LAB_OPTION

WRONG = 1
MISTAKE = 4


@click.command()
@LAB_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print a list of {check, status, node, message, act}.")
@click.argument("nodes", metavar="[NODE]...", nargs=-1)
def doctor(lab_file: str, as_json: bool, nodes: tuple[str, ...]) -> None:
    """Check the lab, from its file to the noise on its links; with NODEs only these.

    Each line begins with ok, BAD, ? (cannot be told here) or - (not checked, since something before it failed). Nodes
    that others hold are left alone; all are left as found. Exit code 0: nothing wrong, 1: something is, 4: the lab file
    or a name is wrong.
    """
    from pytest_pinet.doctor.examine import examine
    from pytest_pinet.doctor.finding import Finding, Status
    from pytest_pinet.doctor.table import lines

    def waiting(what: str) -> None:
        click.echo(what, err=True)

    findings: list[Finding] = []
    for check, found in examine(lab_file, nodes, waiting):
        findings += found
        if not as_json:
            for line in lines(check, found):
                click.echo(line)
    if as_json:
        click.echo(json.dumps([finding.as_json() for finding in findings], indent=1))
    if any(finding.mistake for finding in findings):
        sys.exit(MISTAKE)
    if any(finding.status is Status.WRONG for finding in findings):
        sys.exit(WRONG)
