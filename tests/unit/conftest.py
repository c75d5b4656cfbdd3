"""The fixture that tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in an empty folder, and with a history of its own; return the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PINET_HISTORY", raising=False)
    return tmp_path
