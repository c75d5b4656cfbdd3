"""Finds the interrupts of a NIC: by the names in /proc/interrupts, else in sysfs, from its device upwards."""

from __future__ import annotations

import re

_LEVEL = "at "
_ACTION = re.compile(r"([0-9]{1,9}) (.*)")


def interrupts_script(device: str, root: str = "") -> str:
    """Return a command whose output `parse_interrupts` reads. ``root`` is before the paths of proc and sysfs.

    It prints the device and each device above it: its interrupt, itself, its USB buses and its message-signalled
    interrupts. Then it prints /proc/interrupts without counts. The shell reads the files itself: a slow board takes
    long for each process.
    """
    return (
        f"echo '{_LEVEL}0 {device}'; p={root}/sys/class/net/{device}/device; [ ! -e $p ] || p=$(readlink -f $p);"
        ' while [ -e "$p" ]; do i=0; [ ! -r $p/irq ] || read -r i <$p/irq;'
        f' echo "{_LEVEL}$i" $p $p/usb[0-9]* $p/msi_irqs/*; p=${{p%/*}}; done;'
        f" sed -n 's/^ *\\([0-9][0-9]*\\):[ 0-9]*/\\1 /p' {root}/proc/interrupts"
    )


def parse_interrupts(text: str) -> list[str]:
    """Return the numbers of the interrupts of the NIC, the lowest first; none if no interrupt is known to be its own.

    The nearest device with interrupts counts: the NIC (``eth0-rx-0``), its place on the bus (``virtio0-input.0``,
    ``mlx5_comp0@pci:0000:01:00.0``), or the host controller of a USB NIC (``xhci_hcd``, ``xhci-hcd:usb1``).
    """
    levels: list[list[str]] = []
    actions: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith(_LEVEL):
            levels.append([word.rpartition("/")[2] for word in line.removeprefix(_LEVEL).split()])
        elif found := _ACTION.fullmatch(line):
            actions[found[1]] = found[2]
    # A device without an interrupt reports 0.
    actions.pop("0", None)
    for names in levels:
        words = "|".join(re.escape(name) for name in names if not name.isdigit())
        named = re.compile(rf"(?:^|[\s,@:])(?:{words})(?=$|[\s,@:-])")
        own = [number for number, action in actions.items() if number in names or (words and named.search(action))]
        if own:
            return sorted(own, key=int)
    return []
