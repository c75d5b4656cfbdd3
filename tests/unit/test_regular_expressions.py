"""No regular expression of the package is busy for long with a text: texts come from files, boards and switches."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pytest_pinet.builds.kernel_tree import _DEFINITION
from pytest_pinet.catalogue.load import built_in
from pytest_pinet.errors import Where
from pytest_pinet.exact.board import NICS
from pytest_pinet.exact.changed_files import _MODULES
from pytest_pinet.init.machine import _CAUSES
from pytest_pinet.lab.switch import cli_family
from pytest_pinet.traffic.iperf3_trouble import _CLIENT_RULES, _COMMON_RULES, _SERVER_RULES
from tests.support.regular_expressions import expressions, find_attack

# Patterns that a call takes from a table or a file. `of_tables` has the patterns of the package.
VARIABLE = {
    ("pytest_pinet/builds/kernel_tree.py", "pattern"),
    ("pytest_pinet/exact/changed_files.py", "pattern"),
    ("pytest_pinet/init/machine.py", "cause.pattern"),
    ("pytest_pinet/lab/switch/cli.py", "pattern"),
    ("pytest_pinet/lab/switch/cli_family.py", "harmless"),
    ("pytest_pinet/lab/switch/cli_family.py", "p"),
    ("pytest_pinet/lab/switch/cli_family.py", "pattern"),
    ("pytest_pinet/lab/switch/cli_family.py", "text"),
    ("pytest_pinet/judge/exact_functions.py", "identity.driver_functions"),
    ("pytest_pinet/traffic/iperf3_trouble.py", "rule.pattern"),
}


def of_tables() -> Iterator[tuple[str, str, int]]:
    yield "sources", _DEFINITION.format(names="one|other"), re.MULTILINE
    for nic in NICS.values():
        yield nic.device, nic.functions, 0
    for module, files in _MODULES.items():
        yield module, files, 0
    for cause in _CAUSES:
        yield "login", cause.pattern, re.IGNORECASE
    for rule in (*_COMMON_RULES, *_CLIENT_RULES, *_SERVER_RULES):
        yield "iperf3", rule.pattern, re.IGNORECASE
    for name in built_in():
        family = cli_family.load(name, Where("lab.yaml"), None)
        asked = [question for kind in type(family.show).model_fields for question in family.questions(kind)]
        found = [pattern for question in asked for pattern in question.find]
        yield from ((name, text, re.MULTILINE) for text in [*found, *family.refused, *family.harmless, *family.spell])


def test_no_text_keeps_a_pattern_of_the_package_busy() -> None:
    places: dict[tuple[str | bytes, int], str] = {}
    variable = set()
    for one in expressions():
        if one.pattern is None:
            variable.add((one.place.partition(":")[0], one.argument))
        else:
            places[one.pattern, one.flags] = one.place
    assert variable == VARIABLE
    places |= {(pattern, flags): place for place, pattern, flags in of_tables()}
    assert len(places) > 250
    slow = {place: found[:60] for (pattern, flags), place in places.items() if (found := find_attack(pattern, flags))}
    assert slow == {}


@pytest.mark.parametrize(
    "pattern",
    [
        r"(\d+:?)+x",
        "(a|aa)+$",
        "(.*)*x",
        r"\s*\s*\s*x",
        r"""(?:[^\s'"]|'[^']*'|['"])+""",
        rb"\x00(?:[ -~]*)*\x01",
        r"(?=(x+x+)+y)",
    ],
)
def test_a_pattern_that_backtracks_for_ever_is_found(pattern: str | bytes) -> None:
    assert find_attack(pattern) is not None
