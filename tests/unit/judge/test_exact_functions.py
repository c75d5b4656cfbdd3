"""Functions of builds that were compiled apart: which are the same, and which shift with any other binary."""

from dataclasses import replace

import pytest

from pytest_pinet.judge.exact_functions import counts_of, is_of_driver, is_shifting, pairs, whole
from pytest_pinet.model.exact import Function
from tests.support.exact_boots import IDENTITY, RECEIVE, boot, named, window


def paired(a: dict[str, float], b: dict[str, float]) -> dict[str, str]:
    return {str(pair.a): str(pair.b) for pair in pairs(counts_of(boot(window(a))), counts_of(boot(window(b))))}


def test_split_off_parts_belong_to_their_function() -> None:
    parts = {
        "gem_rx [macb]": 150.0,
        "gem_rx.cold [macb]": 1.0,
        "gem_rx.isra.0 [macb]": 2.0,
        "gem_rx.part.0.constprop.1 [macb]": 3.0,
    }
    assert whole(window(parts, packets=10)) == {named("gem_rx [macb]"): 1560}


def test_functions_that_a_kernel_renamed_are_the_same() -> None:
    assert paired({"__list_add_valid": 80.0}, {"__list_add_valid_or_report": 90.0}) == {
        "__list_add_valid": "__list_add_valid"
    }
    assert paired({"kmem_cache_alloc_node": 80.0}, {"kmem_cache_alloc_node_noprof": 81.0}) == {
        "kmem_cache_alloc_node": "kmem_cache_alloc_node"
    }


def test_equal_counts_in_one_module_are_a_renamed_function() -> None:
    before = {"gem_rx [macb]": 151.0, "macb_poll [macb]": 60.0, "other": 60.0}
    after = {"gem_rx [macb]": 151.0, "macb_rx_poll [macb]": 60.0, "other": 60.0}
    assert paired(before, after)["macb_poll [macb]"] == "macb_rx_poll [macb]"


def test_two_candidates_are_no_pair() -> None:
    before = {"one [macb]": 60.0}
    after = {"two [macb]": 60.0, "three [macb]": 60.0}
    assert paired(before, after) == {name: name for name in ("one [macb]", "two [macb]", "three [macb]")}


def test_a_driver_that_became_a_module_keeps_its_functions() -> None:
    assert paired({"gem_rx": 151.0}, {"gem_rx [macb]": 155.0}) == {"gem_rx": "gem_rx [macb]"}


@pytest.mark.parametrize(
    "name",
    [
        "__slab_free", "___slab_alloc", "slab_free_freelist_hook", "kmem_cache_free_bulk", "kmem_cache_alloc_node",
        "__kmalloc_node_track_caller", "kfree", "get_partial_node", "__unfreeze_partials", "put_cpu_partial",
        "setup_object", "allocate_slab", "__alloc_pages", "get_page_from_freelist", "rmqueue_bulk", "free_unref_page",
        "page_frag_free", "__schedule", "pick_next_task_fair", "dequeue_entity", "update_curr", "try_to_wake_up",
        "finish_task_switch", "hrtimer_start_range_ns", "__hrtimer_run_queues", "tick_sched_timer", "ktime_get",
        "timekeeping_advance", "timerqueue_add", "arch_timer_handler_virt", "rcu_sched_clock_irq", "psi_task_change",
    ],
)  # fmt: skip
def test_allocators_scheduler_and_timers_shift(name: str) -> None:
    assert is_shifting(Function("", name))
    assert not is_shifting(Function("macb", name))


@pytest.mark.parametrize(
    "name",
    [
        "net_rx_action", "__napi_alloc_skb", "napi_gro_receive", "__memset", "swiotlb_map", "fib_table_lookup",
        "dev_gro_receive", "skb_release_data", "__netif_receive_skb_core", "tcp_ack", "__build_skb_around",
        "dma_map_page_attrs", "ip_rcv", "csum_partial", "[user]", "[unknown]",
    ],
)  # fmt: skip
def test_the_path_of_a_packet_does_not_shift(name: str) -> None:
    assert not is_shifting(Function("", name))


def test_functions_of_a_driver_and_of_its_phy_are_known_by_module_or_by_name() -> None:
    genet = replace(IDENTITY, driver_modules=("broadcom", "genet"), driver_functions="bcmgenet_|bcm54")
    assert is_of_driver(Function("", "bcmgenet_rx_poll"), genet)
    assert is_of_driver(Function("", "bcm54xx_config_init"), genet)
    assert is_of_driver(Function("genet", "__any_name"), genet)
    assert is_of_driver(Function("broadcom", "__any_name"), genet)
    assert not is_of_driver(Function("", "napi_bcmgenet_"), genet)
    assert not is_of_driver(Function("another", "bcmgenet_rx_poll"), genet)
    # Other machines than ours need not know the functions.
    assert not is_of_driver(Function("", "bcmgenet_rx_poll"), replace(genet, driver_functions=""))


def test_every_function_is_in_one_pair() -> None:
    assert len(paired(RECEIVE, RECEIVE)) == len(RECEIVE)
