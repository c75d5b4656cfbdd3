"""The fixtures ``link``, ``gate``, ``tune`` and ``exact_gate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pytest_pinet.lab.link.link import Link
    from pytest_pinet.model.tuning import Tuned
    from pytest_pinet.session.exact_gate import ExactGate
    from pytest_pinet.session.gate import Gate
    from pytest_pinet.session.session import PinetSession


class Tune(Protocol):
    """The type of ``tune``: ``with tune(link, rps="all") as outcomes:``."""

    def __call__(self, link: Link, **settings: object) -> AbstractContextManager[Sequence[Tuned]]:
        """Tune the link until the context is left."""


# Makes the session of a run. The plugin sets it, because only the plugin imports builds under test.
SESSION_MAKER: pytest.StashKey[Callable[[pytest.Config], PinetSession]] = pytest.StashKey()


def pinet_session(config: pytest.Config) -> PinetSession:
    """Return the session of this run; make it if there is none yet."""
    return config.stash[SESSION_MAKER](config)


@pytest.fixture
def link(request: pytest.FixtureRequest) -> Iterator[Link]:
    """An open link of one combination: nodes booted, cables and link checked. Needs the ``pinet`` marker."""
    from pytest_pinet.session.parametrizer import case_of

    case = case_of(request.node)
    if case is None:
        raise pytest.UsageError(
            f"{request.node.nodeid}: a test that uses the fixture 'link' needs @pytest.mark.pinet(board=..., nic=...)"
        )
    with pinet_session(request.config).open_link(request.node, case) as opened:
        yield opened


@pytest.fixture
def gate(request: pytest.FixtureRequest) -> Gate:
    """Measures a link and judges it: ``gate.tcp(link, direction="tx")``, ``gate.udp(link, bitrate="900M")``."""
    from pytest_pinet.session.gate import Gate

    return Gate(pinet_session(request.config), request.node)


@pytest.fixture
def tune(request: pytest.FixtureRequest) -> Tune:
    """Tunes a link for a part of a test: ``with tune(link, rps="all", mtu=9000) as outcomes:``.

    Returns the outcome of each setting. Leaving the context undoes all settings. Settings that need a boot are written
    into the marker.
    """
    session = pinet_session(request.config)

    def tuned(link: Link, **settings: object) -> AbstractContextManager[Sequence[Tuned]]:
        return session.tuned(request.node, link, settings)

    return tuned


@pytest.fixture
def exact_gate(request: pytest.FixtureRequest) -> ExactGate:
    """Judges the build under test to the instruction, without a lab: ``exact_gate()``. Needs the ``exact`` marker.

    The test runs once for each NIC that has an exact board.
    """
    return pinet_session(request.config).exact_gate(request.node, request.param)
