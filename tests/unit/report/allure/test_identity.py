from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.report.allure.identity import Subject, allure3_id, tell_apart

RATE = Subject(CombinationId("pi4b", "onboard", "pair"), "test_rate", {"direction": "tx"}, "tests/gate/test_rate.py")


@pytest.mark.parametrize(
    "other",
    [
        replace(RATE, combination=replace(RATE.combination, board="cm4")),
        replace(RATE, combination=replace(RATE.combination, nic="ax88179")),
        replace(RATE, combination=replace(RATE.combination, topology="incast:3")),
        replace(RATE, test="test_other"),
        replace(RATE, test="TestOf::test_rate"),
        replace(RATE, parameters={"direction": "rx"}),
        replace(RATE, parameters={"direction": "tx", "streams": 2}),
        replace(RATE, parameters={}),
        replace(RATE, combination=replace(RATE.combination, tuning="rps=all")),
        replace(RATE, combination=replace(RATE.combination, tuning="rps=all+mtu=9000")),
    ],
)
def test_what_is_measured_differently_has_an_id_of_its_own(other: Subject) -> None:
    assert other.id != RATE.id


def test_a_renamed_file_keeps_the_id() -> None:
    assert replace(RATE, path="elsewhere/test_new_name.py").id == RATE.id


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"queues": 1, "streams": 12}, {"queues": 11, "streams": 2}),
        ({"a": "x", "b": "yz"}, {"a": "xy", "b": "z"}),
        ({"streams": 1}, {"streams": "1"}),
        ({"a": None}, {"a": "None"}),
        ({"a": True}, {"a": 1}),
    ],
)
def test_parameters_that_collide_in_allure_pytest_do_not_collide_here(
    one: dict[str, object], other: dict[str, object]
) -> None:
    """allure-python issue 778: it hashes values without names and separators, so one of two results disappears."""
    assert replace(RATE, parameters=one).id != replace(RATE, parameters=other).id


NAMES = st.text('ab:/-[]",', max_size=4)


COMBINATIONS = st.builds(CombinationId, NAMES, NAMES, NAMES, NAMES)
SUBJECTS = st.builds(
    Subject, COMBINATIONS, NAMES, st.dictionaries(NAMES, NAMES, max_size=2), st.just("a.py"), st.just("")
)


@given(SUBJECTS, SUBJECTS)
def test_two_different_tests_never_share_an_id(one: Subject, other: Subject) -> None:
    assert (one.id == replace(other, path="b.py").id) == (one == other)


def test_the_order_of_parameters_means_nothing() -> None:
    assert (
        replace(RATE, parameters={"a": 1, "b": 2}).id
        == replace(RATE, parameters=dict(reversed({"a": 1, "b": 2}.items()))).id
    )


def test_tests_of_the_same_name_are_distinguished_by_their_files() -> None:
    other = replace(RATE, path="tests/nightly/test_rate.py")
    alone = replace(RATE, combination=replace(RATE.combination, board="cm4"))
    found = tell_apart([RATE, other, alone])
    assert len({subject.id for subject in found}) == 3
    assert found[2].id == alone.id


def test_the_id_is_what_it_always_was() -> None:
    """Changing this id cuts every trend in every report."""
    assert RATE.id == "31aa51eef180d9b616316dcd0bc81992"


def test_a_tuning_is_part_of_the_combination() -> None:
    tuned = str(replace(RATE.combination, tuning="rps=all"))
    assert tuned == "pi4b:onboard/pair/rps=all"
    assert allure3_id("x", tuned) != allure3_id("x", str(RATE.combination))


def test_allure_3_hashes_the_combination_once_more() -> None:
    def md5(text: str) -> str:
        return hashlib.md5(text.encode()).hexdigest()

    assert allure3_id(RATE.id, str(RATE.combination)) == f"{md5(RATE.id)}.{md5('combination:pi4b:onboard/pair')}"
