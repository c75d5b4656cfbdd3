"""The verdict of an exact gate, on values of measured boots (tests/support/exact_boots.py)."""

from dataclasses import replace

import pytest

from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.exact import ExactLimits, WindowChange, changed_modules, differs_beside_build, judge_exact
from pytest_pinet.model.exact import Comparison, ExactBoot, Function, parse_instructions
from pytest_pinet.model.traffic import Direction
from tests.support.exact_boots import FOUR_NOPS, IDENTITY, KNOWN_GOOD, RECEIVE, boot, window, with_module


def judged(b: ExactBoot, a: ExactBoot = KNOWN_GOOD, limits: ExactLimits = ExactLimits()) -> WindowChange:  # noqa: B008
    return judge_exact(a, b, limits).windows[0]


def limited(instructions: object) -> ExactLimits:
    return ExactLimits(tuple(parse_instructions(instructions, "the marker")))


def test_a_build_against_itself_is_the_same_to_the_last_digit() -> None:
    found = judged(KNOWN_GOOD)
    assert (found.result, found.functions, found.change_of_sum, found.change) == (Relation.SAME, (), 0.0, 0.0)
    assert found.why == "4752.00 instructions per packet; goodput unchanged"


def test_four_instructions_in_the_driver_are_named_and_below_the_default_limit() -> None:
    found = judged(FOUR_NOPS)
    assert found.why == (
        "gem_rx [macb] 151.00 -> 155.00 instructions per packet (+4.00); sum 4752.00 -> 4792.00 (+40.00); "
        "goodput unchanged"
    )
    assert found.result is Relation.SAME
    first, second = found.functions
    assert (first.comparison, second.comparison) == (Comparison.CHANGED, Comparison.SHIFTING)
    assert found.shift == pytest.approx(36.0)


def test_a_limit_of_one_function_is_exact() -> None:
    found = judged(FOUR_NOPS, limits=limited({"gem_*": "1%"}))
    assert found.result is Relation.SLOWER
    assert found.why.endswith("goodput unchanged: gem_rx [macb] grows by more than 1% (the marker)")
    assert judged(FOUR_NOPS, limits=limited({"gem_*": "3%"})).result is Relation.SAME
    assert judged(FOUR_NOPS, limits=limited({"macb_poll": "0"})).result is Relation.SAME


def test_a_sentence_names_one_of_the_functions_that_miss_a_limit() -> None:
    other = {**RECEIVE, "gem_rx [macb]": 152.0, "macb_poll [macb]": 63.0}
    found = judged(boot(window(other), identity=with_module("macb")), limits=limited({"*": "0"}))
    assert found.why.endswith("unchanged: macb_poll [macb] grows by more than 0 instructions (the marker)")
    assert found.why.startswith("macb_poll [macb] 60.00 -> 63.00")
    assert [one.missed for one in found.functions] == ["0 instructions (the marker)"] * 2


def test_a_limit_of_the_sum_does_not_count_what_shifts_with_any_binary() -> None:
    assert judged(FOUR_NOPS, limits=limited("5")).result is Relation.SAME
    found = judged(FOUR_NOPS, limits=limited("3"))
    assert found.result is Relation.SLOWER
    assert found.why.endswith(": instructions grow by more than 3 instructions (the marker)")


def test_a_longer_receive_path_fails_by_default() -> None:
    slower = boot(window({**RECEIVE, "gem_rx [macb]": 151.0 + 160}), identity=with_module("macb"))
    found = judged(slower)
    assert found.result is Relation.SLOWER
    assert found.why == (
        "gem_rx [macb] 151.00 -> 311.00 instructions per packet (+160.00); goodput unchanged: "
        "instructions grow by more than 1% and 20 instructions (default)"
    )


@pytest.mark.parametrize(("more", "result"), [(47.5, Relation.SAME), (48.0, Relation.SLOWER), (-48.0, Relation.FASTER)])
def test_the_default_limit_of_single_frames_is_one_percent(more: float, result: Relation) -> None:
    other = boot(window({**RECEIVE, "gem_rx [macb]": 151.0 + more}), identity=with_module("macb"))
    assert judged(other).result is result


def test_few_instructions_of_a_short_path_are_no_regression() -> None:
    short = {"gem_rx [macb]": 151.0}
    other = boot(window({"gem_rx [macb]": 171.0}), identity=with_module("macb"))
    assert judged(other, boot(window(short))).result is Relation.SAME
    other = boot(window({"gem_rx [macb]": 171.01}), identity=with_module("macb"))
    assert judged(other, boot(window(short))).result is Relation.SLOWER


def test_a_decrease_of_the_allocator_is_no_excuse_and_no_fault() -> None:
    other = {**RECEIVE, "gem_rx [macb]": 151.0 + 47, "__slab_free": 112.45 - 49}
    found = judged(boot(window(other), identity=with_module("macb")))
    assert (found.result, found.shift) == (Relation.SAME, 0.0)
    assert found.why.startswith("gem_rx [macb] 151.00 -> 198.00 instructions per packet (+47.00); sum")


def test_an_allocator_that_does_more_work_is_found() -> None:
    # init_on_free=1: it changes no module at all.
    cleared = {**RECEIVE, "__memset": 194.71, "__slab_free": 112.45 + 120}
    found = judged(boot(window(cleared), identity=replace(IDENTITY, cmdline="nokaslr init_on_free=1")))
    assert found.result is Relation.SLOWER
    assert [str(one.function) for one in found.functions] == ["__memset", "__slab_free"]
    assert found.shift == 50.0


@pytest.mark.parametrize(
    ("rate", "result"), [(5245.0, Relation.SAME), (5243.0, Relation.SLOWER), (5351.0, Relation.FASTER)]
)
def test_goodput_at_full_load_may_fall_by_one_percent(rate: float, result: Relation) -> None:
    found = judged(boot(window(RECEIVE, "pktgen", rate=rate)), boot(window(RECEIVE, "pktgen")))
    assert found.result is result
    assert ("goodput falls by more than 1.0 %" in found.why) is (result is Relation.SLOWER)


def test_the_time_of_single_frames_is_that_of_their_instructions_and_has_no_limit_of_its_own() -> None:
    assert judged(boot(window(RECEIVE, rate=4000.0))).result is Relation.SAME


def test_a_limit_of_one_function_does_not_judge_a_window_at_full_load() -> None:
    # There, a driver may handle other numbers of packets at once.
    a, b = (boot(window({**RECEIVE, "gem_rx [macb]": count}, "pktgen")) for count in (151.0, 155.0))
    found = judged(b, a, limited({"gem_rx": "0"}))
    assert (found.result, found.functions[0].missed) == (Relation.SAME, "")


def test_tcp_may_vary_by_its_batches() -> None:
    parts = {"gem_rx [macb]": 151.0, "tcp_ack": 1000.0}
    a = boot(window(parts, "tcp", Direction.RX, 8_000_000, 5500, 900.0))
    # The same octets in fewer and larger packets: each octet takes as many instructions as before.
    b = boot(window({name: value * 1.1 for name, value in parts.items()}, "tcp", Direction.RX, 8_000_000, 5000, 818.2))
    found = judged(b, a)
    assert found.result is Relation.SAME
    assert found.change_of_sum == pytest.approx(0.0, abs=0.01)


def test_the_answer_is_the_unit_of_requests() -> None:
    a = boot(window(RECEIVE, "request", Direction.RX, 2, 1000))
    b = boot(
        window({**RECEIVE, "gem_rx [macb]": 152.0}, "request", Direction.RX, 2, 1000), identity=with_module("macb")
    )
    assert judged(b, a).why.startswith("gem_rx [macb] 151.00 -> 152.00 instructions per answer (+1.00);")


def test_without_the_plugin_the_counter_of_the_guest_gives_the_sum() -> None:
    def counted(pmu: int | None) -> ExactBoot:
        return boot(replace(window(RECEIVE, "pktgen"), instructions=None, functions={}, pmu_instructions=pmu))

    # The part that shifts with any binary is not known, so the sum has to grow by more.
    assert judged(counted(96_900_000), counted(95_000_000)).result is Relation.SAME
    found = judged(counted(97_000_000), counted(95_000_000))
    assert found.result is Relation.SLOWER
    assert found.why.startswith("4850.00 instructions per packet (+100.00); goodput unchanged: instructions grow")
    assert judged(counted(None), counted(None)).why == "instructions not counted; goodput unchanged"


def test_another_kernel_has_its_largest_changes_first() -> None:
    newer = {**RECEIVE, "gem_rx [macb]": 152.0, "net_rx_action": 260.0, "hrtimer_start_range_ns": 133.3}
    found = judged(boot(window(newer), identity=replace(with_module("macb"), image="new")))
    assert [str(one.function) for one in found.functions] == [
        "net_rx_action",
        "hrtimer_start_range_ns",
        "gem_rx [macb]",
    ]


def test_a_missed_window_is_named() -> None:
    b = boot(window(RECEIVE, "sender"))
    assert judge_exact(KNOWN_GOOD, b, ExactLimits()).missing == (
        "frame-60-rx was measured with A only",
        "sender-60-rx was measured with B only",
    )


def test_the_modules_of_the_build_are_known_by_their_hashes() -> None:
    assert changed_modules(IDENTITY, IDENTITY) == ()
    assert changed_modules(IDENTITY, replace(with_module("macb"), image="new")) == ("", "macb")
    without = {name: digest for name, digest in IDENTITY.modules.items() if name != "pktgen"}
    assert changed_modules(IDENTITY, replace(IDENTITY, modules=without)) == ("pktgen",)


def test_values_of_another_qemu_are_not_compared() -> None:
    assert differs_beside_build(IDENTITY, with_module("macb")) == ""
    assert differs_beside_build(IDENTITY, replace(IDENTITY, qemu="10.0.2")) == (
        "the boots cannot be compared: qemu was 7.2.22 with A and 10.0.2 with B"
    )


def test_a_driver_that_is_built_in_is_the_driver_under_test() -> None:
    receive = {name.removesuffix(" [macb]"): value for name, value in RECEIVE.items()}
    a = boot(window(receive), identity=replace(IDENTITY, modules={}))
    b = boot(window({**receive, "gem_rx": 155.0, "net_rx_action": 112.0}), identity=replace(a.identity, image="new"))
    found = {one.function.name: one.comparison for one in judged(b, a).functions}
    assert found == {"gem_rx": Comparison.DRIVER, "net_rx_action": Comparison.CHANGED}


def test_without_the_name_of_the_driver_no_function_is_of_the_driver() -> None:
    nameless = replace(IDENTITY, driver="")
    a, b = boot(identity=nameless), boot(window({**RECEIVE, "net_rx_action": 112.0}), identity=nameless)
    assert [one.comparison for one in judged(b, a).functions] == [Comparison.OTHER]


def test_a_function_that_moved_says_where_from() -> None:
    built_in = {name: value for name, value in RECEIVE.items() if name != "gem_rx [macb]"} | {"gem_rx": 155.0}
    found = judged(boot(window(built_in), identity=replace(IDENTITY, image="new")))
    assert found.functions[0].function == Function("", "gem_rx")
    assert found.functions[0].text == "gem_rx [macb] -> gem_rx 151.00 -> 155.00"


@pytest.mark.parametrize(
    ("b_ms", "result", "why"),
    [
        (
            2814.482,
            Relation.SAME,
            "first answer after 2814.482 ms; 3500000.00 instructions per answer; goodput unchanged",
        ),
        (
            2914.482,
            Relation.SLOWER,
            "first answer after 2814.482 ms -> 2914.482 ms; 3500000.00 instructions per answer; goodput -3.43 %: "
            "goodput falls by more than 1.0 %",
        ),
    ],
)
def test_an_event_has_the_time_of_the_first_answer(b_ms: float, result: Relation, why: str) -> None:
    identity = replace(IDENTITY, driver="e1000e")
    a, b = (
        boot(window({"probe": 3_500_000.0}, "replug", Direction.TX, 128, 1, 1000 / ms), identity=identity)
        for ms in (2814.482, b_ms)
    )
    (found,) = judge_exact(a, b, ExactLimits()).windows
    assert (found.result, found.why) == (result, why)
