"""The module for ``imports:`` of a lab file. Importing it registers our labgrid drivers and our strategy."""

from pytest_pinet.lab.console.login import PiShellDriver
from pytest_pinet.lab.console.serial_driver import PiSerialDriver
from pytest_pinet.lab.labgrid.ssh_driver import PiSSHDriver
from pytest_pinet.lab.labgrid.strategy import PiStrategy
from pytest_pinet.lab.switch.labgrid_driver import PoePowerDriver, SwitchPortDriver

__all__ = ["PiSSHDriver", "PiSerialDriver", "PiShellDriver", "PiStrategy", "PoePowerDriver", "SwitchPortDriver"]
