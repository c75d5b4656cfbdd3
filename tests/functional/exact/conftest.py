"""What tests of ``pinet gate --exact`` share: a cache of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from pytest_pinet.emulated.image import cache
from tests.support.console_blocks import ROOT


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return an environment without earlier boots, which would prove nothing. It shares packages and drivers."""
    folder = tmp_path_factory.mktemp("cache")
    (folder / "pinet").mkdir()
    (folder / "pinet" / "emulated").symlink_to(cache())
    return {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder)}
