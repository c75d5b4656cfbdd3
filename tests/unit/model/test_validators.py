"""Validators that pydantic accepts with each supported Python."""

from __future__ import annotations

from enum import EnumMeta
from typing import get_args

from pydantic import AfterValidator

from pytest_pinet.model.hardware import BusName


def test_no_enumeration_is_a_validator() -> None:
    """With Python 3.13 and pydantic 2.14, no lab file was read."""
    own = [one.func for one in get_args(BusName) if isinstance(one, AfterValidator)]

    assert own
    assert not any(isinstance(one, EnumMeta) for one in own)
