"""The suite of exact boards: what a kernel and a driver execute for each packet, for every NIC of exact boards.

``pinet gate --exact BUILD`` runs it. It needs no lab.
"""

import pytest

from pytest_pinet.session.exact_gate import ExactGate


@pytest.mark.exact
def test_exact(exact_gate: ExactGate) -> None:
    exact_gate()
