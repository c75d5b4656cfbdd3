"""The forms of ``management:`` in a lab file."""

from __future__ import annotations

import pytest

from pytest_pinet.model.forms import Management, ManagementMode


@pytest.mark.parametrize("text", ["separate", "same", "vlan:1", "vlan:4094", "wifi"])
def test_each_form_prints_as_it_is_written(text: str) -> None:
    assert str(Management.parse(text)) == text


@pytest.mark.parametrize("text", ["", "vlan", "vlan:", "vlan:0", "vlan:4095", "vlan:04", "Same", "same:1", "usb"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected separate, same, vlan:N \(N from 1 to 4094\) or wifi, got"):
        Management.parse(text)


def test_only_same_and_vlan_share_the_interface_under_test() -> None:
    shared = {mode for mode in ManagementMode if Management(mode).shares_interface}
    assert shared == {ManagementMode.SAME, ManagementMode.VLAN}


def test_every_mode_has_a_cost() -> None:
    assert all(Management(mode).cost for mode in ManagementMode)
