"""net-snmp's own tools at the agent of a virtual switch."""

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
# The tools read no MIB, and keep nothing: the first ones on a machine fall out over the folder that each wants to make.
ENVIRONMENT = {**os.environ, "MIBS": "", "SNMP_PERSISTENT_DIR": os.devnull}


class Snmp:
    """One switch, with the community that may write unless another is named."""

    def __init__(self, environment: Mapping[str, str], switch: str = "SW_1") -> None:
        self.environment = environment
        self.address = environment[f"LG_SWITCH_{switch}"].removeprefix("snmp://")

    def run(self, tool: str, *words: str, access: tuple[str, ...] = (), timeout_s: float = 5.0) -> str:
        """What the tool prints, also when it failed."""
        access = access or ("-v2c", "-c", self.environment["LG_SNMP_COMMUNITY"])
        argv = [tool, *access, "-Onq", "-t", str(timeout_s), "-r", "0", self.address, *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False, env=ENVIRONMENT)
        return done.stdout + done.stderr

    def get(self, name: str, index: int | str) -> str:
        """The value alone."""
        return self.run("snmpget", f"{name}.{index}").strip().partition(" ")[2].strip('"')

    def set(self, name: str, index: int | str, kind: str, value: str) -> str:
        """What the agent said against it; nothing when it agreed."""
        return self.many((name, index, kind, value))

    def many(self, *changes: tuple[str, int | str, str, str]) -> str:
        """The same for several settings in one packet."""
        words = [word for name, index, kind, value in changes for word in (f"{name}.{index}", kind, value)]
        said = self.run("snmpset", *words)
        return said if "Reason" in said or "Timeout" in said else ""

    def walk(self, name: str) -> dict[str, str]:
        """Values by index."""
        found = {}
        for line in self.run("snmpbulkwalk", name).splitlines():
            oid, _, value = line.partition(" ")
            if oid.startswith(f".{name}."):
                found[oid.removeprefix(f".{name}.")] = value.strip('"').strip()
        return found

    def join(self, port: int, vlan: int) -> None:
        """Make a port (of the first eight) an access port of a VLAN, which is made when it is not there."""
        mask = f"{0x80 >> (port - 1):02X}"
        if self.get(ROW, vlan).startswith("No Such"):
            assert self.set(ROW, vlan, "i", CREATE) == ""
        members = f"{int(self.get(EGRESS, vlan).split()[0], 16) | int(mask, 16):02X}"
        assert self.set(PVID, port, "u", str(vlan)) == ""
        assert self.set(EGRESS, vlan, "x", members) == ""
        assert self.set(UNTAGGED, vlan, "x", members) == ""
