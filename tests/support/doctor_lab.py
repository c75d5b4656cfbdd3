"""A lab of one Pi 4 B with a USB NIC and one CM4 with a PCIe NIC."""

from __future__ import annotations

from pathlib import Path

from pytest_pinet.config.labfile import load
from pytest_pinet.model.lab import Lab

LAB_FILE = """\
# The lab of the doctor's tests.
pinet:
  switches:
    s: {backend: fixed, ports: p1-p9}
  nodes:
    one:
      board: pi4b
      interfaces:
        onboard: {port: s/p1}     # the board's own
        usb: {nic: ax88179, port: "s/p2"}
    two:
      board: cm4
      interfaces:
        onboard:
          port: 's/p3'
        pcie: {nic: aqc107, port: s/p4}
"""


def lab(folder: Path) -> Lab:
    """Return the lab, after writing its file into this folder."""
    file = folder / "lab.yaml"
    file.write_text(LAB_FILE)
    return load(file)
