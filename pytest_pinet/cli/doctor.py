"""``pinet doctor``: checks a whole lab, and reports what is wrong and who must fix it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli import lab_names
from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.exit_codes import MISTAKE
from pytest_pinet.cli.options import HISTORY_OPTION, LAB_OPTION, print_lines
from pytest_pinet.cli.paint import echo

if TYPE_CHECKING:
    from pytest_pinet.doctor.finding import Finding

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
@click.argument("nodes", metavar="[NODE]...", nargs=-1, shell_complete=lab_names.nodes)
def doctor(lab_file: str, as_json: bool, tryboot: bool, clear: bool, history_url: str, nodes: tuple[str, ...]) -> None:
    """Check the whole lab, or only these NODEs: from the lab file to the noise on the links.

    Each line begins with "ok", "BAD", "?" (the lab gives no information about it) or "-" (not checked, because an
    earlier check failed). Nodes that other users hold are not touched. All nodes are restored at the end. Boards that
    the history remembers are named last: out of service, or unlike others of their kind.

    Exit code: 0 if nothing is wrong; 1 if the lab has a fault; 4 if the lab file or a NODE is wrong.
    """
    from pytest_pinet.config import labfile
    from pytest_pinet.doctor import memory
    from pytest_pinet.doctor.examine import CHECKS, TRIAL_BOOT, examine
    from pytest_pinet.doctor.finding import Status, lines

    found: list[tuple[str, Finding]] = []
    checks = TRIAL_BOOT if tryboot else CHECKS
    for check, findings in examine(lab_file, nodes, lambda text: echo(text, err=True), checks):
        found += [(check, finding) for finding in findings]
        print_lines(lines(check, findings) if not as_json else ())
    if not any(finding.mistake for _, finding in found):
        lab = labfile.load(lab_file)
        bad = {finding.node for _, finding in found if finding.status in (Status.WRONG, Status.NOT_CHECKED)}
        lab_is_bad = any(finding.node is None and finding.status is Status.WRONG for _, finding in found)
        chosen = set(nodes or lab.nodes)
        if clear:
            for text in memory.clear(history_url, lab.name, set() if lab_is_bad else chosen - bad):
                echo(text, err=as_json)
        if findings := memory.remembered(history_url, lab.name, chosen):
            found += [(memory.EARLIER_RUNS, finding) for finding in findings]
            print_lines(lines(memory.EARLIER_RUNS, findings) if not as_json else ())
    if as_json:
        echo(json.dumps([finding.as_json(check) for check, finding in found], indent=1))
    if any(finding.mistake for _, finding in found):
        sys.exit(MISTAKE)
    if any(finding.status is Status.WRONG for _, finding in found):
        sys.exit(WRONG)
