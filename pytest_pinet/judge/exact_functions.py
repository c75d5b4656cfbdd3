"""Pair the functions of two builds that were compiled apart, and compare them: which shift with any other binary?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.judge.difference import Relation
from pytest_pinet.model.exact import (
    Comparison,
    ExactBoot,
    ExactIdentity,
    ExactWindow,
    Function,
    FunctionChange,
    InstructionLimit,
)

# Parts of a function that compilers split off, and the names that 6.10 gave to all allocating functions and 6.6 to the
# checks of lists. A part is counted with its function, because another compilation splits differently.
_PARTS = re.compile(r"(\.(isra|constprop|part|cold|llvm|lto_priv)(\.\d+)?)+$|_noprof$|(?<=_valid)_or_report$")
# Functions of mm/slub.c, the page allocator, the scheduler and the timers. What they execute depends on addresses and
# on the moment at which a tick or an interrupt comes. Both differ in any other binary (facts: a rebuild of e1000e
# without changes moved __slab_free by 9.5 instructions a packet, four nops in macb moved ___slab_alloc by 36).
_SHIFTING = re.compile(
    # slub
    r"_*(slab|kmem_cache|kmem_|kmalloc|kfree|ksize|setup_object|(get|put|new|free|allocate|discard|deactivate|unfreeze"
    r"|grow)_*(any_|cpu_)?(partials?|slab)|flush_cpu_slab|shuffle_freelist|memcg_slab)"
    # page allocator
    r"|_*(alloc_pages|free_pages?|free_unref_page|free_frozen|free_one_page|free_pcppages|rmqueue|get_page_from"
    r"|get_pfnblock|set_pfnblock|page_frag|prep_new_page|post_alloc_hook|zone_watermark|mod_(zone|node|lruvec)"
    r"|expand|split_page|drain_pages)"
    # scheduler
    r"|_*(schedule|scheduler|sched_|pick_next|pick_e?evdf|pick_task|put_prev|set_next|enqueue_(task|entity|hrtimer)"
    r"|dequeue_(task|entity)|update_(curr|load_avg|rq_clock|min_vruntime|cfs|process_times|wall_time|sd)|try_to_wake_up"
    r"|ttwu_|wake_up_(process|common|q|state)|wakeup_|check_preempt|resched_|reweight|place_entity|task_tick|cpuacct"
    r"|account_|psi_|finish_task_switch|switch_to|do_idle|cpuidle|default_idle|cpu_idle|calc_|pelt_|rcu_|note_gp|irqtime)"
    # timers
    r"|_*(hrtimer|tick_|timer_|run_timer|mod_timer|timerqueue|ktime_get|timekeeping|clockevents?|arch_(sys_)?timer"
    r"|arch_counter|erratum_set_next|run_local_timers|call_timer|expire_timers|lock_timer_base|detach_timer|calc_wheel"
    r"|get_nohz|jiffies|do_timer|rb_(insert|erase|next|first|prev))"
)
# How far the shifting functions together may move, in instructions for each packet. A rebuild of e1000e without changes
# moved them by 9.5, four nops in macb by 46.
SHIFT = 50.0
# The importance of functions of the driver under test, and of a module that the build changes. Only functions that miss
# a limit are before them.
OF_CHANGE = 1
# A smaller change of a function is rounding.
ROUNDING = 0.005
# Counts below this are no signature: many functions run once in a window.
_LEAST_SIGNATURE = 1000


def is_shifting(function: Function) -> bool:
    """Return whether this function of the kernel image belongs to an allocator, the scheduler or the timers."""
    return not function.module and _SHIFTING.match(function.name) is not None


def is_of_driver(function: Function, identity: ExactIdentity) -> bool:
    """Return whether this function belongs to the driver of a board, as a module or built into the kernel."""
    if function.module:
        return function.module in identity.driver_modules
    return bool(identity.driver_functions) and re.match(identity.driver_functions, function.name) is not None


# The instructions of functions in each window of a boot.
Counts = Mapping[Function, tuple[int, ...]]


@dataclass(frozen=True)
class FunctionPair:
    """A function in both builds. They differ if the function was renamed or moved to another module.

    A function that exists in only one build is paired with itself.
    """

    a: Function
    b: Function


def whole(window: ExactWindow) -> dict[Function, int]:
    """Return the instructions of each function together with its split-off parts."""
    found: dict[Function, int] = defaultdict(int)
    for function, count in window.functions.items():
        found[Function(function.module, _PARTS.sub("", function.name))] += count
    return dict(found)


def functions_of(names: Mapping[str, Iterable[str]]) -> set[Function]:
    """Return the functions with these names, by module, without the parts that compilers split off."""
    return {Function(module, _PARTS.sub("", name)) for module, own in names.items() for name in own}


def counts_of(boot: ExactBoot) -> Counts:
    """Return the instructions of each function, together with its split-off parts, in each window of a boot."""
    each = [whole(window) for window in boot.windows]
    return {one: tuple(own.get(one, 0) for own in each) for one in set().union(*each)}


def pairs(counts_a: Counts, counts_b: Counts) -> list[FunctionPair]:
    """Return every function that ran in a window of either boot, each once.

    A function that ran in A only and one that ran in B only are the same if they have the same name in different
    modules (a driver that became a module), or the same counts in all windows and the same module. Both must be
    unique: two candidates are no pair.
    """
    only_a, only_b = counts_a.keys() - counts_b.keys(), counts_b.keys() - counts_a.keys()
    found = [FunctionPair(one, one) for one in counts_a.keys() & counts_b.keys()]

    def moved(function: Function) -> object:
        return function.name

    def renamed(counts: Counts) -> Callable[[Function], object]:
        def key(function: Function) -> object:
            own = counts[function]
            return (function.module, own) if sum(own) >= _LEAST_SIGNATURE else None

        return key

    for key_a, key_b in ((moved, moved), (renamed(counts_a), renamed(counts_b))):
        ones, others = _unique(only_a, key_a), _unique(only_b, key_b)
        same = [FunctionPair(ones[key], others[key]) for key in ones.keys() & others.keys()]
        found += same
        only_a, only_b = only_a - {pair.a for pair in same}, only_b - {pair.b for pair in same}
    return sorted([*found, *(FunctionPair(one, one) for one in only_a | only_b)], key=lambda pair: (pair.b, pair.a))


def _unique(functions: Iterable[Function], key: Callable[[Function], object]) -> dict[object, Function]:
    """Return the functions by key, without the keys that several functions have, and without the key None."""
    found: dict[object, list[Function]] = defaultdict(list)
    for function in functions:
        found[key(function)].append(function)
    return {value: own[0] for value, own in found.items() if len(own) == 1 and value is not None}


def changes(
    a: ExactWindow,
    b: ExactWindow,
    paired: Sequence[FunctionPair],
    modules: Sequence[str],
    identity: ExactIdentity,
    limit_of: Callable[[Function], InstructionLimit | None],
    per: tuple[int, int],
    code: Collection[Function] | None = None,
) -> list[FunctionChange]:
    """Return every function that changed, the most telling first.

    ``code`` are the functions of modules whose code differs between the builds, None if this is not known.
    """
    if not a.functions or not b.functions:
        return []
    counts_a, counts_b = whole(a), whole(b)
    found = []
    for pair in paired:
        one, other = counts_a.get(pair.a, 0) / per[0], counts_b.get(pair.b, 0) / per[1]
        if abs(other - one) < ROUNDING:
            continue
        was = str(pair.a) if pair.a != pair.b else ""
        comparison = _comparison(pair, modules, identity)
        limit = limit_of(pair.b) if a.one_by_one else None
        missed = str(limit) if limit is not None and other - one > limit.bound.most(one) else ""
        is_compared = bool(pair.b.module) or "" not in modules
        same_code = is_compared and code is not None and pair.b not in code
        found.append(
            FunctionChange(pair.b.name, pair.b.module, one, other, comparison, was, missed, same_code=same_code)
        )
    return sorted(found, key=lambda one: (one.same_code, importance(one, modules), -abs(one.change)))


def _comparison(pair: FunctionPair, modules: Sequence[str], identity: ExactIdentity) -> Comparison:
    names = {pair.a.module, pair.b.module}.intersection(modules)
    if names - {""}:
        return Comparison.CHANGED
    if is_of_driver(pair.a, identity) or is_of_driver(pair.b, identity):
        return Comparison.DRIVER
    if is_shifting(pair.b) and is_shifting(pair.a):
        return Comparison.SHIFTING
    return Comparison.CHANGED if names else Comparison.OTHER


def importance(one: FunctionChange, modules: Collection[str]) -> int:
    """Return the place of a function among the functions that changed: 0 is the first.

    ``modules`` is as in ``ExactChange``. A change of a module explains the others. A change of the whole kernel
    explains itself; the functions of the driver under test are its first ones.
    """
    if one.missed:
        return 0
    if one.comparison is Comparison.DRIVER or (one.comparison is Comparison.CHANGED and "" not in modules):
        return OF_CHANGE
    return 3 if one.comparison is Comparison.SHIFTING and abs(one.change) <= SHIFT else 2


def explaining(functions: Iterable[FunctionChange], shift: float, result: Relation) -> list[FunctionChange]:
    """Return functions with those first that explain most of a growth, or of a decrease, of all instructions.

    ``result`` says which of both was judged; without one, the largest change is first. ``shift`` is the part of the
    change in functions that shift with any binary, which is not judged. A function with the same code is called more
    often by another one: if it would be first, a function of its module with other code is before it.
    """

    def part(one: FunctionChange) -> float:
        size = {Relation.SLOWER: one.change, Relation.FASTER: -one.change}.get(result, abs(one.change))
        excused = max(shift, 0.0 if result is Relation.SLOWER else SHIFT)
        return excused - size if one.comparison is Comparison.SHIFTING else -size

    found = sorted(functions, key=part)
    if found and found[0].same_code:
        callers = (one for one in found if one.module == found[0].module and not one.same_code and part(one) < 0)
        first = next(callers, found[0])
        found.remove(first)
        found.insert(0, first)
    return found
