"""The output of lspci and ethtool for a virtual board's PCIe cards, because the board has no PCIe bus."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.virtual.boot_settings import LARGEST_PAYLOAD

# Only the parts of lspci's output that are read. DevCtl shows the payload that selects the link model.
_DEVICE = """\
{address} {title}
{beneath}\tCapabilities: [ac] Express
\t\tDevCap:\tMaxPayload {most} bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr- NonFatalErr- FatalErr- UnsupReq-
\t\t\tMaxPayload {payload} bytes, MaxReadReq 512 bytes

"""
# Prints the same for any option. The real lspci would show the host's devices.
LSPCI = "#!/bin/sh\ncat /run/pinet/lspci\n"
# Adds the PCIe address to `ethtool -i`, because veth has none.
_ETHTOOL = """\
#!/bin/sh
PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
case "$*" in
{cases}*) exec ethtool "$@" ;;
esac
"""
_CASE = "'-i {device}') ethtool \"$@\" | sed 's/^bus-info:.*/bus-info: {address}/' ;;\n"


def address(number: int) -> str:
    """Return the address of the card with this number, from 0. Each card has its own bus."""
    return f"0000:{number + 1:02x}:00.0"


def lspci(cards: int, payload: int) -> str:
    """Return the output of ``lspci -D -vv``: for each card a bridge, and the card behind it."""
    found = ""
    for number in range(cards):
        beneath = f"\tBus: primary=00, secondary={number + 1:02x}, subordinate={number + 1:02x}, sec-latency=0\n"
        words = {"most": LARGEST_PAYLOAD, "payload": payload}
        bridge = f"0000:00:{number:02x}.0"
        found += _DEVICE.format(address=bridge, title="PCI bridge: virtual", beneath=beneath, **words)
        found += _DEVICE.format(address=address(number), title="Ethernet controller: virtual", beneath="", **words)
    return found


def ethtool(cards: Sequence[str]) -> str:
    """Return the script that replaces ethtool for these devices."""
    return _ETHTOOL.format(
        cases="".join(_CASE.format(device=card, address=address(number)) for number, card in enumerate(cards))
    )
