"""The PCIe side of a virtual board's cards, as the tools of a real one tell it: they have no bus of their own."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.virtual.boot_settings import LARGEST_PAYLOAD

# Of lspci's words only those that somebody reads; the payload that the link model goes by is what devices use.
_DEVICE = """\
{address} {title}
{beneath}\tCapabilities: [ac] Express
\t\tDevCap:\tMaxPayload {most} bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr- NonFatalErr- FatalErr- UnsupReq-
\t\t\tMaxPayload {payload} bytes, MaxReadReq 512 bytes

"""
# Whatever is asked: the machine that carries the board has devices of its own, which are not the board's.
LSPCI = "#!/bin/sh\ncat /run/pinet/lspci\n"
# Its driver tells where a card is plugged in, and veth has nothing to tell.
_ETHTOOL = """\
#!/bin/sh
PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
case "$*" in
{cases}*) exec ethtool "$@" ;;
esac
"""
_CASE = "'-i {device}') ethtool \"$@\" | sed 's/^bus-info:.*/bus-info: {address}/' ;;\n"


def address(number: int) -> str:
    """Of the card with this number, from 0: each has a bus of its own."""
    return f"0000:{number + 1:02x}:00.0"


def lspci(cards: int, payload: int) -> str:
    """What ``lspci -D -vv`` tells: a bridge for each card, and the card behind it."""
    found = ""
    for number in range(cards):
        beneath = f"\tBus: primary=00, secondary={number + 1:02x}, subordinate={number + 1:02x}, sec-latency=0\n"
        words = {"most": LARGEST_PAYLOAD, "payload": payload}
        bridge = f"0000:00:{number:02x}.0"
        found += _DEVICE.format(address=bridge, title="PCI bridge: virtual", beneath=beneath, **words)
        found += _DEVICE.format(address=address(number), title="Ethernet controller: virtual", beneath="", **words)
    return found


def ethtool(cards: Sequence[str]) -> str:
    """The command that stands before the real one, for these devices."""
    return _ETHTOOL.format(
        cases="".join(_CASE.format(device=card, address=address(number)) for number, card in enumerate(cards))
    )
