"""What a test author asks for: ``link`` and ``gate``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_pinet.gate import Gate
    from pytest_pinet.lab.link import Link


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
