"""Reads the settings of an end that may change what is measured: what driver, kernel and users chose.

If a new build is slower, changed default settings are the first thing to check.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from pytest_pinet.evidence.build import TIMEOUT_S, marked, split_marked, sysctl_path
from pytest_pinet.execution.nic_interrupts import interrupts_script, parse_interrupts
from pytest_pinet.execution.shell import Shell

_ETHTOOL = {"-k": "", "-c": "coalescing ", "-g": "ring ", "-a": "pause ", "-l": "channels "}
_SYSCTLS = (
    "net.core.busy_poll", "net.core.default_qdisc", "net.core.netdev_budget", "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog", "net.core.rmem_default", "net.core.rmem_max", "net.core.rps_sock_flow_entries",
    "net.core.wmem_default", "net.core.wmem_max", "net.ipv4.tcp_congestion_control", "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_moderate_rcvbuf", "net.ipv4.tcp_rmem", "net.ipv4.tcp_sack", "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling", "net.ipv4.tcp_wmem",
)  # fmt: skip
_OF_DEVICE = "napi_defer_hard_irqs gro_flush_timeout threaded queues/*/[rx]ps_cpus queues/*/rps_flow_cnt"
_OF_DRIVER = {"driver": "driver", "version": "driver version", "firmware-version": "NIC firmware"}
# What tc prints beside settings: handles, references, counters, and random numbers.
_NO_SETTING = re.compile(r" (?:parent|refcnt|direct_packets_stat|seed) \S+| -+$")
_QDISC = re.compile(r"qdisc (\S+) \S+(.*)")


def read_end(shell: Shell, device: str) -> dict[str, str]:
    """Read all settings of an end by one command. Raises SshError."""
    done = shell.run(f"PATH=$PATH:/usr/sbin:/sbin; {marked(settings_commands(device))}; true", timeout_s=TIMEOUT_S)
    return parse_settings(done.stdout)


def settings_commands(device: str) -> dict[str, str]:
    """Return the commands whose output `parse_settings` reads, by the name of the part."""
    return {
        **{option: f"ethtool {option} {device}" for option in _ETHTOOL},
        "sysctls": f"grep -H . {' '.join(map(sysctl_path, _SYSCTLS))}",
        "device": f"cd /sys/class/net/{device} && grep -H . {_OF_DEVICE}",
        "qdiscs": f"tc qdisc show dev {device}",
        "command line": "cat /proc/cmdline",
        "kernel": "uname -rv",
        "governor": "cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
        "firmware": "vcgencmd version | grep version",
        "eeprom": "vcgencmd bootloader_version | grep version",
        "EEE": f"ethtool --show-eee {device}",
        "driver": f"ethtool -i {device}",
        "interrupts": interrupts_script(device),
        "affinity": "grep -H . /proc/irq/*/smp_affinity_list",
    }


def parse_settings(text: str) -> dict[str, str]:
    """Return the settings that the end reports, by name.

    Two releases must not record a setting in two forms by the same name: that would look like a change.
    """
    parts = split_marked(text)
    # Of a value that is listed twice (supported, then set) the last one counts.
    found = {name: value for part, output in parts.items() for name, value in _of_part(part, output) if value}
    masks = dict(_pairs(parts.get("affinity", "")))
    numbers = parse_interrupts(parts.get("interrupts", ""))
    cpus = [masks[path] for n in numbers if (path := f"/proc/irq/{n}/smp_affinity_list") in masks]
    return {**found, "IRQ CPUs": " ".join(cpus)} if cpus else found


def _of_part(part: str, output: str) -> Iterator[tuple[str, str]]:
    if part in ("interrupts", "affinity"):
        return
    if part in _ETHTOOL:
        for name, value in _pairs(output):
            # "off [fixed]", "on [requested off]": the effective value counts.
            yield _ETHTOOL[part] + name, value.partition("[")[0].strip()
    elif part == "sysctls":
        for path, value in _pairs(output):
            yield path.removeprefix("/proc/sys/").replace("/", "."), " ".join(value.split())
    elif part == "device":
        for path, value in _pairs(output):
            yield path.removeprefix("queues/").replace("_cpus", " CPUs"), value
    elif part == "driver":
        yield from ((_OF_DRIVER[key], value) for key, value in _pairs(output) if key in _OF_DRIVER)
    elif part == "EEE":
        status = next((line for line in output.splitlines() if "EEE status" in line), "")
        # Whether a link that is up uses it now ("active") changes by the moment.
        yield part, status.partition(":")[2].partition("-")[0].strip()
    elif part == "qdiscs":
        yield part, _qdiscs(output)
    elif part == "governor":
        of_policies = output.split()
        yield part, of_policies[0] if len(set(of_policies)) == 1 else " ".join(of_policies)
    else:
        yield part, " ".join(output.split())


def _pairs(output: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each line, such as ``rx-usecs: 50`` of ethtool or ``/proc/...:1`` of grep."""
    for line in output.splitlines():
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()


def _qdiscs(output: str) -> str:
    """Return the queueing disciplines with their options, the root first; equal ones once, with their number."""
    whole = (f"{found[1]}{found[2].rstrip()}" for line in output.splitlines() if (found := _QDISC.match(line)))
    counts = Counter(_NO_SETTING.sub("", one) for one in whole)
    return "; ".join(one if count == 1 else f"{count} {one}" for one, count in counts.items())
