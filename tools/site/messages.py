"""Collects the messages of our errors from the source, with what each of them says must be done.

A message is the first argument of a call of an error class. Values that are known only at run time are ``...``. A
message that is passed on from elsewhere (a variable that no line of the function sets to a text) is not found here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2] / "pytest_pinet"


class Message(NamedTuple):
    """``path`` is the module below the package; ``act`` is the line that begins with ``->``, empty if there is none."""

    error: str
    text: str
    act: str
    path: str


@cache
def messages() -> tuple[Message, ...]:
    """Return each message once, in the order of the source."""
    from pytest_pinet import errors

    names = {name for name, value in vars(errors).items() if _is_error(value)}
    found: dict[tuple[str, str], Message] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for error, text, act in of_module(ast.parse(path.read_text(encoding="utf-8")), names):
            found.setdefault((error, text), Message(error, text, act, str(path.relative_to(PACKAGE))))
    return tuple(found.values())


def places() -> Iterator[tuple[str, str]]:
    """Yield error class and module of each place that raises one of our errors, also one whose text is not found."""
    from pytest_pinet import errors

    classes = {name: name for name, value in vars(errors).items() if _is_error(value)}
    # Turns the ValueError of a parser into a ConfigError.
    classes[errors.mistake_in.__name__] = errors.ConfigError.__name__
    for path in PACKAGE.rglob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in classes:
                yield classes[node.func.id], str(path.relative_to(PACKAGE))


def _is_error(value: object) -> bool:
    from pytest_pinet.errors import PinetError

    return isinstance(value, type) and issubclass(value, PinetError)


def of_module(tree: ast.Module, names: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield error class, first line of the message, and what must be done, for each call of one of these classes."""
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    seen: set[int] = set()
    # Inner functions come after outer ones: the last scope of a call is the innermost.
    for scope in [*reversed(scopes), tree]:
        texts = _texts(scope)
        for node in ast.walk(scope):
            if not isinstance(node, ast.Call) or id(node) in seen:
                continue
            seen.add(id(node))
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name not in names or not node.args:
                continue
            text = _text(node.args[0], texts)
            # "... on ..." says nothing without its values.
            if text is not None and re.search("[A-Za-z]{3}", text):
                first, _, rest = text.partition("\n")
                yield name, first.strip(), rest.strip().removeprefix("-> ") or _act(node, texts)


def _texts(scope: ast.AST) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _act(call: ast.Call, texts: dict[str, ast.expr]) -> str:
    given = [one.value for one in call.keywords if one.arg == "act"] or call.args[1:2]
    return (_text(given[0], texts) or "") if given else ""


def _text(node: ast.expr, texts: dict[str, ast.expr], depth: int = 0) -> str | None:
    """Return a text of the source, or None if it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "..." for one in node.values)
    if isinstance(node, ast.Name) and depth < 2 and node.id in texts:
        return _text(texts[node.id], texts, depth + 1)
    return None
