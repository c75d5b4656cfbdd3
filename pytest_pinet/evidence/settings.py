"""Reads the settings that driver and kernel chose for a device: offloads, rings, coalescing, queues; as texts by name.

If a new build is slower, changed defaults are the first thing to check.
"""

from __future__ import annotations

from pytest_pinet.evidence.running import sysctl_path
from pytest_pinet.execution.shell import Shell

_ETHTOOL = {"-k": "", "-c": "coalescing ", "-g": "ring ", "-a": "pause ", "-l": "channels "}
_SYSCTLS = (
    "net.core.default_qdisc", "net.core.netdev_budget", "net.core.netdev_max_backlog", "net.core.rmem_default",
    "net.core.rmem_max", "net.core.wmem_default", "net.core.wmem_max", "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_sack", "net.ipv4.tcp_timestamps", "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem", "net.ipv4.tcp_limit_output_bytes",
)  # fmt: skip
_MARK = "=="


def read_settings(shell: Shell, device: str) -> dict[str, str]:
    """Read all settings of a device that can be read; empty if none can. Raises SshError."""
    asked = "; ".join(f"echo '{_MARK} {option}'; ethtool {option} {device} 2>/dev/null" for option in _ETHTOOL)
    files = " ".join(sysctl_path(name) for name in _SYSCTLS)
    kernel = f"echo '{_MARK} sysctl'; grep -H . {files} 2>/dev/null"
    qdisc = f"echo '{_MARK} qdisc'; tc qdisc show dev {device} root 2>/dev/null"
    done = shell.run(f"PATH=$PATH:/usr/sbin:/sbin; {asked}; {kernel}; {qdisc}; true")
    return parse_settings(done.stdout)


def parse_settings(text: str) -> dict[str, str]:
    """Return the settings by name. Of a value that is listed twice (supported, then set) the last one counts."""
    found: dict[str, str] = {}
    part = ""
    for line in text.splitlines():
        if line.startswith(_MARK):
            part = line.removeprefix(_MARK).strip()
        elif part == "sysctl":
            path, _, value = line.partition(":")
            found[path.removeprefix("/proc/sys/").replace("/", ".")] = " ".join(value.split())
        elif part == "qdisc":
            words = line.split()
            if len(words) > 1 and words[0] == "qdisc":
                found["qdisc"] = words[1]
        elif part in _ETHTOOL:
            name, colon, value = line.strip().partition(":")
            if colon and value.strip():
                # "off [fixed]", "on [requested off]": the effective value counts.
                found[_ETHTOOL[part] + name.strip()] = value.partition("[")[0].strip()
    return found
