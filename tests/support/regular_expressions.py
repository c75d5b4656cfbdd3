"""Finds all regular expressions of the package, and texts on which a careless one backtracks for ever."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from re import _constants as names  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

import pytest_pinet

PACKAGE = Path(pytest_pinet.__file__).parent
_FUNCTIONS = {"compile", "match", "fullmatch", "search", "findall", "finditer", "split", "sub", "subn"}
# Long enough that a pattern whose time grows with the cube of a text's length needs minutes.
LENGTH = 700
# Processor time. A pattern whose time grows with the square of the length needs a tenth of it at most.
DEADLINE_S = 0.25
_REPEATS = (names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT)
# No text of a match may end so.
_ENDS = ("\0", "\n")


@dataclass(frozen=True)
class Expression:
    """A regular expression at a place in the source. ``pattern`` is None if it is known only when the code runs.

    ``argument`` is how the source writes it.
    """

    place: str
    argument: str
    pattern: str | bytes | None
    flags: int = 0


def expressions(folder: Path = PACKAGE) -> Iterator[Expression]:
    """Yield the first argument of each call of a function of `re` below a folder of the package."""
    for file in sorted(folder.rglob("*.py")):
        words = (PACKAGE.name, *file.relative_to(PACKAGE).with_suffix("").parts)
        calls = list(calls_in(ast.parse(file.read_text(encoding="utf-8"))))
        if not calls:
            continue
        module = importlib.import_module(".".join(words).removesuffix(".__init__"))
        for call in calls:
            place = f"{file.relative_to(PACKAGE.parent)}:{call.lineno}"
            yield Expression(place, ast.unparse(call.args[0]), *_evaluated(call, vars(module)))


def calls_in(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FUNCTIONS:
            of = node.func.value
            if isinstance(of, ast.Name) and of.id == "re":
                yield node


def _evaluated(call: ast.Call, namespace: dict[str, Any]) -> tuple[str | bytes | None, int]:
    # Of flags, only the ones that change what a pattern matches: of a template's arguments, none does.
    flags = [word for word in call.args[1:] + [key.value for key in call.keywords] if "re." in ast.unparse(word)]
    value = sum(int(eval(ast.unparse(word), dict(namespace))) for word in flags)
    first = ast.unparse(call.args[0])
    if first.isidentifier() and first not in namespace:
        return None, value
    for local in (_Text("xx"), _Bytes(b"xx")):
        # A local variable may be a part of a pattern, such as the name of a device, but not all of it.
        with suppress(TypeError, AttributeError):
            found = eval(first, dict(namespace), _Locals(local, namespace))
            if isinstance(found, str | bytes):
                return found, value
    return None, value


class _Text(str):
    def __getitem__(self, _: object) -> Any:
        return self


class _Bytes(bytes):
    def __getitem__(self, _: object) -> Any:
        return self


class _Locals(dict[str, Any]):
    """All local variables of a function, with one value. Names of its module are no local variables."""

    def __init__(self, value: str | bytes, namespace: Mapping[str, Any]) -> None:
        super().__init__()
        self._value = value
        self._namespace = namespace

    def __missing__(self, name: str) -> Any:
        if name in self._namespace or hasattr(builtins, name):
            raise KeyError(name)
        return self._value


def attacks(pattern: str | bytes, flags: int = 0) -> Iterator[str]:
    """Yield texts of LENGTH that repeat what each repetition of a pattern matches, and then match no more."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    tree = parser.parse(text, flags)
    for at, body in _repetitions(list(tree)):
        before = _before(list(tree), at)
        single = _characters(body)
        pairs = [one + other for one in single[:2] for other in single[:2] if one != other]
        for pump in filter(None, dict.fromkeys([*_samples(body), *single[:4], *pairs])):
            for end in _ENDS:
                yield before + pump * (LENGTH // len(pump)) + end


def seconds_out(pattern: str | bytes, flags: int, text: str) -> bool:
    """Whether the pattern is still busy with the text at the deadline."""
    subject: Any = text.encode("latin-1", "replace") if isinstance(pattern, bytes) else text
    compiled: Any = re.compile(pattern, flags)

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, DEADLINE_S)
    try:
        compiled.search(subject)
        compiled.fullmatch(subject)
    except TimeoutError:
        return True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return False


def find_attack(pattern: str | bytes, flags: int = 0) -> str | None:
    """Return a text on which the pattern is busy until the deadline; None if there is none."""
    return next((text for text in dict.fromkeys(attacks(pattern, flags)) if seconds_out(pattern, flags, text)), None)


Node = tuple[Any, Any]


def _inner(node: Node) -> list[list[Node]]:
    """Return the sequences in a node of a parsed pattern."""
    kind, value = node
    if kind in _REPEATS:
        return [list(value[2])]
    if kind is names.SUBPATTERN:
        return [list(value[3])]
    if kind is names.BRANCH:
        return [list(one) for one in value[1]]
    if kind is names.ATOMIC_GROUP:
        return [list(value)]
    if kind in (names.ASSERT, names.ASSERT_NOT):
        return [list(value[1])]
    if kind is names.GROUPREF_EXISTS:
        return [list(one) for one in value[1:] if one is not None]
    return []


def _repetitions(nodes: Sequence[Node], path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], list[Node]]]:
    """Yield each repetition that may match more than a few times: the way to it, and what it repeats."""
    for index, node in enumerate(nodes):
        for number, inner in enumerate(_inner(node)):
            if node[0] in _REPEATS and node[1][1] > 3:
                yield (*path, index), inner
            yield from _repetitions(inner, (*path, index, number))


def _before(nodes: Sequence[Node], path: Sequence[int]) -> str:
    """Return a text that matches what precedes a repetition."""
    index, *rest = path
    text = "".join(_sample([node]) for node in nodes[:index])
    return text if not rest else text + _before(_inner(nodes[index])[rest[0]], rest[1:])


def _sample(nodes: Sequence[Node]) -> str:
    """Return a short text that matches; what is repeated stands in it at least once."""
    text = ""
    for node in nodes:
        kind, value = node
        if kind in _REPEATS:
            text += _sample(list(value[2])) * max(1, value[0])
        elif kind in (names.ASSERT, names.ASSERT_NOT):
            continue
        elif inner := _inner(node):
            text += _sample(inner[0])
        else:
            text += next(iter(_of(node)), "")
    return text


def _samples(nodes: Sequence[Node]) -> list[str]:
    """Return a short text for each alternative in a sequence."""
    found = [_sample(nodes)]
    for index, (kind, value) in enumerate(nodes):
        alternatives = list(value[1]) if kind is names.BRANCH else [value[3]] if kind is names.SUBPATTERN else []
        texts = [text for one in alternatives for text in _samples(list(one))]
        found += [_sample(nodes[:index]) + text + _sample(nodes[index + 1 :]) for text in texts]
    return found


def _characters(nodes: Sequence[Node]) -> list[str]:
    """Return some characters of each class in a sequence."""
    found: list[str] = []
    for node in nodes:
        found += _of(node)
        for inner in _inner(node):
            found += _characters(inner)
    return list(dict.fromkeys(found))


_SETS = {
    names.CATEGORY_DIGIT: "1",
    names.CATEGORY_SPACE: " \n",
    names.CATEGORY_WORD: "a1",
    names.CATEGORY_NOT_DIGIT: "a ",
    names.CATEGORY_NOT_SPACE: "a1",
    names.CATEGORY_NOT_WORD: " .",
}


def _of(node: Node) -> list[str]:
    """Return characters that a node of one character matches."""
    kind, value = node
    if kind is names.LITERAL:
        return [chr(value)]
    if kind is names.NOT_LITERAL:
        return [one for one in "a1 ." if ord(one) != value]
    if kind is names.ANY:
        return ["a", " "]
    if kind is not names.IN:
        return []
    inside = [(of, what) for of, what in value if of is not names.NEGATE]
    chosen = [one for of, what in inside for one in _of_class(of, what)]
    if len(inside) == len(value):
        return chosen
    return [one for one in 'a1 ./:-"<(' if not any(_holds(of, what, one) for of, what in inside)]


def _of_class(of: Any, what: Any) -> str:
    if of is names.LITERAL:
        return chr(what)
    if of is names.RANGE:
        return chr(what[0]) + chr(what[1])
    return _SETS.get(what, "")


def _holds(of: Any, what: Any, one: str) -> bool:
    if of is names.LITERAL:
        return chr(what) == one
    if of is names.RANGE:
        return chr(what[0]) <= one <= chr(what[1])
    return one in str(_SETS.get(what, ""))
