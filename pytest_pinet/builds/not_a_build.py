"""Says what a file or folder is that no board can boot or load, and what its owner can do with it."""

from __future__ import annotations

import bz2
import lzma
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.files import exists, is_file, is_folder
from pytest_pinet.execution.git import git

MODULE_MAKE = "make -C /lib/modules/RELEASE/build M=FOLDER modules"
CARD = "an image of a whole card: take the kernel and modules out of it"
_PATCH = "a patch: apply it and build the kernel or the module"
_SOURCE = "a source file: build the kernel or the module, and name the result"
SOURCE_TREE = "a source tree of the kernel: build it first (make Image modules dtbs)"
_BUILT = "an Image is needed (make Image, or the package of the kernel)"
VMLINUX = f"found vmlinux; {_BUILT}"
# A packed .img is a card, unless it is a kernel: openwrt-...-factory.img.gz, 2026-06-18-raspios.img.xz.
_CARD_NAME = re.compile(r"\.(?:wic|iso|sdcard|vfat)\b|^(?!kernel).*\.img\.(?:gz|xz|zst|bz2|zip)$|^sdcard\.img$")
_HEAD = 4096
_PATCH_LINES = re.compile(rb"(?m)^(?:From [0-9a-f]{40} |diff --git |--- \S+.*\n\+\+\+ )")
_SOURCES = (".c", ".h", ".S", ".dts", ".dtsi", ".o", ".mod", ".config")
_OTHER_PACKAGE = re.compile(r"-headers|-dbg|libc-dev|-debuginfo|-devel|-source")
# Texts that git or a forge understands and a path is not: pulls/7472, v6.12.25-rpi, HEAD~1, origin/rpi-6.12.y, a hash,
# next-20260901, stable_20250428, raspberrypi/linux#7472, git@github.com:raspberrypi/linux.git.
_REF = re.compile(
    r"(?:HEAD|FETCH_HEAD|ORIG_HEAD|main|master|stash|@)(?:[~^@][~^@{}\d-]*)?|@"
    r"|(?:refs|origin|upstream|pulls?|remotes|heads|tags|net-next|linux-next)/[-\w./]+"
    r"|(?:rpi|linux|stable)-\d+\.\d+\.y|(?:next-|stable_)20\d{6}"
    r"|v\d+\.\d+(?:\.\d+)?(?:-rc\d+)?(?:[-+][a-z]\w*)?(?:-\d+-g[0-9a-f]{7,40})?|[0-9a-f]{7,40}"
    r"|(?:[-\w.]+/)*[-\w.]*\w\.\.\.?\w[-\w./]*|(?:[-\w.]+/[-\w.]+)?#\d+|[-\w.]+/[-\w.]+@[0-9a-f]{7,40}"
    r"|(?:git@[-\w.]+:|(?:git|ssh)://)\S+"
)
_REF_TEXT = "a git ref: check it out, build it, and name the folder of the build"
# A path that ends like this was misspelled, even if its folder has the name of a remote: upstream/r8169.ko.
_OF_BUILD = (".ko", ".deb", ".img", ".dtb", ".dtbo", ".yaml", ".xz", ".gz", ".zst", ".tar", ".zip", "Image", "out")
_GIT_TIMEOUT_S = 5


def what_is_text(text: str) -> str:
    """Return what a text is that names no file: a git ref; or nothing."""
    is_path = "/" in text and (text.endswith(_OF_BUILD) or is_folder(Path(text).parent))
    return _REF_TEXT if (_REF.fullmatch(text) and not is_path) or _git_knows(text) else ""


def _git_knows(text: str) -> bool:
    if not re.fullmatch(r"\w[-\w./]{0,200}", text):
        return False
    words = ("rev-parse", "--quiet", "--verify", f"{text}^{{commit}}")
    with suppress(ConfigError, OSError):
        return git(Path(), *words, timeout_s=_GIT_TIMEOUT_S).returncode == 0
    return False


def what_is_folder(folder: Path, name: str = "") -> str:
    """Return what a folder is that has no part of a build; or nothing.

    An archive of sources has one folder. ``name`` is what messages call the folder.
    """
    if is_kernel_source(folder):
        return SOURCE_TREE
    name = name or str(folder)
    names = sorted(_names(folder))
    if len(names) == 1 and is_folder(folder / names[0]):
        return what_is_folder(folder / names[0], f"{name}/{names[0]}")
    if "objects" in names and "refs" in names and "HEAD" in names:
        return "a git repository: check it out and build it"
    if any(one.endswith(".ko") for one in names):
        return ""
    if "dkms.conf" in names:
        return "the source of a driver: build it with dkms build, or with " + MODULE_MAKE.replace("FOLDER", name)
    sources = any(one.endswith(".c") for one in names)
    if (sources or "src" in names) and ({"Makefile", "Kbuild"} & {*names, *_names(folder / "src")}):
        return "the source of a driver: build it with " + MODULE_MAKE.replace("FOLDER", name)
    if "vmlinux" in names:
        return f"no build: {VMLINUX}"
    kinds = [(one, what_is_file(folder / one)) for one in names if is_file(folder / one)]
    return next((f"no build: {one} is {kind}" for one, kind in kinds if kind), "")


def kernel_for_others(folder: Path) -> str:
    """Return a sentence about a kernel in a folder or its boot/ that no Raspberry Pi boots; or nothing."""
    for inside in (folder, folder / "boot"):
        for name in sorted(_names(inside)):
            if name.startswith(("vmlinux", "uImage", "fitImage", "bzImage")) and is_file(inside / name):
                return VMLINUX if name == "vmlinux" else f"found {name}; {_BUILT}"
    return ""


def is_kernel_source(folder: Path) -> bool:
    """Return whether a folder is the source tree of a kernel."""
    return all(exists(folder / name) for name in ("MAINTAINERS", "Kbuild", "Kconfig", "Makefile"))


def _names(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir()}
    except OSError:
        return set()


def what_is_file(path: Path) -> str:
    """Return what a file is that is no part of a build; or nothing if that is not known."""
    try:
        with path.open("rb") as file:
            raw = file.read(_HEAD)
            if not raw.startswith((b"MZ", b"\x7fELF")):
                file.seek(0)
                raw = _unpacked_head(file.read(2**20))
    except OSError:
        return ""
    name = path.name
    if _is_card(raw) or _CARD_NAME.search(name):
        return CARD
    if raw.startswith(b"hsqs") or raw[1080:1082] == b"\x53\xef" or name.startswith("rootfs."):
        return "a root file system: take the kernel and modules out of it"
    if name.endswith((".patch", ".diff", ".mbox")) or _PATCH_LINES.search(raw):
        return _PATCH
    if name.endswith(_SOURCES) or name in ("Makefile", "Kbuild") or b"CONFIG_" in raw[:200]:
        return _SOURCE
    if raw.startswith(b"\x27\x05\x19\x56"):
        return f"an image for U-Boot (uImage); {_BUILT}"
    if raw.startswith(b"\xd0\x0d\xfe\xed") and (b"FIT" in raw or name.startswith("fit")):
        return f"an image for U-Boot (FIT); {_BUILT}"
    if raw.startswith(b"\x7fELF") and name.startswith("vmlinux"):
        return f"vmlinux; {_BUILT}"
    if _OTHER_PACKAGE.search(name) and name.endswith((".deb", ".rpm", ".tar.zst", ".tar.xz")):
        return "a package without a kernel or modules; name the linux-image or linux-modules package"
    return ""


def _is_card(head: bytes) -> bool:
    """Return whether data begin a disk with partitions, an image of QEMU, or a FAT file system."""
    if head.startswith(b"QFI\xfb") or head[512:520] == b"EFI PART":
        return True
    # The four entries of a partition table, each with a flag that is 0 or 0x80. A kernel has no such table.
    flags = {head[446 + 16 * number] for number in range(4)} if len(head) >= 512 else {1}
    kinds = any(head[450 + 16 * number] for number in range(4)) if len(head) >= 512 else False
    return head[510:512] == b"\x55\xaa" and (
        (flags <= {0, 0x80} and kinds) or head[54:57] == b"FAT" or head[82:85] == b"FAT"
    )


def _unpacked_head(data: bytes) -> bytes:
    """Return the beginning of compressed data, or of the data itself."""
    kinds: dict[bytes, Callable[[], bytes]] = {
        b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31).decompress(data, _HEAD),
        b"\xfd7zXZ\x00": lambda: lzma.LZMADecompressor().decompress(data, _HEAD),
        b"BZh": lambda: bz2.BZ2Decompressor().decompress(data, _HEAD),
        b"\x28\xb5\x2f\xfd": lambda: _zstd_head(data),
    }
    for magic, unpack in kinds.items():
        if data.startswith(magic):
            try:
                return unpack()[:_HEAD]
            except (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error):
                return data
    return data[:_HEAD]


def _zstd_head(data: bytes) -> bytes:
    tool = shutil.which("zstd")
    if tool is None:
        return data
    argv = ["sh", "-c", '"$0" -dcq 2>/dev/null | head -c "$1"', tool, str(_HEAD)]
    return subprocess.run(argv, input=data, capture_output=True, timeout=_GIT_TIMEOUT_S, check=False).stdout
