"""Which kernel, driver and firmware a figure belongs to."""

from __future__ import annotations

import re

from pytest_pinet.shell import Shell


def read_serial(shell: Shell) -> str | None:
    """The board's serial number from its device tree; None where it has none. Raises SshError."""
    return parse_serial(shell.run("cat /proc/device-tree/serial-number 2>/dev/null").stdout)


def parse_serial(text: str) -> str | None:
    """What a device tree says, which ends in NUL; None for what cannot be one, such as a message of the shell."""
    serial = text.replace("\x00", "").strip()
    return serial if re.fullmatch(r"[0-9A-Za-z-]{4,64}", serial) else None


def read_build(shell: Shell, device: str) -> dict[str, str | None]:
    """``uname`` (release, version, machine), ``driver``, ``driver_version``, ``firmware`` and ``bus_info``.

    None is what could not be read (no ethtool on the node; a driver that does not tell). Raises SshError.
    """
    uname = shell.run("uname -srvm")
    info = shell.run(f"PATH=$PATH:/usr/sbin:/sbin ethtool -i {device}")
    values = {}
    if info.returncode == 0:
        for line in info.stdout.splitlines():
            key, _, value = line.partition(":")
            values[key.strip()] = value.strip() or None
    return {
        "uname": uname.stdout.strip() or None,
        "driver": values.get("driver"),
        "driver_version": values.get("version"),
        "firmware": values.get("firmware-version"),
        "bus_info": values.get("bus-info"),
    }
