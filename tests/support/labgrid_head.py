"""The labgrid part of small lab files: nodes that a launcher serves, with console, power and ssh."""

from __future__ import annotations

_HEAD = """\
options: {coordinator_address: !template "$LG_COORDINATOR"}
imports: [pytest_pinet.lab.drivers]
targets:
"""
_DRIVERS = """\
    drivers: &drivers
      NetworkPowerDriver: {}
      PiSerialDriver: {}
      PiShellDriver:
        prompt: '(?:\\x1b\\[[?]2004h)?root@\\S+:.*# '
        login_prompt: ' login: '
        username: root
        password: !template "$LG_CONSOLE_PASSWORD"
      PiSSHDriver: {keyfile: !template "$LG_KEYFILE"}
      PiStrategy: {}
"""


def labgrid_head(first: str, *others: str) -> str:
    """Return the part of a lab file above ``pinet:`` for these nodes."""
    targets = [f"  {first}:\n    resources: {{RemotePlace: {{name: {first}}}}}\n{_DRIVERS}"]
    targets += [f"  {one}:\n    resources: {{RemotePlace: {{name: {one}}}}}\n    drivers: *drivers\n" for one in others]
    return _HEAD + "".join(targets)
