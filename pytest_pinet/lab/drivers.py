"""The module for ``imports:`` of a lab file. Importing it registers our labgrid drivers and our strategy."""

from pytest_pinet.lab.console.drivers import PiSerialDriver, PiShellDriver
from pytest_pinet.lab.labgrid.strategy import PiSSHDriver, PiStrategy
from pytest_pinet.lab.switch.labgrid_driver import PoePowerDriver, SwitchPortDriver

__all__ = ["PiSSHDriver", "PiSerialDriver", "PiShellDriver", "PiStrategy", "PoePowerDriver", "SwitchPortDriver"]
