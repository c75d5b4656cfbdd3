"""The combinations that a command works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.matrix.expansion import select_combinations
from tests.support import doctor_lab
from tests.support.diagram_labs import virtual_lab


def ids(*names: str) -> list[str]:
    return [one.id for one in select_combinations(virtual_lab(), names)]


def test_without_names_all_pairs_are_selected() -> None:
    found = ids()
    assert found[0] == "pi3b:onboard/pair"
    assert len(found) == 9
    assert {name.rpartition("/")[2] for name in found} == {"pair"}


def test_a_glob_selects_each_match_once() -> None:
    assert ids("pi4b:onboard/pair", "pi4b:*/pair") == ["pi4b:onboard/pair", "pi4b:ax88179/pair", "pi4b:rtl8153/pair"]


def test_a_glob_can_name_another_topology() -> None:
    assert ids("pi3b:onboard/incast:3", "pi3b:on*/outcast:2") == ["pi3b:onboard/incast:3", "pi3b:onboard/outcast:2"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pi4b:onboard/pears", "no combination 'pi4b:onboard/pears' in lab virtual; did you mean 'pi4b:onboard/pair'?"),
        ("pi9*:onboard/pair", "no combination of lab virtual matches 'pi9*:onboard/pair'; did you mean 'pi5:onboard/"),
        ("pi4b:*", "'pi4b:*' names no topology; expected an id such as 'pi4b:onboard/pair' or a glob such as"),
    ],
)
def test_an_unknown_name_is_refused_with_a_hint(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ids(name)
    assert message in str(raised.value)


def test_a_lab_of_one_node_has_no_pairs(tmp_path: Path) -> None:
    text = doctor_lab.LAB_FILE.partition("    two:")[0]
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    from pytest_pinet.config.labfile import load

    with pytest.raises(ConfigError, match=r"no two nodes that reach each other: add a board, or .* `runner: true`"):
        select_combinations(load(file), ())
