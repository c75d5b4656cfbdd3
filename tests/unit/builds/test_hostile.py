"""Builds with hostile names, settings and files: refused in one sentence with file and line; nothing hangs."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_pinet.builds import archives, listing
from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import ConfigError
from tests.support import build_files as made
from tests.support.hostile import HOSTILE

HEAD = "kernel: Image\nmodules: modules.tar\n"


def refused(folder: Path, text: str) -> str:
    made.write(folder, {"Image": made.image(), "modules.tar": made.tar(made.tree())})
    (folder / "build.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_build(str(folder))
    message = str(caught.value)
    assert message.isprintable()
    return message.removeprefix(f"{folder}/build.yaml:")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('cmdline: "a\\0b"', "3: cmdline: expected one line without control characters"),
        ('cmdline: "a\\u2028b"', "3: cmdline: expected one line without control characters"),
        ('cmdline: "a\\rb"', "3: cmdline: expected one line without control characters"),
        ('options: {e1000e: {debug: "a\\u2028"}}', "3: options.e1000e.debug: expected a value without spaces"),
        ('sysctls: {net.core.x: "1\\0"}', "3: sysctls: expected a mapping such as"),
        ('sysctls: {net.core.x: "1\\u2028"}', "3: sysctls: expected a mapping such as"),
        ("sysctls: {net.core.x: !template $X}", "3: sysctls: expected a mapping such as"),
        ("sysctls: {net.core/../x: 1}", "3: sysctls: expected a mapping such as"),
        ('config: ["a\\u2028b"]', "3: config: expected a list of lines"),
        ("name: ../../x", "3: name: expected a name of one line without slashes"),
        ("name: ..", "3: name: expected a name of one line without slashes"),
        ('name: "a\\x1b[0m"', "3: name: expected a text of one line"),
        ('name: "a\\u202eb"', "3: name: expected a text of one line"),
        ('firmware: {"$(reboot)": Image}', "3: firmware '$(reboot)': expected a path of letters"),
        ("firmware: {.: Image}", "3: firmware '.': expected a path of letters"),
        ("overlays: empty", "3: "),
        ("sysctls: {net.core.x: true}", "3: sysctls: expected a mapping such as 'net.ipv4.tcp_sack: 0', got 'true'"),
        ('sysctls: {net.core.x: ""}', "3: sysctls: expected a mapping such as 'net.ipv4.tcp_sack: 0', got ''"),
        ("source: {config: empty}", "3: configuration "),
        ("rps: [1]", "3: rps: a list is not 'all', 'off', CPUs such as"),
    ],
)
def test_settings(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path, f"{HEAD}{line}\n").removeprefix(str(tmp_path)).startswith(says)


def test_a_mask_of_processors_is_no_number(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), "build.yaml": b"kernel: Image\nrps: 0xf\n"})
    assert load_build(str(tmp_path)).rps == "0xf"


def test_a_folder_without_device_trees(tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    assert refused(tmp_path, f"{HEAD}overlays: o\n").endswith("o contains no device trees; expected *.dtb or *.dtbo")


@pytest.mark.parametrize("data", [b"\xd0\x0d\xfe\xed", made.device_tree()[:-1], b"\xd0\x0d\xfe\xed" + b"\xff" * 40])
def test_a_device_tree_that_is_cut_short(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "o.dtb").write_bytes(data)
    assert refused(tmp_path, f"{HEAD}device_trees: o.dtb\n").endswith(
        "o.dtb is not a compiled device tree; expected the output of dtc"
    )


@pytest.mark.parametrize(
    "line",
    ["kernel: f", "modules: f.ko", "modules: f.tar", "deb: f.deb", f"{HEAD}initramfs: f", f"{HEAD}firmware: {{x: f}}"]
    + [f"{HEAD}{key}: f.{key[0]}" for key in ("device_trees", "overlays")],
)
@pytest.mark.parametrize("special", ["fifo", "/dev/zero", "/dev/full"])
def test_fifos_and_devices(tmp_path: Path, line: str, special: str) -> None:
    name = line.rpartition(" ")[2].strip("}")
    if special == "fifo":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to(special)
    assert refused(tmp_path, f"{line}\n").endswith(f"{name} is not a regular file")
    with pytest.raises(ConfigError, match="is not a regular file"):
        load_build(str(tmp_path / name))


@pytest.mark.parametrize(
    "line",
    ["kernel: f", "modules: f.ko", "modules: f.tar", "deb: f.deb", f"{HEAD}initramfs: f", f"{HEAD}firmware: {{x: f}}"]
    + [f"{HEAD}{key}: f.dtb" for key in ("device_trees", "overlays")],
)
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("/proc/self/mem", "is empty; expected a file with at least 1 byte"),
        ("/proc/kmsg", "is empty; expected a file with at least 1 byte"),
        ("nowhere", "is a link to nowhere, which does not exist; correct the link"),
        ("SELF", "cannot be read (Too many levels of symbolic links)"),
    ],
)
def test_files_of_proc_and_broken_links(tmp_path: Path, line: str, target: str, says: str) -> None:
    name = line.rpartition(" ")[2].strip("}")
    (tmp_path / name).symlink_to(name if target == "SELF" else target)
    message = refused(tmp_path, f"{line}\n")
    assert message.startswith(f"{1 + line.count(chr(10))}: ")
    assert message.endswith(says)
    with pytest.raises(ConfigError, match=re.escape(says)):
        load_build(str(tmp_path / name))


# A file of the loopback interface that no process can read; `stat` says that it has 4096 bytes.
@pytest.mark.parametrize(
    "line", ["kernel: f", f"{HEAD}initramfs: f", f"{HEAD}firmware: {{x: f}}", f"{HEAD}overlays: f.dtbo"]
)
def test_a_file_that_the_system_cannot_read(tmp_path: Path, line: str) -> None:
    name = line.rpartition(" ")[2].strip("}")
    (tmp_path / name).symlink_to("/sys/class/net/lo/speed")
    assert refused(tmp_path, f"{line}\n").endswith(f"{name}' cannot be read (Invalid argument)")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
        (lambda path: path.symlink_to("nowhere"), "is a link to nowhere, which does not exist; correct the link"),
        (lambda path: path.symlink_to(path), "cannot be read (Too many levels of symbolic links)"),
        (lambda path: path.symlink_to("/tmp"), "is a link to a folder, which is not followed; copy the folder here"),
    ],
    ids=["fifo", "device", "dangling", "loop", "folder"],
)
@pytest.mark.parametrize("kind", ["firmware", "overlays", "dtbs"])
def test_what_a_folder_has_and_a_board_cannot_get(
    tmp_path: Path, kind: str, make: Callable[[Path], None], says: str
) -> None:
    folder = tmp_path / "deep" / kind
    made.write(folder / "inner", {"good.dtbo": made.device_tree()})
    assert load_build(str(folder.parent)).files
    make(folder / "inner" / "bad.dtbo")
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        load_build(str(folder.parent))
    assert "bad.dtbo" in str(caught.value)
    key = "firmware: {x: deep/firmware}" if kind == "firmware" else f"overlays: deep/{kind}"
    message = refused(tmp_path, f"{HEAD}{key}\n")
    assert message.startswith("3: ")
    assert message.endswith(says)


def test_a_fifo_in_a_tree_of_modules(tmp_path: Path) -> None:
    made.write(tmp_path, made.tree())
    os.mkfifo(next(tmp_path.rglob("*.ko")).with_name("zz.ko"))
    assert refused(tmp_path, "kernel: Image\nmodules: lib\n").endswith("zz.ko is not a regular file)")


@pytest.mark.parametrize("key", ["firmware: {x: many}", "overlays: many"])
def test_too_many_files(tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_FILES", 3)
    made.write(tmp_path / "many", {f"{n}.dtbo": made.device_tree() for n in range(3)})
    assert "too large" not in refused(tmp_path, f"{HEAD}{key}\ncmdline: prefix.a=1 os_prefix=1\nconfig: [kernel=x]\n")
    made.write(tmp_path / "many", {"3.dtbo": made.device_tree()})
    message = refused(tmp_path, f"{HEAD}{key}\n")
    assert message.endswith("many is too large for a part of a build; at most 3 files and 4 GiB are read")


@pytest.mark.parametrize("key", ["firmware: {x: many}", "overlays: many"])
def test_too_many_bytes(tmp_path: Path, key: str) -> None:
    (tmp_path / "many").mkdir()
    for n in range(5):
        with (tmp_path / "many" / f"{n}.dtbo").open("wb") as file:
            file.truncate(900 << 20)
    assert refused(tmp_path, f"{HEAD}{key}\n").endswith("at most 20000 files and 4 GiB are read")


@pytest.mark.parametrize("text", [text for text in HOSTILE if "\0" not in text and "," not in text and text])
def test_a_module_with_a_name_that_no_module_has(tmp_path: Path, text: str) -> None:
    needs = text.strip("\n")
    (tmp_path / "r8169.ko").write_bytes(made.module("r8169", depends=f"mii,{needs}"))
    if re.fullmatch("[A-Za-z0-9_-]+", needs) and len(needs) <= 60:
        # The kernel treats - and _ as equal.
        assert load_build(str(tmp_path / "r8169.ko")).modules["r8169"].depends[1] == needs.replace("-", "_")
        return
    with pytest.raises(ConfigError, match="is no name of a module; expected letters, digits, - and _"):
        load_build(str(tmp_path / "r8169.ko"))


def test_a_file_with_a_name_that_no_module_has(tmp_path: Path) -> None:
    path = tmp_path / "$(reboot).ko"
    path.write_bytes(made.module("r8169"))
    with pytest.raises(ConfigError, match=r"'\$\(reboot\)' is no name of a module"):
        load_build(str(path))


def test_a_folder_of_modules_with_a_name_that_is_no_utf_8(tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(f"lib/modules/{made.RELEASE}/kernel/".encode() + b"\xff")
    made.write(tmp_path, {"Image": made.image(), **made.tree()})
    made.write(place, {"macb.ko": made.module("macb")})
    assert load_build(str(tmp_path)).modules.keys() == {"e1000e", "macb"}


def zeros(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(2**20)) for _ in range(size >> 20)) + packer.flush()


@pytest.mark.parametrize("line", ["kernel: b.gz", "modules: b.ko.gz"])
def test_bombs(tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 2**24)
    (tmp_path / line.rpartition(" ")[2]).write_bytes(zeros(2**25))
    assert refused(tmp_path, f"{line}\n").endswith("it has more than 16 MiB unpacked")


def test_an_archive_of_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 2**20)
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(made.tar({"lib/x": bytes(2**21)})))
    assert refused(tmp_path, "kernel: Image\nmodules: b.tar.gz\n").endswith(
        "its files are too large (at most 1 MiB each)"
    )


GOOD = made.package({f"boot/vmlinuz-{made.RELEASE}": made.image(), **made.tree()})
BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda good: b"",
    "only the head": lambda good: good[:8],
    "cut": lambda good: good[:-50],
    "no member": lambda good: good[:8] + b"x" * 60,
    "negative size": lambda good: good[:8] + b"data.tar".ljust(48) + b"-5".ljust(12),
    "huge size": lambda good: good[:8] + b"data.tar".ljust(48) + b"9999999999`\n",
    "no data": lambda good: good.replace(b"data.tar.gz", b"data.txt.gz"),
    "name with NUL": lambda good: made.package({"a\0b": b"x"}),
    "long name": lambda good: made.package({"x" * 300: b""}),
    "file and folder": lambda good: made.package({"boot/vmlinuz-1": made.image(), "boot": b"x"}),
    "out of the archive": lambda good: made.package({"../../x": b"x"}),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_broken_packages(tmp_path: Path, broken: Callable[[bytes], bytes]) -> None:
    (tmp_path / "x.deb").write_bytes(broken(GOOD))
    with pytest.raises(ConfigError, match=r"x\.deb (cannot be unpacked: |contains no kernel|is empty; expected)"):
        load_build(str(tmp_path / "x.deb"))


@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress])
def test_all_streams_that_follow_each_other_are_unpacked(pack: Callable[[bytes], bytes]) -> None:
    assert archives.unpacked(pack(b"a") + pack(b"b")) == b"ab"
    with pytest.raises(archives.Unreadable, match="truncated"):
        archives.unpacked(pack(b"a")[:-5])


@contextmanager
def closed_to_us(folder: Path, mode: int) -> Iterator[None]:
    """Nothing is closed for root, so this process becomes another user. Folders above the current one are closed."""
    user = os.geteuid()
    folder.chmod(mode)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o755)


@pytest.mark.parametrize(
    ("text", "mode"), [("closed", 0o444), ("closed", 0o111), ("Image,closed", 0o444), ("Image,closed", 0o111)]
)
@pytest.mark.parametrize("name", ["a.ko", "metadata.json"])
def test_a_closed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, mode: int, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    made.write(tmp_path, {"Image": made.image()})
    made.tuxmake_folder(tmp_path / "closed") if name == "metadata.json" else made.write(
        tmp_path, {f"closed/{name}": b"x"}
    )
    with closed_to_us(tmp_path / "closed", mode), pytest.raises(ConfigError) as caught:
        load_build(text)
    message = str(caught.value)
    assert re.search("closed.* cannot be (read|unpacked: Permission denied)|closed contains no modules", message)
