"""Undo steps run in reverse, all of them, and say what failed."""

from pytest_pinet.lab.undo import UndoStack


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
