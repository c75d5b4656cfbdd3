"""What a test asks for: ``pinet_link``, ``pinet_gate`` and ``pinet_tune``, and short names for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pytest_pinet.lab.link.link import Link
    from pytest_pinet.model.tuning import Tuned
    from pytest_pinet.session.gate import Gate
    from pytest_pinet.session.session import PinetSession


class Tune(Protocol):
    """``with pinet_tune(link, rps="all") as outcomes:``; also a state of ``gate.compare``."""

    def __call__(self, link: Link, **settings: object) -> AbstractContextManager[Sequence[Tuned]]:
        """Tune the link until the context is left."""


# How the plugin makes the session of a run. Only the plugin knows which kind of session the run needs.
SESSION_MAKER: pytest.StashKey[Callable[[pytest.Config], PinetSession]] = pytest.StashKey()


def pinet_session(config: pytest.Config) -> PinetSession:
    """Return the session of this run; make it if there is none yet."""
    return config.stash[SESSION_MAKER](config)


@pytest.fixture
def pinet_link(request: pytest.FixtureRequest) -> Iterator[Link]:
    """One combination of the lab, booted, cabled and checked: pass it to ``gate``. Needs the ``pinet`` marker."""
    from pytest_pinet.session.parametrizer import case_of

    case = case_of(request.node)
    if case is None:
        raise pytest.UsageError(
            f"{request.node.nodeid}: a test that asks for 'link' needs @pytest.mark.pinet(board=..., nic=...)"
        )
    with pinet_session(request.config).open_link(request.node, case) as opened:
        yield opened


@pytest.fixture
def pinet_gate(request: pytest.FixtureRequest) -> Gate:
    """Measures a link and judges it: ``gate.tcp(link, direction="tx")``, ``gate.udp(link, bitrate="900M")``."""
    from pytest_pinet.session.gate import Gate

    return Gate(pinet_session(request.config), request.node)


@pytest.fixture
def pinet_tune(request: pytest.FixtureRequest) -> Tune:
    """Tunes a link for a part of a test: ``with tune(link, rps="all", mtu=9000) as outcomes:``.

    Gives what came of each setting; leaving it takes all of them back. Settings that take a boot belong in the marker.
    """

    session = pinet_session(request.config)

    def tuned(link: Link, **settings: object) -> AbstractContextManager[Sequence[Tuned]]:
        return session.tuned(request.node, link, settings)

    return tuned


@pytest.fixture
def link(pinet_link: Link) -> Link:
    """Short for ``pinet_link``, unless the project or another plugin has a fixture of this name."""
    return pinet_link


@pytest.fixture
def gate(pinet_gate: Gate) -> Gate:
    """Short for ``pinet_gate``, unless the project or another plugin has a fixture of this name."""
    return pinet_gate


@pytest.fixture
def tune(pinet_tune: Tune) -> Tune:
    """Short for ``pinet_tune``, unless the project or another plugin has a fixture of this name."""
    return pinet_tune
