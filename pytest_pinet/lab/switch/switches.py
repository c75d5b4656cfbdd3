"""Open the switches of a lab file."""

from __future__ import annotations

import os

from pytest_pinet.config.template import substitute
from pytest_pinet.lab.switch import switchport
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.model.lab import Lab


def open_switch(lab: Lab, name: str) -> ManagedSwitch:
    """Return a switch of the lab. The environment fills in its settings; its changes go into this process's journal.

    Raises ConfigError, and LabError when the switch does not answer.
    """
    switch = lab.switches[name]
    settings = {key: substitute(text, os.environ, lab.file) for key, text in switch.settings.items()}
    return ManagedSwitch(switch, switchport.connect(switch, settings), Journal(lab.file))
