"""Undo steps run in reverse order, all of them, and report failures."""

import signal
import time
from threading import Barrier

import pytest

from pytest_pinet.execution.undo import UndoStack


def test_steps_run_last_first() -> None:
    order: list[str] = []
    undo = UndoStack()
    for name in ("first", "second", "third"):
        undo.add(name, lambda name=name: order.append(name))  # type: ignore[misc]
    assert undo.close() == []
    assert order == ["third", "second", "first"]


def test_a_failing_step_does_not_stop_the_others() -> None:
    order: list[str] = []

    def fail() -> None:
        raise RuntimeError("the switch is gone\nand so is this line")

    undo = UndoStack()
    undo.add("the address", lambda: order.append("address"))
    undo.add("port p3", fail)
    assert undo.close() == ["could not undo port p3: the switch is gone"]
    assert order == ["address"]


def test_closing_again_does_nothing() -> None:
    order: list[str] = []
    undo = UndoStack()
    undo.add("once", lambda: order.append("once"))
    undo.close()
    assert undo.close() == []
    assert order == ["once"]


def test_undos_of_a_lost_node_are_skipped_and_named() -> None:
    order: list[str] = []
    undo = UndoStack()
    undo.add("the wiring of p1 and p2", lambda: order.append("wiring"))
    for node in ("pi1", "pi2"):
        undo.add(f"the address of {node}", lambda node=node: order.append(node), node)  # type: ignore[misc]
    assert undo.close(lost=["pi1"]) == [
        "did not undo the address of pi1: this run no longer holds pi1",
        "did not undo the wiring of p1 and p2: this run no longer holds pi1",
    ]
    assert order == ["pi2"]
    assert undo.close() == []


def test_changes_that_are_made_at_once_are_undone_in_the_reverse_of_their_order() -> None:
    order: list[str] = []
    undo = UndoStack()
    undo.add("first", lambda: order.append("first"))
    second_begun, first_done = Barrier(2, timeout=10), Barrier(2, timeout=10)

    def change(node: str, undo: UndoStack) -> str:
        # The second change begins before the first one, and ends before it.
        if node == "pi1":
            second_begun.wait()
            first_done.wait()
        undo.add(f"address of {node}", lambda: order.append(node))
        if node == "pi2":
            second_begun.wait()
            first_done.wait()
            raise RuntimeError(f"{node} refused")
        return node.upper()

    with pytest.raises(RuntimeError, match="pi2 refused"):
        undo.at_once(change, ["pi1", "pi2"])
    assert undo.at_once(lambda node, _: node.upper(), ["pi3", "pi4"]) == ["PI3", "PI4"]
    assert undo.close() == []
    assert order == ["pi2", "pi1", "first"]


def test_a_node_does_not_wait_for_the_undo_of_another_node() -> None:
    order: list[str] = []
    both = Barrier(2, timeout=10)

    def change(what: str, node: str | None, wait: bool = False, error: str = "") -> None:
        def step() -> None:
            if wait:
                both.wait()
            order.append(what)
            if error:
                raise RuntimeError(error)

        undo.add(what, step, node)

    undo = UndoStack()
    change("address of pi1", "pi1", error="no such device")
    change("wiring", None)
    change("ARP of pi1", "pi1", wait=True, error="read-only")
    change("ARP of pi2", "pi2", error="no answer")
    change("MTU of pi1", "pi1")
    change("MTU of pi2", "pi2", wait=True)
    # Each node's last change first. The switch belongs to all nodes.
    assert undo.close() == [
        "could not undo ARP of pi2: no answer",
        "could not undo ARP of pi1: read-only",
        "could not undo address of pi1: no such device",
    ]
    assert [one for one in order if "pi2" not in one] == ["MTU of pi1", "ARP of pi1", "wiring", "address of pi1"]
    assert [one for one in order if "pi1" not in one] == ["MTU of pi2", "ARP of pi2", "wiring"]


def test_an_interrupt_while_nodes_are_restored_loses_no_step() -> None:
    order: list[str] = []
    undo = UndoStack()
    undo.add("wiring", lambda: order.append("wiring"))
    undo.add("address of pi1", lambda: order.append("address"), "pi1")

    def interrupted() -> None:
        time.sleep(0.1)
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.2)
        order.append("MTU")

    undo.add("MTU of pi1", interrupted, "pi1")
    with pytest.raises(KeyboardInterrupt):
        undo.close()
    assert undo.close() == []
    assert order == ["MTU", "address", "wiring"]
