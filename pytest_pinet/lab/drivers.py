"""What a lab file imports: our labgrid drivers and strategy, registered by being imported."""

from pytest_pinet.lab.console_driver import PiSerialDriver
from pytest_pinet.lab.console_login import PiShellDriver
from pytest_pinet.lab.ssh_driver import PiSSHDriver
from pytest_pinet.lab.strategy import PiStrategy
from pytest_pinet.lab.switchport_driver import SwitchPortDriver

__all__ = ["PiSSHDriver", "PiSerialDriver", "PiShellDriver", "PiStrategy", "SwitchPortDriver"]
