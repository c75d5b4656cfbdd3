"""The SNMP secrets of virtual switches. Each lab gets new ones, so that only readers of its directory have access."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass

# The only community that labgrid's poe_mib uses. It gives access only to the PoE switching of ports, and only from
# the relay's address.
POE_COMMUNITY = "private"
POE_SOURCE = "127.0.0.2"


@dataclass(frozen=True)
class SnmpAccess:
    """Communities of SNMPv2c, and an SNMPv3 user with authentication (SHA-256) and privacy (AES)."""

    write: str
    read: str
    user: str
    auth: str
    priv: str

    @classmethod
    def make(cls) -> SnmpAccess:
        return cls("rw-" + secrets.token_hex(12), "ro-" + secrets.token_hex(12), "pinet", *_passwords())

    def to_json(self) -> dict[str, str]:
        return asdict(self)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which a lab file's ``!template`` entries find the secrets."""
        return {
            "LG_SNMP_COMMUNITY": self.write,
            "LG_SNMP_READ_COMMUNITY": self.read,
            "LG_SNMP_USER": self.user,
            "LG_SNMP_AUTH_KEY": self.auth,
            "LG_SNMP_PRIV_KEY": self.priv,
        }


def _passwords() -> tuple[str, str]:
    return secrets.token_hex(12), secrets.token_hex(12)
