"""Packages, archives, modules and cards of emulated boards, read and written without root."""

from __future__ import annotations

import gzip
import io
import lzma
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_pinet.emulated.card import BOOT_START, FLAG_AT, list_boot, make_card, read_boot, take_flag, write_boot
from pytest_pinet.emulated.packages import KernelPackage, arm64_image, dependencies, open_package
from pytest_pinet.emulated.rootfs import Archive, System, boot_modules, guest_file, make_root
from pytest_pinet.errors import LabError

IMAGE = bytes(0x38) + b"ARMd" + bytes(64)


def package(path: Path, files: Mapping[str, bytes | str], pack: str = "xz") -> Path:
    """Write a real ``.deb``: an ar archive with a tar. A text is the target of a link."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"./{name}")
            if isinstance(data, str):
                member.type, member.linkname = tarfile.SYMTYPE, data
                archive.addfile(member)
            else:
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    data = lzma.compress(tar.getvalue()) if pack == "xz" else gzip.compress(tar.getvalue())
    parts = [("debian-binary", b"2.0\n"), (f"data.tar.{pack}", data)]
    body = b"!<arch>\n"
    for name, content in parts:
        body += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content
        body += b"\n" * (len(content) % 2)
    path.write_bytes(body)
    return path


def module(*depends: str) -> bytes:
    return b"\x7fELF" + b"license=GPL\0depends=" + ",".join(depends).encode() + b"\0vermagic=x\0"


@pytest.mark.parametrize("pack", ["xz", "gz"])
def test_a_package_is_read_without_dpkg(tmp_path: Path, pack: str) -> None:
    found = open_package(package(tmp_path / "a.deb", {"usr/bin/odd": b"odd", "etc/x": b"even"}, pack))
    file = found.extractfile("./usr/bin/odd")
    assert file is not None
    assert file.read() == b"odd"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"PK", "is not a Debian package"), (b"!<arch>\n" + b"x" * 60, "is damaged"), (b"!<arch>\n", "no data.tar")],
)
def test_a_file_that_is_not_a_package_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.deb").write_bytes(content)
    with pytest.raises(LabError, match=message):
        open_package(tmp_path / "a.deb")


def test_a_package_that_has_the_folders_of_before_the_usr_merge_as_links_is_unpacked(tmp_path: Path) -> None:
    # As base-files of Debian 13. Other packages still have files in these folders.
    base = package(tmp_path / "base.deb", {"bin": "usr/bin", "lib64": "usr/lib64", "usr/bin/busybox": b"busybox"})
    old = package(tmp_path / "old.deb", {"bin/old": b"old"})
    root = tmp_path / "root"
    make_root(root, [base, old], System((), {}, {}))
    assert (root / "bin").readlink() == Path("usr/bin")
    assert [(root / "bin" / name).read_bytes() for name in ("busybox", "old")] == [b"busybox", b"old"]


def test_modules_are_installed_with_their_dependencies(tmp_path: Path) -> None:
    if shutil.which("depmod", path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
        pytest.skip("depmod (package kmod) is missing")
    folder = "lib/modules/6.9/kernel"
    files = {
        "boot/vmlinuz-6.9": IMAGE,
        f"{folder}/drivers/net/ethernet/intel/e1000e/e1000e.ko": module("ptp-help"),
        f"{folder}/lib/ptp-help.ko.xz": lzma.compress(module("deepest")),
        f"{folder}/lib/deepest.ko": module(),
        f"{folder}/sound/noise.ko": module(),
        "lib/modules/6.9/modules.builtin": b"",
    }
    kernel = KernelPackage(package(tmp_path / "linux-image.deb", files))
    assert kernel.release == "6.9"
    assert kernel.image() == IMAGE
    (tmp_path / "usr" / "lib").mkdir(parents=True)
    installed = kernel.install_modules(tmp_path)
    assert sorted(path.name for path in installed.rglob("*.ko*")) == ["deepest.ko", "e1000e.ko", "ptp-help.ko.xz"]


def test_dependencies_are_read_from_modinfo() -> None:
    assert dependencies(module("a-b", "c")) == ["a_b", "c"]
    assert dependencies(lzma.compress(module("c"))) == ["c"]
    assert dependencies(module()) == []


def test_boot_modules_are_selected_with_their_dependencies(tmp_path: Path) -> None:
    (tmp_path / "modules.dep").write_text(
        "k/virtio_blk.ko: k/virtio.ko\nk/ext4.ko:\nk/bcm2835.ko:\nk/virtio.ko:\nk/other.ko:\n"
    )
    assert boot_modules(tmp_path) == ["k/virtio_blk.ko", "k/virtio.ko", "k/bcm2835.ko", "k/ext4.ko"]


def test_an_efi_zboot_image_is_unpacked() -> None:
    packed = gzip.compress(IMAGE)
    zboot = b"MZ\0\0zimg" + (64).to_bytes(4, "little") + len(packed).to_bytes(4, "little") + bytes(8) + b"gzip\0"
    assert arm64_image(zboot.ljust(64, b"\0") + packed, "vmlinuz") == IMAGE
    assert arm64_image(packed, "vmlinuz") == IMAGE
    with pytest.raises(LabError, match="compressed with zstd; expected gzip, xz, lzma or zstd"):
        arm64_image(zboot.replace(b"gzip", b"zstd").ljust(64, b"\0"), "vmlinuz")
    with pytest.raises(LabError, match=r"vmlinuz is not an arm64 kernel: .* at offset 0x38"):
        arm64_image(bytes(128), "vmlinuz")


def test_the_archive_is_readable_by_cpio(tmp_path: Path) -> None:
    archive = Archive()
    archive.add("bin/tool", stat.S_IFREG | 0o755, b"odd length")
    archive.add("bin/sh", stat.S_IFLNK | 0o777, b"tool")
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    packed = archive.packed()
    assert len(packed) % 512 == 0
    reader = shutil.which("cpio") or shutil.which("busybox")
    if reader is None:
        pytest.skip("cpio and busybox are missing")
    argv = [reader, "-itv"] if reader.endswith("cpio") else [reader, "cpio", "-itv"]
    listed = subprocess.run(argv, input=packed, capture_output=True, timeout=10, check=True).stdout.decode()
    names = [line.split()[-1] for line in listed.splitlines()]
    assert names == ["bin", "bin/tool", "tool", "dev", "dev/console"]
    assert "-rwxr-xr-x" in listed
    assert "crw-------" in listed


def test_a_card_has_both_partitions_and_its_boot_files(tmp_path: Path) -> None:
    search = "/usr/sbin:/sbin:/usr/bin:/bin"
    if any(shutil.which(tool, path=search) is None for tool in ("mkfs.vfat", "mke2fs", "mcopy")):
        pytest.skip("dosfstools, e2fsprogs or mtools are missing")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "motd").write_text("hello")
    card = tmp_path / "card.img"
    make_card(card, root, {"config.txt": b"arm_64bit=1\n"})
    write_boot(card, {"new/Kernel-With_A-Long.name": b"x" * 100_000, "config.txt": b"changed\n"})
    assert read_boot(card, "config.txt") == b"changed\n"
    assert read_boot(card, "new/Kernel-With_A-Long.name") == b"x" * 100_000
    assert read_boot(card, "tryboot.txt") is None
    assert list_boot(card, "*.txt") == ["config.txt"]
    with card.open("rb") as file:
        table = file.read(512)[446:]
    assert (table[4], table[20], table[-2:]) == (0x0C, 0x83, b"\x55\xaa")
    assert int.from_bytes(table[8:12], "little") * 512 == BOOT_START
    assert card.stat().st_blocks * 512 < 100 << 20
    # QEMU accepts only a power of two as the size of an SD card.
    assert card.stat().st_size.bit_count() == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["card.img", "root"]


def test_a_tryboot_request_on_the_card_is_valid_once(tmp_path: Path) -> None:
    card = tmp_path / "card.img"
    card.write_bytes(bytes(FLAG_AT + 512))
    assert not take_flag(card)
    # The guest's `vcmailbox` command.
    script = guest_file("vcmailbox")
    assert "seek=2048" in script
    argv = ["dd", f"of={card}", "bs=512", "seek=2048", "conv=notrunc,fsync", "status=none"]
    subprocess.run(argv, input=b"tryboot", check=True, timeout=10)
    assert take_flag(card)
    assert not take_flag(card)
    assert card.read_bytes() == bytes(FLAG_AT + 512)
