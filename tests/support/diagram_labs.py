"""Labs for tests of diagrams: the virtual one, one with several switches and unusual names, one with fifty nodes."""

from __future__ import annotations

from pathlib import Path

from pytest_pinet.config import labfile
from pytest_pinet.model.lab import Lab

ROOT = Path(__file__).parents[2]

SWITCHES = """\
pinet:
  name: several
  switches:
    core: {backend: fixed, ports: p1-p24}
    rack-a: {backend: fixed, ports: [Gi1/0/1, Gi1/0/2, Gi1/0/3, Gi1/0/4, Gi1/0/5, Gi1/0/8]}
    rack-b: {backend: linux, address: "ssh://root@10.0.0.2:22", ports: p1-p8}
  nodes:
    a: {board: pi4b, interfaces: {onboard: {port: core/p1}, usb: {nic: ax88179, port: rack-a/Gi1/0/1}}}
    b: {board: pi4b, interfaces: {onboard: {port: rack-a/Gi1/0/2}, usb: {nic: ax88179, port: core/p2}}}
    c: {board: pi5, interfaces: {onboard: {port: rack-a/Gi1/0/3}, pcie: {nic: rtl8125, port: rack-b/p3}}}
    d: {board: pi5, interfaces: {onboard: {port: rack-b/p1}}}
    a-node-of-the-second-rack-with-an-uncommonly-long-name:
      board: cm4
      interfaces: {onboard: {port: rack-b/p2}, the-ten-gigabit-card: {nic: aqc107, port: rack-b/p4}}
  uplinks:
    trunk-a: {ports: [core/p23, rack-a/Gi1/0/8], speed: 1 Gbit/s}
    trunk-b: {ports: [core/p24, rack-b/p8], speed: 10 Gbit/s}
  domains:
    rack: [a, b]
    air: [c, d]
"""
_NODE = (
    "    n{0:02}: {{board: pi4b, interfaces: {{onboard: {{port: sw/p{1}}}, usb: {{nic: ax88179, port: sw/p{2}}}}}}}\n"
)
FIFTY = "pinet:\n  name: fifty\n  switches:\n    sw: {backend: fixed, ports: p1-p128}\n  nodes:\n" + "".join(
    _NODE.format(number, 2 * number + 1, 2 * number + 2) for number in range(50)
)


def virtual_lab() -> Lab:
    return labfile.load(ROOT / "lab" / "virtual.yaml")


def lab_of(folder: Path, text: str) -> Lab:
    file = folder / "lab.yaml"
    file.write_text(text)
    return labfile.load(file)
