"""Reads what an end runs: kernel, modules, driver, firmware, and its serial number."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from pytest_pinet.errors import SshError
from pytest_pinet.evidence.elf import build_id
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
    "boot_id": "cat /proc/sys/kernel/random/boot_id",
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
        boot_id=found.get("boot_id") or None,
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
