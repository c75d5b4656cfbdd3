"""Reads what an end runs, from kernel to firmware, and the settings that may change what is measured."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from pytest_pinet.errors import SshError
from pytest_pinet.evidence.elf import build_id
from pytest_pinet.execution.nic_interrupts import interrupts_script, parse_interrupts
from pytest_pinet.execution.shell import Shell, as_root, last_line
from pytest_pinet.model.build import Loaded, RunningBuild


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
    values = _nics(f"nic: {device}\n{info.stdout}")[device] if info.returncode == 0 else {}
    return {
        "uname": uname.stdout.strip() or None,
        "driver": values.get("driver"),
        "driver_version": values.get("version"),
        "firmware": values.get("firmware-version"),
        "bus_info": values.get("bus-info"),
    }


TIMEOUT_S = 30.0
# Before the name and the output of each part of a script.
MARK = "=====8<====="
_SYSCTL = re.compile(r"[A-Za-z0-9_./-]+")
# Prints name and srcversion, "-" if it cannot be read. The shell reads the files itself: one process per module took
# longer on a slow board than all other commands.
_MODULES = (
    "for d in /sys/module/*/; do [ -e ${d}initstate ] || continue; n=${d%/}; s=-;"
    ' [ ! -r ${d}srcversion ] || read -r s < ${d}srcversion; echo "${n##*/} $s"; done'
)
# A shell function that prints its input in hexadecimal. Not every board has od.
HEX = (
    "hex() { { if command -v od >/dev/null; then od -An -v -tx1; elif command -v hexdump >/dev/null;"
    " then hexdump -v -e '1/1 \"%02x\"'; else xxd -p; fi; } | tr -d ' \\n'; }"
)
# The notes with the build IDs, each after a line with its file name, all in hexadecimal. Not every head has -v.
_NOTES = (
    'set -- /sys/module/*/notes/.note.gnu.build-id; if head -v -c 1 /dev/null >/dev/null; then head -v -c 4096 "$@";'
    ' else for f; do echo "==> $f <=="; cat $f; done; fi | hex'
)
_NOTE = re.compile(rb"==> /sys/module/([^/\n]+)/notes/\.note\.gnu\.build-id <==\n")
_NICS = 'for d in /sys/class/net/*; do [ -e $d/device ] || continue; echo "nic: ${d##*/}"; ethtool -i ${d##*/}; done'
# The commands of what most boards report, by name; after HEX.
PARTS = {
    "uname": "uname -a",
    "version": "cat /proc/version",
    "cmdline": "cat /proc/cmdline",
    "notes": "hex < /sys/kernel/notes",
    "model": "tr -d '\\0' < /proc/device-tree/model",
    "serial": "tr -d '\\0' < /proc/device-tree/serial-number",
    "partition": "hex < /proc/device-tree/chosen/bootloader/partition",
    "firmware": "vcgencmd version",
    "eeprom": "vcgencmd bootloader_version",
    "modules": _MODULES,
    "module_notes": _NOTES,
    "nics": _NICS,
}


def read_running(shell: Shell, options: Iterable[tuple[str, str]] = (), sysctls: Iterable[str] = ()) -> RunningBuild:
    """Read the build that runs, and the values of module parameters and sysctls. Raises SshError.

    ``options`` are pairs of module and parameter.
    """
    parts = dict(PARTS)
    for module, parameter in options:
        parts[f"option {module}.{parameter}"] = f"cat {shlex.quote(f'/sys/module/{module}/parameters/{parameter}')}"
    for name in sysctls:
        if _SYSCTL.fullmatch(name):
            parts[f"sysctl {name}"] = f"cat {shlex.quote(sysctl_path(name))}"
    script = f"LC_ALL=C; export LC_ALL; PATH=$PATH:/usr/sbin:/sbin; {HEX}; {marked(parts)}"
    # Some parameters and sysctls are readable for root only.
    done = shell.run(as_root(script), timeout_s=TIMEOUT_S)
    found = {name: text.strip() for name, text in split_marked(done.stdout).items()}
    if not found.get("version"):
        raise SshError(
            f"{shell.name} does not report its kernel version: {last_line(done.stderr)[:200]}", f"look at {shell.name}"
        )
    return RunningBuild(
        node=shell.name,
        uname=found.get("uname", ""),
        version=found["version"],
        cmdline=found.get("cmdline", ""),
        build_id=parse_notes(found.get("notes", "")),
        model=_text(found.get("model")),
        serial=parse_serial(found.get("serial", "")),
        partition=hexadecimal(found.get("partition", "")),
        firmware=_text(found.get("firmware")),
        eeprom=_text(found.get("eeprom")),
        modules=_loaded(found.get("modules", ""), found.get("module_notes", "")),
        nics=_nics(found.get("nics", "")),
        parameters={
            name[len("option ") :]: text for name, text in found.items() if name.startswith("option ") and text
        },
        sysctls={name[len("sysctl ") :]: text for name, text in found.items() if name.startswith("sysctl ") and text},
    )


def hexadecimal(text: str) -> int | None:
    """Return the number of a property of the device tree; None if the board has no such property."""
    return int(text, 16) if re.fullmatch("[0-9a-f]{1,16}", text) else None


def sysctl_path(name: str) -> str:
    """Return the file of a sysctl. In ``net.ipv4.conf.eth0.rp_filter`` each dot becomes a slash."""
    return "/proc/sys/" + name.replace(".", "/")


def marked(commands: Mapping[str, str]) -> str:
    """Return a script that runs named commands, for ``split_marked``."""
    return "; ".join(f"echo '{MARK}{name}'; {{ {command}; }} 2>/dev/null" for name, command in commands.items())


def split_marked(output: str) -> dict[str, str]:
    """Return the output of each command of such a script by its name."""
    parts = (block.partition("\n") for block in output.split(MARK)[1:])
    return {name: text for name, _, text in parts}


def _text(output: str | None) -> str | None:
    """Return a tool's output on one line; None for an error message, such as the firmware's "does not know"."""
    line = " ".join((output or "").split())
    return line if line and "does not know" not in line and "error=" not in line else None


def _loaded(text: str, notes: str) -> dict[str, Loaded]:
    try:
        parts = _NOTE.split(bytes.fromhex(notes))
    except ValueError:
        parts = [b""]
    ids = {name.decode(): build_id(note) for name, note in zip(parts[1::2], parts[2::2], strict=True)}
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2:
            name, source = words
            found[name] = Loaded(None if source == "-" else source, ids.get(name))
    return found


def parse_notes(hexadecimal: str) -> str | None:
    """Return the build ID in the notes of a kernel; None if there is none."""
    try:
        return build_id(bytes.fromhex(hexadecimal))
    except ValueError:
        return None


def _nics(text: str) -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {}
    device = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == "nic":
            device = value.strip()
            found[device] = {}
        elif device and key.strip() in ("driver", "version", "firmware-version", "bus-info"):
            found[device][key.strip()] = value.strip() or None
    return found


# Settings that may change what is measured. If a new build is slower, changed defaults are the first thing to check.
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
        "Wi-Fi": f"[ ! -e /sys/class/net/{device}/phy80211 ] || for of in link info 'get power_save'; "
        f"do iw dev {device} $of; done",
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
    elif part == "Wi-Fi":
        yield from _of_wifi(output)
    elif part == "qdiscs":
        yield part, _qdiscs(output)
    elif part == "governor":
        of_policies = output.split()
        yield part, of_policies[0] if len(set(of_policies)) == 1 else " ".join(of_policies)
    else:
        yield part, " ".join(output.split())


def _of_wifi(output: str) -> Iterator[tuple[str, str]]:
    """Yield signal, channel and power saving, of ``iw dev DEVICE link``, ``info`` and ``get power_save``."""
    for line in output.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "signal:" and (strength := re.match(r"-?[0-9]{1,3}(?= dBm)", rest)):
            # It changes by the moment: tens of decibels tell a near access point from a far one.
            yield "Wi-Fi signal", f"about {round(int(strength[0]), -1)} dBm"
        elif word == "channel":
            yield "Wi-Fi channel", rest.partition(", center")[0]
        elif word == "Power" and rest.startswith("save: "):
            yield "Wi-Fi power save", rest.removeprefix("save: ")


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
