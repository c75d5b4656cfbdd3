"""``python -m tools.site`` (``make docs``): writes the generated parts of the reference pages, from the code.

A part stands in a page of docs/ between two comments::

    <!-- generated: commands -->
    <!-- end of commands -->

The pages are committed, so that they can be read in a checkout and on a forge. A test compares them with the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks import bisection
from benchmarks.driver_changes.changes import CHANGES
from benchmarks.driver_changes.table import load, table
from benchmarks.verdicts.figures import kept_table
from pytest_pinet.tree.builder import small_config
from tools.site.commands import commands
from tools.site.docstrings import errors, fixtures, gate_calls, hooks, public_names
from tools.site.exact_boards import exact_boards_table, own_windows_table
from tools.site.metrics import evidence, junit, openmetrics_families
from tools.site.mistakes import mistakes
from tools.site.options import environment, options
from tools.site.schemas import lab_file, results
from tools.site.troubleshooting import troubles

PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "options": options,
    "environment": environment,
    "lab-file": lab_file,
    "results": results,
    "exact-boards": exact_boards_table,
    "own-windows": own_windows_table,
    "small-config": lambda: f"```kconfig\n{small_config().text}```",
    "bisection": lambda: "\n".join(bisection.table()),
    "driver-changes": lambda: "\n".join(table(CHANGES, load())),
    "judged-values": kept_table,
    "fixtures": fixtures,
    "gate-calls": gate_calls,
    "hooks": hooks,
    "public-names": public_names,
    "errors": errors,
    "openmetrics": openmetrics_families,
    "junit": junit,
    "evidence": evidence,
    "troubles": troubles,
    "mistakes": mistakes,
}
PART = re.compile(r"^<!-- generated: ([\w-]+) -->\n(.*?)^<!-- end of \1 -->$", re.MULTILINE | re.DOTALL)


def generated(page: str) -> str:
    """Return the page with the current text in its generated parts. Raises KeyError for a part that does not exist."""
    return PART.sub(lambda part: _marked(part[1], f"\n{_text(part[1])}\n\n"), page)


def written_by_hand(page: str) -> str:
    """Return the page with empty lines in place of its generated parts, so that other lines keep their numbers."""
    return PART.sub(lambda part: _marked(part[1], "\n" * part[2].count("\n")), page)


def _text(name: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", PARTS[name]().strip())


def _marked(name: str, text: str) -> str:
    return f"<!-- generated: {name} -->\n{text}<!-- end of {name} -->"
