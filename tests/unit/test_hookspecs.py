"""Each hook documents its purpose and the calling process, and has an example that fits its arguments."""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent

import pytest

from pytest_pinet import hookspecs

HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("pytest_pinet_")}


@pytest.mark.parametrize("name", HOOKS)
def test_it_has_a_docstring_and_an_example(name: str) -> None:
    told = inspect.getdoc(HOOKS[name]) or ""
    text, _, example = told.partition("::\n")
    assert "Called " in text
    (function,) = ast.parse(dedent(example)).body
    assert isinstance(function, ast.FunctionDef)
    assert function.name == name
    assert [one.arg for one in function.args.args] == list(inspect.signature(HOOKS[name]).parameters)


def test_there_is_one_for_each_moment_that_the_documentation_promises() -> None:
    moments = ("combinations", "before_measurement", "after_measurement", "machine_facts", "result", "run_finished")
    assert set(HOOKS) == {f"pytest_pinet_{moment}" for moment in (*moments, "exact_machines")}
