"""Fixtures of the tests of real cards. They are made once, because a kernel of a card is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pytest_pinet.model.build import Build
from tests.support.boot_cards import CardOnDisk, Setup, build_of


@pytest.fixture(scope="session")
def _cards_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def made_build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Build]:
    """Return a function that makes each build once."""
    made: dict[tuple[str, bool], Build] = {}

    def build(kind: str = "settings", initramfs: bool = True) -> Build:
        if (kind, initramfs) not in made:
            made[kind, initramfs] = build_of(tmp_path_factory.mktemp("build"), kind, initramfs)
        return made[kind, initramfs]

    return build


@pytest.fixture(scope="session")
def shared_card(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], CardOnDisk]:
    """Return a function that makes each card once, for tests that only read it."""
    made: dict[tuple[str, str], CardOnDisk] = {}

    def card(name: str, board: str) -> CardOnDisk:
        if (name, board) not in made:
            made[name, board] = Setup(name, board).boot(tmp_path_factory.mktemp("card"))
        return made[name, board]

    return card
