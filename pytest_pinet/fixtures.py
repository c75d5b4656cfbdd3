"""What a test author asks for: ``link``, ``gate`` and ``tune``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pytest_pinet.gate import Gate
    from pytest_pinet.lab.link import Link
    from pytest_pinet.model.tuning import Tuned

    class Tune(Protocol):
        """``with tune(link, rps="all") as outcomes:``; also a state of ``gate.compare``."""

        def __call__(self, link: Link, **settings: object) -> AbstractContextManager[Sequence[Tuned]]: ...


@pytest.fixture
def link(request: pytest.FixtureRequest) -> Iterator[Link]:
    """One combination of the lab, booted, cabled and checked: pass it to ``gate``. Needs the ``pinet`` marker."""
    from pytest_pinet.plugin import pinet_session

    if not hasattr(request, "param"):
        raise pytest.UsageError(
            f"{request.node.nodeid}: a test that asks for 'link' needs @pytest.mark.pinet(board=..., nic=...)"
        )
    with pinet_session(request.config).open_link(request.node, request.param) as opened:
        yield opened


@pytest.fixture
def gate(request: pytest.FixtureRequest) -> Gate:
    """Measures a link and judges it: ``gate.tcp(link, direction="tx")``, ``gate.udp(link, bitrate="900M")``."""
    from pytest_pinet.gate import Gate
    from pytest_pinet.plugin import pinet_session

    return Gate(pinet_session(request.config), request.node)


@pytest.fixture
def tune(request: pytest.FixtureRequest) -> Tune:
    """Tunes a link for a part of a test: ``with tune(link, rps="all", mtu=9000) as outcomes:``.

    Gives what came of each setting; leaving it takes all of them back. Settings that take a boot belong in the marker.
    """
    from pytest_pinet.plugin import pinet_session

    session = pinet_session(request.config)

    def tuned(link: Link, **settings: object) -> AbstractContextManager[Sequence[Tuned]]:
        return session.tuned(request.node, link, settings)

    return tuned
