"""What several boots of each build decide, each with another meaningless change; on values and on recorded boots."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.exact import MOST_BOOTS, ExactLimits, WindowChange, judge_exact
from pytest_pinet.model.exact import ExactBoot, parse_instructions
from tests.support.exact_boots import RECEIVE, boot, window, with_module
from tests.support.exact_records import recorded

# All others together: 4752 instructions for each packet.
OTHERS = "skb_release_data"
RATE = 5297.0


def judged(
    a: Sequence[float],
    b: Sequence[float],
    limits: ExactLimits = ExactLimits(),  # noqa: B008
    name: str = OTHERS,
    traffic: str = "pktgen",
    per_second: bool = False,
) -> WindowChange:
    """Judge boots in which one function has so many more instructions, or in which more packets came in a second."""

    def boots(values: Sequence[float], side: str) -> dict[int, ExactBoot]:
        rates = [RATE + more if per_second else RATE for more in values]
        counts = [{**RECEIVE, name: RECEIVE[name] + (0.0 if per_second else more)} for more in values]
        windows = [window(own, traffic, rate=rate) for own, rate in zip(counts, rates, strict=True)]
        return dict(enumerate(boot(one, identity=with_module("macb", side)) for one in windows))

    ones, others = boots(a, "A"), boots(b, "B")
    (found,) = judge_exact(ones[0], others[0], limits, (ones, others)).windows
    return found


def test_one_boot_of_each_is_enough_if_no_limit_is_exceeded() -> None:
    found = judged([0], [40])
    assert (found.result, found.is_certain) == (Relation.SAME, True)


@pytest.mark.parametrize(("more", "result"), [(60, Relation.SLOWER), (-60, Relation.FASTER)])
def test_one_boot_of_each_blames_nothing_for_certain(more: float, result: Relation) -> None:
    for per_second in (False, True):
        found = judged([0], [-more if per_second else more], per_second=per_second)
        assert (found.result, found.is_certain) == (result, False)


@pytest.mark.parametrize(("more", "result"), [(60, Relation.SLOWER), (-60, Relation.FASTER)])
def test_five_boots_of_each_decide(more: float, result: Relation) -> None:
    a = [0, 5, -5, 10, 2]
    assert len(a) == MOST_BOOTS
    for per_second in (False, True):
        b = [(-more if per_second else more) * (1.2 if index else 1.4) for index in range(5)]
        found = judged(a, b, per_second=per_second)
        assert (found.result, found.is_certain) == (result, True), found.why
        assert found.why.startswith("skb_release_data" if not per_second else "4752.00 instructions")
        assert "these two of 5 + 5 boots differ least" in found.why


@pytest.mark.parametrize("place", range(5))
def test_one_boot_of_either_build_that_does_not_exceed_clears_a_window(place: int) -> None:
    for more in (100, -100):
        of_b = [more * 1.0] * 5
        of_b[place] = more / 4
        if place:
            assert judged([0] * 5, of_b).result is Relation.SAME
            # A boot of A that is as slow as B is as good a reason.
            of_a = [0.0] * 5
            of_a[place] = more * 0.9
            assert judged(of_a, [more] * 5).result is Relation.SAME
    # It is certain with the boots so far.
    found = judged([0], [100, 20])
    assert (found.result, found.is_certain, found.variations) == (Relation.SAME, True, (0, 1))
    assert found.why == (
        "skb_release_data 4197.53 -> 4217.53 instructions per packet (+20.00); goodput unchanged; "
        "these two of 1 + 2 boots differ least"
    )


def test_each_limit_has_to_be_missed_by_each_pair_of_boots() -> None:
    """Of two boots, one has more instructions and the other less goodput."""
    a = boot(window(RECEIVE, "pktgen"))
    b = boot(window({**RECEIVE, OTHERS: 4300.0}, "pktgen")), boot(window(RECEIVE, "pktgen", rate=5000.0))
    (found,) = judge_exact(a, b[0], ExactLimits(), ({}, {1: b[1]})).windows
    assert (found.result, found.is_certain) == (Relation.SAME, True)


def test_the_boots_that_differ_least_are_shown() -> None:
    found = judged([0, 30, 10, -10, 5], [120, 200, 170, 150, 110])
    assert found.variations == (1, 4)
    assert found.change_of_sum == pytest.approx(80)
    assert found.result is Relation.SLOWER


def test_a_driver_that_grows_where_frames_come_one_by_one_needs_one_boot() -> None:
    for more, result in ((60, Relation.SLOWER), (-60, Relation.FASTER)):
        found = judged([0], [more], name="gem_rx [macb]", traffic="frame")
        assert (found.result, found.is_certain) == (result, True)
    # At full load, it depends on how many packets come at once.
    assert not judged([0], [60], name="gem_rx [macb]", traffic="pktgen").is_certain
    # Other functions of the kernel depend on where memory lies.
    assert not judged([0], [60], traffic="frame").is_certain


def test_a_limit_on_a_function_of_the_driver_is_exact_and_one_on_the_kernel_is_not() -> None:
    def limits(**texts: str) -> ExactLimits:
        return ExactLimits(tuple(parse_instructions(texts, "the marker")))

    found = judged([0], [4], limits(gem_rx="0"), "gem_rx [macb]", "frame")
    assert (found.result, found.is_certain) == (Relation.SLOWER, True)
    found = judged([0], [4], limits(skb_release_data="0"), traffic="frame")
    assert (found.result, found.is_certain) == (Relation.SLOWER, False)
    assert judged([0, 4], [4], limits(skb_release_data="0"), traffic="frame").result is Relation.SAME
    found = judged([0, 4, 1, 2, 3], [5, 6, 7, 8, 9], limits(skb_release_data="0"), traffic="frame")
    assert (found.result, found.is_certain) == (Relation.SLOWER, True)
    assert found.why.endswith(": skb_release_data grows by more than 0 instructions (the marker)")


def test_a_driver_that_is_faster_for_certain_hides_no_limit_on_a_function_of_the_kernel() -> None:
    limits = ExactLimits(tuple(parse_instructions({OTHERS: "0"}, "the marker")))
    b = {**RECEIVE, "gem_rx [macb]": RECEIVE["gem_rx [macb]"] - 80, OTHERS: RECEIVE[OTHERS] + 10}
    ones, others = (
        {number: boot(window(own), identity=with_module("macb", side)) for number in range(MOST_BOOTS)}
        for own, side in ((RECEIVE, "A"), (b, "B"))
    )
    (first,) = judge_exact(ones[0], others[0], limits).windows
    assert (first.result, first.is_certain) == (Relation.SLOWER, False)
    (found,) = judge_exact(ones[0], others[0], limits, (ones, others)).windows
    assert (found.result, found.is_certain) == (Relation.SLOWER, True)
    # One boot of A clears the function. The driver is faster.
    ones[1] = boot(window({**RECEIVE, OTHERS: RECEIVE[OTHERS] + 10}), identity=with_module("macb", "A"))
    (found,) = judge_exact(ones[0], others[0], limits, (ones, others)).windows
    assert (found.result, found.is_certain) == (Relation.FASTER, True)


def test_the_time_of_single_frames_is_no_gain_beside_their_instructions() -> None:
    """As it is no loss: 3 % of a path of 500 instructions are fewer than the 20 instructions of the limit."""
    a, b = ({"gem_rx [macb]": 500.0 - more} for more in (0, 15))
    ones, others = (window(own, rate=rate) for own, rate in ((a, RATE), (b, RATE * 1.03)))
    (found,) = judge_exact(boot(ones), boot(others, identity=with_module("macb")), ExactLimits()).windows
    assert (found.result, found.is_certain) == (Relation.SAME, True)
    assert found.change > 0.02


def test_a_limit_of_the_user_takes_the_place_of_one_percent() -> None:
    strict = ExactLimits(tuple(parse_instructions("3", "the marker")), 0.001)
    found = judged([0], [4], strict)
    assert (found.result, found.is_certain) == (Relation.SLOWER, False)
    # What a meaningless change does is no growth, however small the limit is.
    assert judged([0, 2], [4], strict).result is Relation.SAME
    assert judged([0, 2, -1, 1, 0], [6, 7, 8, 9, 6], strict).result is Relation.SLOWER
    assert not judged([0], [-10], strict, per_second=True).is_certain
    loose = ExactLimits(tuple(parse_instructions("10%", "the marker")), 0.1)
    assert judged([0], [400], loose).is_certain
    assert judged([0], [-400], loose, per_second=True).is_certain


def test_a_function_that_misses_its_limit_in_two_boots_only_misses_none() -> None:
    limits = ExactLimits(tuple(parse_instructions({"skb_*": "0", "gem_rx": "0"}, "the marker")))
    parts = [{**RECEIVE, OTHERS: 4200.0, "gem_rx [macb]": 151.0}, {**RECEIVE, OTHERS: 4197.53, "gem_rx [macb]": 152.0}]
    b = [boot(window(one), identity=with_module("macb")) for one in parts]
    (found,) = judge_exact(boot(), b[0], limits, ({}, {1: b[1]})).windows
    assert found.result is Relation.SAME
    assert not any(one.missed for one in found.functions)


def test_the_sentence_names_the_function_that_explains_the_growth() -> None:
    """The module of the change hardly grew. Memory was moved, and the kernel had to make room."""
    b = {**RECEIVE, "gem_rx [macb]": 151.03, "pfn_to_online_page": 284.8, "isolate_single_pageblock": 70.0}
    found, same = (
        judge_exact(boot(), boot(window(b), identity=with_module("macb")), ExactLimits(), code=code).windows[0]
        for code in (None, {"macb": ["gem_rx"]})
    )
    # That its code did not change explains nothing: no function of its module has other code.
    assert same.why == found.why
    assert found.why.startswith("pfn_to_online_page 0.00 -> 284.80 instructions per packet (+284.80); sum 4752.00 -> ")
    # Lists of functions begin with the module that was changed.
    assert str(found.functions[0].function) == "gem_rx [macb]"
    # What shifts with any binary was not judged, so it explains nothing.
    b = {**RECEIVE, "gem_rx [macb]": 151.0 + 70, "___slab_alloc": 40.0 + 50, "macb_poll [macb]": 20.0}
    found = judge_exact(boot(), boot(window(b), identity=with_module("macb")), ExactLimits()).windows[0]
    assert found.why.startswith("gem_rx [macb] 151.00 -> 221.00")
    b = {**RECEIVE, "gem_rx [macb]": 153.0, "net_rx_action": 11.0}
    found = judge_exact(boot(), boot(window(b), identity=with_module("macb")), ExactLimits()).windows[0]
    assert found.result is Relation.FASTER
    assert found.why.startswith("net_rx_action 111.00 -> 11.00")


def test_an_event_names_the_function_if_its_instructions_decide() -> None:
    a, b = (boot(window({"probe": 1000.0, "pfn_to_online_page": own}, "replug")) for own in (0.0, 40.0))
    assert judge_exact(a, b, ExactLimits()).windows[0].why == (
        "first answer after 3775.722 ms; pfn_to_online_page 0.00 -> 40.00 instructions per answer (+40.00); "
        "goodput unchanged: instructions grow by more than 1% and 20 instructions (default)"
    )


def test_a_window_that_one_of_several_boots_lacks_is_missing() -> None:
    a, b = boot(), boot(window(RECEIVE), window(RECEIVE, "pktgen"))
    found = judge_exact(b, b, ExactLimits(), ({}, {1: a}))
    assert found.missing == ("pktgen-60-rx was measured with A only",)


REBUILT = (["e1000e-6.1", "e1000e-6.1-word", "e1000e-6.1-rebuilt"], ["macb-6.1", "macb-6.1-rebuilt"])


@pytest.mark.parametrize(("a", "b"), [pair for builds in REBUILT for pair in permutations(builds, 2)])
def test_a_driver_that_was_only_built_again_is_not_blamed_for_certain(a: str, b: str) -> None:
    found = judge_exact(recorded(a), recorded(b), ExactLimits())
    assert [one.why for one in found.windows if one.result is Relation.SLOWER and one.is_certain] == []


def in_driver(a: str, b: str) -> dict[str, set[str]]:
    """Return the changes of each function of the driver, in all windows of single frames."""
    found: dict[str, set[str]] = {}
    driver = recorded(a).identity.driver
    for one in judge_exact(recorded(a), recorded(b), ExactLimits()).windows:
        for function in one.functions if one.a.one_by_one else ():
            if function.function.module == driver:
                found.setdefault(function.function.name, set()).add(f"{function.change:+.2f}")
    return found


def test_another_word_on_the_command_line_changes_no_function_of_the_driver_by_one_instruction() -> None:
    assert in_driver("e1000e-6.1", "e1000e-6.1-word") == {}


def test_another_compilation_of_the_driver_is_found_to_the_digit() -> None:
    # Debian's build of the same source has two instructions more.
    assert in_driver("e1000e-6.1", "e1000e-6.1-rebuilt") == {
        "e1000_xmit_frame": {"-2.00"},
        "e1000e_poll": {"-1.00", "-2.00"},
    }


def test_a_driver_without_one_check_differs_in_one_function() -> None:
    assert in_driver("macb-6.1-rebuilt", "macb-6.1-rx-pending") == {"macb_rx_poll": {"-18.00"}}
