"""Missing kernel features for a virtual lab are reported before the start. The check runs in a real namespace."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import LabError
from pytest_pinet.virtual import requirements
from pytest_pinet.virtual.requirements import FEATURES, KernelFeature, as_root, check_kernel
from pytest_pinet.virtual.spec import LabSpec, spec_of

LAB_FILE = """\
pinet:
  name: kernel
  launcher: virtual
  switches:
    sw: {backend: linux, address: "ssh://root@127.0.0.1:1", ports: p1-p3}
  nodes:
    plain: {board: pi4b, interfaces: {onboard: {port: sw/p1}}}
"""
USB_2 = "    usb2: {board: pi3b, interfaces: {usb: {nic: ax88179, port: sw/p2}}}\n"
USB_3 = "    usb3: {board: pi4b, interfaces: {usb: {nic: ax88179, port: sw/p3}}}\n"
# No kernel has this feature.
NEVER = "tc qdisc add dev lo root no-such-qdisc"


def lab(folder: Path, *more: str) -> LabSpec:
    (folder / "lab.yaml").write_text(LAB_FILE + "".join(more))
    return spec_of(load(folder / "lab.yaml"))


def without(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    there = FEATURES[name]
    lacking = {**FEATURES, name: KernelFeature(there.config, NEVER, there.charged)}
    monkeypatch.setattr(requirements, "FEATURES", lacking)


def test_this_kernel_supports_every_link_model(tmp_path: Path) -> None:
    check_kernel(lab(tmp_path, USB_2, USB_3), as_root())


def test_a_kernel_without_bpf_does_not_support_usb_3_adapters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "cls_bpf")
    with pytest.raises(LabError) as raised:
        check_kernel(lab(tmp_path, USB_2, USB_3), as_root())
    assert raised.value.message == (
        "this kernel lacks features that the virtual lab needs: cls_bpf for usb3:usb (link model usb3-ax88179)"
    )
    assert raised.value.act == (
        "modprobe cls_bpf, or use a kernel with CONFIG_NET_CLS_BPF, or remove these NICs from the lab file"
    )


def test_a_missing_feature_does_not_matter_for_other_labs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "cls_bpf")
    check_kernel(lab(tmp_path, USB_2), as_root())
    without(monkeypatch, "ifb")
    check_kernel(lab(tmp_path), as_root())


def test_every_missing_feature_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lacking = {name: KernelFeature(one.config, NEVER, one.charged) for name, one in FEATURES.items()}
    monkeypatch.setattr(requirements, "FEATURES", lacking)
    with pytest.raises(LabError, match=r"ifb for usb2:usb \(.*\); act_mirred for usb2:usb .*; cls_bpf for usb3:usb"):
        check_kernel(lab(tmp_path, USB_2, USB_3), as_root())
