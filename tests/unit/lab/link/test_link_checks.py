"""A link in half duplex is refused by name, when it opens and after a link-up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.lab.link import link as link_module
from pytest_pinet.lab.link.link_checks import check_negotiation
from tests.support.link_stand_in import UP, link

REFUSED = r"^one eth0 \(port p1 of switch s\) negotiated half duplex: not measured\n  -> enable autonegotiation"


def test_a_link_that_opens_in_half_duplex_is_refused(tmp_path: Path) -> None:
    end = link(tmp_path).dut
    check_negotiation(end, UP)
    # A driver that does not report the duplex.
    check_negotiation(end, replace(UP, duplex=None))
    with pytest.raises(InvalidMeasurement, match=REFUSED):
        check_negotiation(end, replace(UP, duplex="half"))


def test_a_link_that_comes_back_in_half_duplex_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_switch: Any = None
    here = link(tmp_path)
    here = replace(here, switches={end.port.switch: no_switch for end in here.ends})
    monkeypatch.setattr(link_module, "read_interface", lambda *_: UP)
    link_module.await_links(here)
    monkeypatch.setattr(link_module, "read_interface", lambda *_: replace(UP, duplex="half"))
    with pytest.raises(InvalidMeasurement, match=REFUSED):
        link_module.await_links(here)
