"""A slower build of which only the order and the addresses of the code differ is undecided, and no regression."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_pinet.judge.difference import LAYOUT
from tests.support.build_files import device_tree
from tests.support.change_session import ONE_TEST, Bench, bench_with, printed
from tests.support.module_objects import variant

SLOWER = 'PLAN = Plan(ratio={"onboard": 0.95})'
TREE = "device_trees: %s/bcm2711-rpi-4-b.dtb\n"


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, ONE_TEST) as found:
        found.plan(SLOWER)
        yield found


def write(bench: Bench, name: str, module: str, text: str = "", tree: bytes = b"") -> None:
    """Write a build with a variant of the small module, and perhaps a device tree."""
    folder = bench.pytester.path / f"{name}-files"
    folder.mkdir()
    (folder / "small.ko.xz").write_bytes(variant(module))
    (folder / "bcm2711-rpi-4-b.dtb").write_bytes(device_tree() + tree)
    text += TREE % folder.name if tree else ""
    (bench.pytester.path / f"{name}.yaml").write_text(f"modules: {folder.name}/small.ko.xz\n{text}")


@pytest.mark.parametrize("module", ["padding", "order"])
def test_the_layout_of_the_code_is_no_regression(bench: Bench, module: str) -> None:
    write(bench, "good", "plain")
    write(bench, "new", module)
    result = bench.run()
    assert (bench.head["verdict"], bench.head["exit"], bench.verdicts) == ("inconclusive", 3, ["inconclusive"])
    assert bench.head["code"] == {"changed": [], "came": [], "went": [], "parts": []}
    (entry,) = bench.head["entries"]
    assert entry["text"].startswith(LAYOUT)
    assert (entry["layout"], bench.record["results"][0]["layout"]) == (True, ["tx"])
    (record,) = bench.record["results"]
    assert (record["verdict"], record["directions"]["tx"]["verdict"]) == ("inconclusive", "inconclusive")
    assert record["change"]["directions"]["tx"]["verdict"] == "inconclusive"
    printed(result, "= INCONCLUSIVE =", "note*only the order and the addresses of the code differ")
    assert f"No decision on new: {LAYOUT} 1 of 1 metrics" in " ".join(result.stdout.str().split())


def test_with_layout_counts_it_is_one(bench: Bench) -> None:
    write(bench, "good", "plain")
    write(bench, "new", "padding")
    bench.run("--pinet-layout-counts")
    assert (bench.head["verdict"], bench.head["exit"]) == ("fail", 1)
    assert "--pinet-layout-counts" in bench.record["results"][0]["rerun"]


@pytest.mark.parametrize(
    ("module", "text", "tree", "key", "name"),
    [
        ("instructions", "", b"", "changed", "gem_rx [small]"),
        ("constant", "", b"", "parts", "table [small]"),
        ("padding", "", b"\2", "parts", "device_tree bcm2711-rpi-4-b.dtb"),
        ("padding", "sysctls: {net.ipv4.tcp_sack: 0}\n", b"", "parts", "setting sysctls"),
    ],
)
def test_any_other_difference_stays_a_regression(
    bench: Bench, module: str, text: str, tree: bytes, key: str, name: str
) -> None:
    write(bench, "good", "plain", tree=b"\1" if tree else b"")
    write(bench, "new", module, text, tree)
    bench.run()
    assert (bench.head["verdict"], bench.head["exit"]) == ("fail", 1)
    assert bench.head["code"][key] == [name]


def test_a_build_that_is_as_fast_is_not_compared(bench: Bench) -> None:
    bench.plan()
    write(bench, "good", "plain")
    write(bench, "new", "padding")
    bench.run().assert_outcomes(passed=1)
    assert (bench.head["verdict"], bench.head["code"]) == ("pass", None)
