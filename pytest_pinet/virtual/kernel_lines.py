"""Console messages of a kernel panic, as arm64 kernels of Raspberry Pi OS print them."""

from __future__ import annotations

import os

_TRACE = """\
Hardware name: {title} (DT)
Call trace:
 dump_backtrace+0x0/0x1b0
 show_stack+0x20/0x30
 dump_stack_lvl+0x8c/0xb8
 dump_stack+0x18/0x34
 panic+0x184/0x384"""
_BOOT = """\
VFS: Cannot open root device "mmcblk0p2" or unknown-block(179,2): error -6
Please append a correct "root=" boot option; here are the available partitions:
Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(179,2)
CPU: 2 PID: 1 Comm: swapper/0 Not tainted {release} #1
{trace}
 mount_block_root+0x1d4/0x2a0
 prepare_namespace+0x13c/0x174
 kernel_init_freeable+0x288/0x2b8
 kernel_init+0x2c/0x140
 ret_from_fork+0x10/0x20
SMP: stopping secondary CPUs
Kernel Offset: disabled
CPU features: 0x0,80000000,2800421a
Memory Limit: none
---[ end Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(179,2) ]---"""
_TRAFFIC = """\
Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010
Internal error: Oops: 0000000096000005 [#1] PREEMPT SMP
CPU: 1 PID: 0 Comm: swapper/1 Not tainted {release} #1
{trace}
 skb_release_data+0x7c/0x1f0
 __kfree_skb+0x34/0x44
 napi_consume_skb+0x54/0x110
 net_rx_action+0x184/0x2d4
 __do_softirq+0x11c/0x3ec
Kernel panic - not syncing: Oops: Fatal exception in interrupt
SMP: stopping secondary CPUs
Kernel Offset: disabled
Memory Limit: none
---[ end Kernel panic - not syncing: Oops: Fatal exception in interrupt ]---"""


def panic_at_boot(title: str) -> list[str]:
    """Return the messages of a panic because the root file system is missing."""
    return _filled(_BOOT, title)


def panic_in_traffic(title: str) -> list[str]:
    """Return the messages of a panic because of a NULL pointer in the receive interrupt."""
    return _filled(_TRAFFIC, title)


def stamped(lines: list[str], since_boot_s: float) -> str:
    """Format kernel messages for the console. ``since_boot_s`` is the time of the first message."""
    return "".join(f"[{since_boot_s + 2e-5 * index:12.6f}] {line}\n" for index, line in enumerate(lines))


def _filled(text: str, title: str) -> list[str]:
    release = os.uname().release
    trace = _TRACE.format(title=title)
    return text.format(release=release, trace=trace).splitlines()
