"""What is known about boards and NICs before a lab is described: data, with sources."""

from pytest_pinet.catalogue.load import Catalogue, load

__all__ = ["Catalogue", "load"]
