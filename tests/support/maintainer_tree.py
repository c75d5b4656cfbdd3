"""The parts of a kernel tree that say who owns a driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

# Answers as get_maintainer.pl of Linux 6.12 does for each file.
SCRIPT = r"""
my $file = $ARGV[-1];
$file = "patch" if $file eq "-";
print "Doug Berger <opendmb\@gmail.com> (supporter:ENTRY OF $file)\n";
print "netdev\@vger.kernel.org (open list:ENTRY OF $file)\nlinux-kernel\@vger.kernel.org (open list)\n";
"""
MAKEFILES = {
    "drivers/net/usb/Makefile": "obj-$(CONFIG_USB_RTL8152)\t+= r8152.o\nobj-$(CONFIG_X) += x-y.o\n",
    "drivers/net/ethernet/realtek/Makefile": "r8169-y\t+= a_main.o r8169_main.o\nobj-$(CONFIG_R8169) += r8169.o\n",
    "drivers/net/ethernet/broadcom/genet/Makefile": "obj-$(CONFIG_BCMGENET) += genet.o\ngenet-objs := bcmgenet.o\n",
}


def maintainer_tree(folder: Path) -> Path:
    """Write the tree into a folder."""
    sources = ("usb/r8152.c", "usb/x-y.c", "ethernet/realtek/r8169_main.c", "ethernet/broadcom/genet/bcmgenet.c")
    files = {
        "MAINTAINERS": "",
        "scripts/get_maintainer.pl": SCRIPT,
        "Makefile": "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION = -rc1\n",
        **MAKEFILES,
        **{f"drivers/net/{name}": "" for name in sources},
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def commit_usb(tree: Path) -> str:
    """Commit the USB drivers of the tree, and return the hash."""
    git = ["git", "-C", str(tree), "-c", "user.name=me", "-c", "user.email=me@localhost"]
    for words in (["init", "-q"], ["add", "drivers/net/usb"], ["commit", "-qm", "usb"]):
        subprocess.run([*git, *words], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
