"""S4: six nodes on one switch of 100 Mbit/s: three disjoint pairs at once, and five senders to one receiver.

Each flow is judged: a pair by its own goodput, a sender of the incast by its share of the receiver's link.
"""

from __future__ import annotations

import pytest

from pytest_pinet.catalogue.published import least
from pytest_pinet.lab.link.link import Link
from pytest_pinet.session.gate import Gate
from pytest_pinet.suites.duration import method

pytestmark = pytest.mark.cluster
SOURCE = {"duration": 20, "warmup": 0}


@pytest.mark.pinet(board="pi3b", nic="onboard", topology="pairs:3", min=least("s4-best"))
def test_disjoint_pairs(link: Link, gate: Gate, request: pytest.FixtureRequest) -> None:
    gate.tcp(link, **method(request, **SOURCE))


@pytest.mark.pinet(board="pi3b", nic="onboard", topology="incast:5", sum=least("s4-best"), share="80%")
def test_incast(link: Link, gate: Gate, request: pytest.FixtureRequest) -> None:
    gate.tcp(link, **method(request, **SOURCE))
