"""Small files of builds in their real formats: arm64 images, modules with ELF sections, packages."""

from __future__ import annotations

import gzip
import io
import lzma
import shutil
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import ConfigError

RELEASE = "6.12.25-pinet"
VERMAGIC = f"{RELEASE} SMP preempt mod_unload modversions aarch64"
VERSION = f"Linux version {RELEASE} (me@here) (aarch64-linux-gnu-gcc 12.2.0, GNU ld 2.40) #1 SMP PREEMPT @0"
BUILD_ID = bytes(range(20))
AARCH64, X86_64 = 183, 62
# Written by TuxMake 1.45.0 for a tree whose targets copy the files of this module.
TUXMAKE = Path(__file__).parents[1] / "data" / "artefacts" / "tuxmake-1.45.0.json"
TREE = "dtbs/broadcom/bcm2711-rpi-4-b.dtb"


def note(build_id: bytes = BUILD_ID) -> bytes:
    return struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id


def image(
    release: str = RELEASE,
    size: int = 5000,
    vermagic: str = VERMAGIC,
    build_id: bytes = BUILD_ID,
    pages_kib: int | None = None,
) -> bytes:
    """Return an arm64 Image: its header, and the kernel's version texts. An old Image says nothing about its pages."""
    version = VERSION.replace(RELEASE, release)
    # The last link step leaves a version text without a number.
    text = b"\0".join([version.replace("#1", "#").encode() + b"\n", version.encode() + b"\n", vermagic.encode(), b""])
    flags = {None: 0, 4: 1, 16: 2, 64: 3}[pages_kib] << 1
    head = (b"MZ\0\x91".ljust(24, b"\0") + struct.pack("<Q", flags)).ljust(56, b"\0") + b"ARM\x64" + b"\0" * 4
    return (head + text + b"\0" * (-len(head + text) % 4) + note(build_id)).ljust(size, b"\0")


def zboot(payload: bytes, kind: str = "gzip") -> bytes:
    head = b"MZ\0\0zimg" + struct.pack("<II", 64, len(payload)) + b"\0" * 8 + kind.encode()
    return head.ljust(64, b"\0") + payload


def module(
    name: str,
    vermagic: str = VERMAGIC,
    machine: int = AARCH64,
    srcversion: str = "0123456789ABCDEF0123456",
    depends: str = "",
    aliases: tuple[str, ...] = (),
    parameters: tuple[str, ...] = ("InterruptThrottleRate:array of int", "debug:int"),
    softdep: str = "",
    firmware: tuple[str, ...] = (),
    parm: tuple[str, ...] = (),
) -> bytes:
    """Return a 64-bit relocatable ELF file with the sections that modpost writes."""
    info = {"name": name, "vermagic": vermagic, "srcversion": srcversion, "depends": depends, "softdep": softdep}
    modinfo = b"".join(f"{key}={value}\0".encode() for key, value in info.items() if value or key == "depends")
    modinfo += b"".join(f"alias={alias}\0".encode() for alias in aliases)
    modinfo += b"".join(f"parmtype={parameter}\0".encode() for parameter in parameters)
    modinfo += b"".join(f"parm={text}\0".encode() for text in parm)
    modinfo += b"".join(f"firmware={name}\0".encode() for name in firmware)
    sections = {"": b"", ".modinfo": modinfo, ".note.gnu.build-id": note(), ".shstrtab": b""}
    names = b"\0".join(key.encode() for key in sections) + b"\0"
    sections[".shstrtab"] = names
    body, heads, at = b"", [], 64
    for key, content in sections.items():
        where = 0 if not key else names.index(b"\0" + key.encode()) + 1
        # The kernel loads all but the names of the sections.
        kind, flags = {"": (0, 0), ".shstrtab": (3, 0)}.get(key, (1, 2))
        heads.append(struct.pack("<IIQQQQIIQQ", where, kind, flags, 0, at, len(content), 0, 0, 1, 0))
        body += content
        at += len(content)
    head = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    head += struct.pack("<HHIQQQIHHHHHH", 1, machine, 1, 0, 0, at, 0, 64, 0, 0, 64, len(heads), len(heads) - 1)
    return head + body + b"".join(heads)


def device_tree() -> bytes:
    return struct.pack(">II", 0xD00DFEED, 40) + b"\0" * 32


def tar(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        link = tarfile.TarInfo(f"./lib/modules/{RELEASE}/build")
        link.type, link.linkname = tarfile.SYMTYPE, "/usr/src/linux"
        archive.addfile(link)
        for name, data in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def package(files: Mapping[str, bytes]) -> bytes:
    """Return a .deb package."""
    members = {"debian-binary": b"2.0\n", "control.tar.gz": gzip.compress(tar({"control": b"Package: x\n"}))}
    members["data.tar.gz"] = gzip.compress(tar(files))
    whole = b"!<arch>\n"
    for name, data in members.items():
        whole += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        whole += data + b"\n" * (len(data) % 2)
    return whole


def tree(release: str = RELEASE, **modules: bytes) -> dict[str, bytes]:
    """Return the files that ``make modules_install`` makes."""
    found = {
        f"lib/modules/{release}/kernel/drivers/net/{name}.ko": data
        for name, data in (modules or {"e1000e": module("e1000e")}).items()
    }
    built_in = ("pci/controller/pci-host-generic", "virtio/virtio_pci", "net/mdio/of_mdio")
    lines = "".join(f"kernel/drivers/{name}.ko\n" for name in built_in)
    return {**found, f"lib/modules/{release}/modules.builtin": lines.encode()}


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def tuxmake_folder(folder: Path) -> Path:
    """Make the output folder of TuxMake."""
    write(folder, {"Image.gz": gzip.compress(image()), "config": b"CONFIG_MODULES=y\n", "build.log": b""})
    (folder / "modules.tar.xz").write_bytes(lzma.compress(tar(tree())))
    (folder / "dtbs.tar.xz").write_bytes(lzma.compress(tar({TREE: device_tree()})))
    shutil.copy(TUXMAKE, folder / "metadata.json")
    return folder


def refused(path: object) -> str:
    """Return the sentence that says why there is no build."""
    with pytest.raises(ConfigError) as caught:
        load_build(str(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)
