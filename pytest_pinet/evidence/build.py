"""Reads the kernel, driver and firmware that a value was measured with."""

from __future__ import annotations

import re

from pytest_pinet.execution.shell import Shell


def read_serial(shell: Shell) -> str | None:
    """Return the board's serial number from its device tree; None if the device tree has none. Raises SshError."""
    return parse_serial(shell.run("cat /proc/device-tree/serial-number 2>/dev/null").stdout)


def parse_serial(text: str) -> str | None:
    """Parse the NUL-terminated serial number of a device tree; None for other text, such as a shell message."""
    serial = text.replace("\x00", "").strip()
    return serial if re.fullmatch(r"[0-9A-Za-z-]{4,64}", serial) else None


def read_build(shell: Shell, device: str) -> dict[str, str | None]:
    """Return ``uname`` (release, version, machine), ``driver``, ``driver_version``, ``firmware`` and ``bus_info``.

    A value is None if it cannot be read: the node has no ethtool, or the driver does not report the value. Raises
    SshError.
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
