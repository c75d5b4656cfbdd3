"""A host of a virtual switch in a tagged VLAN, without 802.1Q in this machine's kernel.

The host's interface is a tap. This process adds the tag to its frames and sends them by the bridge, and removes the tag
from frames of this VLAN that the bridge delivers. ssh needs no more than this.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
from contextlib import suppress

from pytest_pinet.virtual.namespaces import NetNamespace, ip
from pytest_pinet.virtual.spec import BRIDGE

_ETH_P_ALL, _8021Q = 0x0003, 0x8100
_SOL_PACKET, _AUXDATA, _VNET_HDR = 263, 8, 15
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x400454CA, 0x0002, 0x1000, 0x4000
# struct tpacket_auxdata of <linux/if_packet.h>: status, lengths and offsets, the VLAN's tag and its type.
_AUX = struct.Struct("IIIHHHH")
_VLAN_VALID = 1 << 4
# struct virtio_net_hdr: offloads of a frame that is larger than the MTU, or has no checksum yet.
_OFFLOADS = 10
_MACS = 12
_LARGEST = 70_000


class TaggedHost:
    """The interface of the switch's own host in one VLAN."""

    def __init__(self, namespace: NetNamespace, vlan: int, address: str) -> None:
        self._namespace = namespace
        self._vlan = vlan
        self._address = address
        self._tap = -1
        self._bridge: socket.socket | None = None

    async def build(self) -> None:
        """Create the interface and start to forward. The bridge must exist. Raises LabError."""
        device = f"vlan{self._vlan}"
        with self._namespace.entered():
            self._tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
            fcntl.ioctl(self._tap, _TUNSETIFF, struct.pack("16sH22x", device.encode(), flags))
            bridge = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(_ETH_P_ALL))
        self._bridge = bridge
        bridge.bind((BRIDGE, _ETH_P_ALL))
        for option in (_AUXDATA, _VNET_HDR):
            bridge.setsockopt(_SOL_PACKET, option, 1)
        # A bridge delivers only frames to its own address.
        mac = ":".join(f"{byte:02x}" for byte in bridge.getsockname()[4])
        await ip(
            self._namespace,
            [f"link set dev {device} address {mac} up", f"address add {self._address} dev {device}"],
        )
        loop = asyncio.get_running_loop()
        loop.add_reader(self._tap, self._send)
        loop.add_reader(bridge.fileno(), self._receive)

    def close(self) -> None:
        """Stop forwarding. The interface ends."""
        loop = asyncio.get_running_loop()
        if self._bridge is not None:
            loop.remove_reader(self._bridge.fileno())
            self._bridge.close()
            self._bridge = None
        if self._tap >= 0:
            loop.remove_reader(self._tap)
            os.close(self._tap)
            self._tap = -1

    def _send(self) -> None:
        assert self._bridge is not None
        # A full queue drops frames, as a wire does.
        with suppress(OSError):
            frame = os.read(self._tap, _LARGEST)
            head, rest = frame[: _OFFLOADS + _MACS], frame[_OFFLOADS + _MACS :]
            self._bridge.send(head + struct.pack("!HH", _8021Q, self._vlan) + rest)

    def _receive(self) -> None:
        assert self._bridge is not None
        with suppress(OSError):
            frame, ancillary, _, address = self._bridge.recvmsg(_LARGEST, socket.CMSG_SPACE(_AUX.size))
            if address[2] == socket.PACKET_OUTGOING:
                return
            for level, kind, data in ancillary:
                if (level, kind) != (_SOL_PACKET, _AUXDATA):
                    continue
                status, *_, tag, _ = _AUX.unpack(data[: _AUX.size])
                if status & _VLAN_VALID and tag & 0xFFF == self._vlan:
                    os.write(self._tap, frame)
