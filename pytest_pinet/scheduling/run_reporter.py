"""The interface to the recorder of a run."""

from __future__ import annotations

from typing import Protocol

from pytest_pinet.report.run_folder import RunFolder


class RunReporter(Protocol):
    """Has the run folder, and passes warnings on to the user."""

    @property
    def folder(self) -> RunFolder: ...

    def warn(self, warning: str) -> None: ...
