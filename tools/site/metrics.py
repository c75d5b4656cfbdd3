"""The reference of metrics: what is exported, and what each end counts."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import entry_points

from tools.site.markdown import code, of_docstring, table


def openmetrics_families() -> str:
    """Return a table of the families that ``pinet export --format openmetrics`` writes."""
    from pytest_pinet.report.export.openmetrics import openmetrics

    families: dict[str, dict[str, str]] = {}
    for line in openmetrics([]).splitlines():
        if match := re.fullmatch(r"# (TYPE|UNIT|HELP) (\S+) (.*)", line):
            families.setdefault(match[2], {})[match[1]] = match[3]
    rows = [[code(name), one["TYPE"], one.get("UNIT", ""), one["HELP"]] for name, one in families.items()]
    return table(["name", "type", "unit", "meaning"], rows)


def junit() -> str:
    """Return what the properties in JUnit XML are."""
    from pytest_pinet.report.junit import junit_properties

    return of_docstring(inspect.getdoc(junit_properties) or "")


def evidence() -> str:
    """Return a table of what is read at each end before and after traffic."""
    rows = []
    for point in sorted(entry_points(group="pytest_pinet.evidence_sources"), key=lambda one: one.name):
        if point.value.startswith("pytest_pinet."):
            found = point.load()
            first = (inspect.getdoc(found) or "").partition("\n\n")[0]
            rows.append([code(point.name), of_docstring(first)])
    return table(["source", "what it reads"], rows)
