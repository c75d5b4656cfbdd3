from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from labgrid.step import step

from pytest_pinet.execution import trace
from pytest_pinet.execution.trace import MOST_BENEATH, Recorder, Step, doing
from pytest_pinet.lab.labgrid import steps as labgrid_steps


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
