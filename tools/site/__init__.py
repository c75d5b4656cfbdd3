"""Generates the reference pages of the documentation from the code, while Sphinx reads them.

A page in docs/reference/ has lines such as ``<!-- generated: commands -->``. Sphinx reads the generated Markdown in
place of the line, so no copy is kept in the repository.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tools.site.commands import commands
from tools.site.docstrings import errors, fixtures, gate_calls, hooks, public_names
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
LINE = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.MULTILINE)


def generated(page: str) -> str:
    """Return the page with its generated parts. Raises KeyError for a part that does not exist."""
    return LINE.sub(lambda line: PARTS[line[1]](), page)


def connect(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""

    def read(_app: object, _name: str, source: list[str]) -> None:
        source[0] = generated(source[0])

    app.connect("source-read", read)
    return {"parallel_read_safe": True}
