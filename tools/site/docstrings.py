"""The reference of fixtures, hooks, public names and errors, from their docstrings."""

from __future__ import annotations

import inspect
import textwrap
from types import ModuleType

from tools.site.markdown import of_docstring, table


def fixtures() -> str:
    """Return a section for each fixture."""
    from pytest_pinet.session import fixtures as module

    names = [name for name, value in vars(module).items() if type(value).__name__ == "FixtureFunctionDefinition"]
    return "\n".join(f"## {name}\n\n{of_docstring(_docstring(module, name))}" for name in names)


def _docstring(module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    return inspect.cleandoc(value.__doc__ or getattr(value, "_fixture_function", value).__doc__ or "")


def gate_calls() -> str:
    """Return a section for each method of the gate, with its arguments and their defaults."""
    from pytest_pinet import Gate

    sections = []
    for name, method in vars(Gate).items():
        if not name.startswith("_") and inspect.isfunction(method):
            words = [_argument(one) for one in inspect.signature(method).parameters.values() if one.name != "self"]
            call = textwrap.fill(f"gate.{name}({', '.join(words)})", 84, subsequent_indent=" " * len(f"gate.{name}("))
            text = of_docstring(inspect.getdoc(method) or "")
            sections.append(f"### gate.{name}\n\n```text\n{call}\n```\n\n{text}")
    return "\n".join(sections)


def _argument(one: inspect.Parameter) -> str:
    if one.kind is inspect.Parameter.VAR_KEYWORD:
        return f"**{one.name}"
    return one.name if one.default is inspect.Parameter.empty else f"{one.name}={one.default!r}"


def hooks() -> str:
    """Return a section for each hook, with its signature and its example."""
    from pytest_pinet import hookspecs

    sections = []
    for name, value in vars(hookspecs).items():
        if name.startswith("pytest_pinet_"):
            arguments = ", ".join(inspect.signature(value).parameters)
            sections.append(f"## {name}\n\n`{name}({arguments})`\n\n{of_docstring(inspect.getdoc(value) or '')}")
    return "\n".join(sections)


def public_names() -> str:
    """Return a table of the names that ``from pytest_pinet import ...`` offers."""
    import pytest_pinet

    rows = []
    for name in pytest_pinet.__all__:
        value = getattr(pytest_pinet, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            first = (inspect.getdoc(value) or "").partition("\n\n")[0]
            rows.append([f"`{name}`", of_docstring(first)])
    return table(["name", "meaning"], rows)


def errors() -> str:
    """Return the tree of errors."""
    from pytest_pinet import errors as module

    return of_docstring(module.__doc__ or "").partition("```text")[2].join(["```text", ""])
