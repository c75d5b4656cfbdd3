"""What a lab file imports: our labgrid drivers and strategy, registered by being imported."""

from pytest_pinet.lab.console_login import PiShellDriver
from pytest_pinet.lab.ssh_driver import PiSSHDriver
from pytest_pinet.lab.strategy import PiStrategy

__all__ = ["PiSSHDriver", "PiShellDriver", "PiStrategy"]
