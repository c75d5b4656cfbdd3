"""Data about boards and NICs, with sources. They are independent of any lab."""

from pytest_pinet.catalogue.load import load

__all__ = ["load"]
