"""The directory of a virtual lab: one process at a time, even if another one removes it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from pytest_pinet.virtual.runtime import Runtime


def test_the_lock_works_while_other_processes_remove_the_directory(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "pinet" / "lab")
    inside: list[int] = []
    together: list[int] = []
    broken: list[BaseException] = []

    def lock_and_release() -> None:
        try:
            for _ in range(300):
                # No lab exists when the lock is released, so lock and directory are removed.
                with runtime.locked():
                    inside.append(1)
                    time.sleep(0)
                    together.append(len(inside))
                    inside.pop()
        except BaseException as error:
            broken.append(error)

    threads = [threading.Thread(target=lock_and_release) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert broken == []
    assert set(together) == {1}
    assert not (tmp_path / "pinet").exists()
