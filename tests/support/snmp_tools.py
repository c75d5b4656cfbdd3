"""Runs net-snmp's own tools against the agent of a virtual switch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

MIB_2 = "1.3.6.1.2.1"
IF_NAME = f"{MIB_2}.31.1.1.1.1"
ADMIN = f"{MIB_2}.2.2.1.7"
OPER = f"{MIB_2}.2.2.1.8"
IN_ERRORS = f"{MIB_2}.2.2.1.14"
OUT_DISCARDS = f"{MIB_2}.2.2.1.19"
IN_OCTETS = f"{MIB_2}.31.1.1.1.6"
OUT_OCTETS = f"{MIB_2}.31.1.1.1.10"
HIGH_SPEED = f"{MIB_2}.31.1.1.1.15"
BASE_PORT = f"{MIB_2}.17.1.4.1.2"
PVID = f"{MIB_2}.17.7.1.4.5.1.1"
VLAN_NAME, EGRESS, UNTAGGED, ROW = (f"{MIB_2}.17.7.1.4.3.1.{column}" for column in (1, 2, 4, 5))
FDB = f"{MIB_2}.17.7.1.2.2.1.2"
POE = f"{MIB_2}.105.1.1.1.3.1"
POE_STATUS = f"{MIB_2}.105.1.1.1.6.1"
LLDP_PORT = "1.0.8802.1.1.2.1.4.1.1.7"
LLDP_NAME = "1.0.8802.1.1.2.1.4.1.1.9"
CREATE, DESTROY = "4", "6"
# No MIBs, and no persistent folder: tools that start together on a new machine conflict when each creates that folder.
ENVIRONMENT = {**os.environ, "MIBS": "", "SNMP_PERSISTENT_DIR": os.devnull}


class Snmp:
    """The SNMP agent of one switch. Uses the write community unless ``access`` is given."""

    def __init__(self, environment: Mapping[str, str], switch: str = "SW_1") -> None:
        self.environment = environment
        self.address = environment[f"LG_SWITCH_{switch}"].removeprefix("snmp://")

    def run(self, tool: str, *words: str, access: tuple[str, ...] = (), timeout_s: float = 5.0) -> str:
        """Return the tool's output, also if it failed."""
        access = access or ("-v2c", "-c", self.environment["LG_SNMP_COMMUNITY"])
        argv = [tool, *access, "-Onq", "-t", str(timeout_s), "-r", "0", self.address, *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False, env=ENVIRONMENT)
        return done.stdout + done.stderr

    def get(self, name: str, index: int | str) -> str:
        """Return the value alone."""
        return self.run("snmpget", f"{name}.{index}").strip().partition(" ")[2].strip('"')

    def set(self, name: str, index: int | str, kind: str, value: str) -> str:
        """Set a value. Return the agent's error; empty on success."""
        return self.many((name, index, kind, value))

    def many(self, *changes: tuple[str, int | str, str, str]) -> str:
        """Set several values in one packet. Return the agent's error; empty on success."""
        words = [word for name, index, kind, value in changes for word in (f"{name}.{index}", kind, value)]
        said = self.run("snmpset", *words)
        return said if "Reason" in said or "Timeout" in said else ""

    def walk(self, name: str) -> dict[str, str]:
        """Return values by index."""
        found = {}
        for line in self.run("snmpbulkwalk", name).splitlines():
            oid, _, value = line.partition(" ")
            if oid.startswith(f".{name}."):
                found[oid.removeprefix(f".{name}.")] = value.strip('"').strip()
        return found

    def join(self, port: int, vlan: int) -> None:
        """Make a port (one of the first eight) an access port of a VLAN, and create the VLAN if needed."""
        mask = f"{0x80 >> (port - 1):02X}"
        if self.get(ROW, vlan).startswith("No Such"):
            assert self.set(ROW, vlan, "i", CREATE) == ""
        members = f"{int(self.get(EGRESS, vlan).split()[0], 16) | int(mask, 16):02X}"
        assert self.set(PVID, port, "u", str(vlan)) == ""
        assert self.set(EGRESS, vlan, "x", members) == ""
        assert self.set(UNTAGGED, vlan, "x", members) == ""
