"""Undo steps, the trace of steps, and deadlines."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from threading import Barrier
from typing import Any

import pytest
from labgrid.step import step

from pytest_pinet.execution import trace
from pytest_pinet.execution.deadline import call_within
from pytest_pinet.execution.trace import MOST_BENEATH, Recorder, Step, doing
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.labgrid import steps as labgrid_steps


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


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    one = Recorder()
    one.start()
    yield one
    one.stop()


def tree(found: list[Step]) -> list[Any]:
    return [one.title if not one.steps else [one.title, *tree(one.steps)] for one in found]


def test_without_a_recorder_no_step_is_kept() -> None:
    with doing("lease"):
        assert trace.current() is None


def test_steps_form_a_tree_with_times(recorder: Recorder) -> None:
    with doing("lease"), doing("place a"):
        pass
    with doing("measure"):
        pass
    assert tree(recorder.stop()) == [["lease", "place a"], "measure"]
    assert all(one.ended >= one.started > 0 for one in recorder.steps)


def test_a_failed_step_and_its_parents_have_the_error_in_one_line(recorder: Recorder) -> None:
    with pytest.raises(ValueError, match="no carrier"), doing("cable"), doing("check"):
        raise ValueError("no carrier\nmore")
    assert [one.error for one in (recorder.steps[0], recorder.steps[0].steps[0])] == ["no carrier"] * 2


def test_of_many_steps_beneath_one_only_the_first_are_kept(recorder: Recorder) -> None:
    with doing("boot"):
        for number in range(MOST_BENEATH + 7):
            with doing(f"poll {number}"):
                pass
    (boot,) = recorder.stop()
    assert (len(boot.steps), boot.left_out) == (MOST_BENEATH, 7)


def test_steps_of_other_threads_are_not_mixed_in(recorder: Recorder) -> None:
    def elsewhere() -> None:
        with doing("elsewhere"):
            pass

    with doing("here"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join(5)
    assert tree(recorder.stop()) == ["here"]


def test_an_open_step_ends_with_the_test() -> None:
    one = Recorder()
    one.start()
    one.begin("killed")
    assert one.stop()[0].ended > 0
    assert trace.current() is None


# -- labgrid's ----------------------------------------------------------------------------------------------------


class Driver:
    """A driver with steps like labgrid's drivers."""

    @step(args=["state"])  # type: ignore[untyped-decorator]
    def transition(self, state: str) -> None:
        self.write(b"hunter2\n")
        self.run("passwd root hunter2")

    @step(args=["data"])  # type: ignore[untyped-decorator]
    def write(self, data: bytes) -> None:
        pass

    @step(args=["cmd"])  # type: ignore[untyped-decorator]
    def run(self, cmd: str) -> None:
        raise OSError("refused")


def test_labgrids_steps_stand_beneath_ours_without_what_may_be_secret(recorder: Recorder) -> None:
    stop = labgrid_steps.listen()
    driver = Driver()
    with doing("boot"), pytest.raises(OSError, match="refused"):
        driver.transition("off")
    stop()
    (boot,) = recorder.stop()
    assert tree([boot]) == [["boot", ["Driver transition off", "Driver run"]]]
    assert "hunter2" not in str(boot)
    assert boot.steps[0].steps[0].error == "refused"


def test_no_listener_of_labgrid_is_left(recorder: Recorder) -> None:
    labgrid_steps.listen()()
    driver = Driver()
    with pytest.raises(OSError, match="refused"):
        driver.transition("off")
    assert recorder.stop() == []


def test_a_call_in_time_returns_its_result_or_error() -> None:
    assert call_within(5, lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        call_within(5, lambda: 1 // 0)


def test_a_call_that_never_ends_raises_timeout() -> None:
    release = threading.Event()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.1 s"):
        call_within(0.1, release.wait)
    release.set()


def test_only_the_command_that_never_ends_is_killed() -> None:
    statuses: list[int] = []
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(TimeoutError):
            call_within(0.3, lambda: statuses.append(subprocess.run(["sleep", "60"], check=False).returncode))
        deadline = time.monotonic() + 50
        while not statuses:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert statuses == [-9]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
