"""Fetch and open arm64 packages, as any user of a Debian machine: apt with its own state and the machine's sources."""

from __future__ import annotations

import io
import json
import platform
import re
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import TypeAdapter

from pytest_pinet.builds.archives import Unreadable, deb_data, unpacked
from pytest_pinet.builds.kernel_files import bootable, is_arm64, name_of
from pytest_pinet.emulated.card import tool
from pytest_pinet.errors import LabError, first_line
from pytest_pinet.execution.shell import output

ARCHITECTURE = "arm64"
FETCH_TIMEOUT_S = 600.0
LISTS_TIMEOUT_S = 60.0
# Lists that were read within this time are used as they are.
FRESH_S = 86_400.0
_CONFIGURATION = """\
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "true";
Dir::State "{home}/state";
Dir::State::status "{home}/state/status";
Dir::Cache "{home}/cache";
Dir::Etc::sourcelist "{home}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Log "{home}";
"""


@dataclass(frozen=True)
class PackageSource:
    """A line of the machine's apt sources: address, release, component."""

    uri: str
    release: str
    component: str


class Apt:
    """Apt for another architecture. ``home`` holds its state and the packages; ``report`` gets the slow steps."""

    def __init__(self, home: Path, report: Callable[[str], None], architecture: str = ARCHITECTURE) -> None:
        self._home = home
        self._report = report
        self._architecture = architecture
        self._answers = home / "answers.json"

    def update(self) -> None:
        """Read the package lists of the machine's Debian sources, and of their backports if a mirror has them.

        Lists that were read within a day are used as they are; older ones if they cannot be read again.
        """
        sources = machine_sources()
        configuration = _CONFIGURATION.format(architecture=self._architecture, home=self._home)
        base = self._text(sources)
        made_of = configuration + base
        lists, read = self._home / "sources.list", self._home / "lists-were-read"
        known = read.exists() and read.read_text() == made_of
        if known and time.time() < read.stat().st_mtime + FRESH_S:
            return
        for name in ("state/lists/partial", "cache/archives/partial"):
            (self._home / name).mkdir(parents=True, exist_ok=True)
        (self._home / "state" / "status").touch()
        (self._home / "apt.conf").write_text(configuration)
        self._report(f"reading the lists of {self._architecture} packages")
        before = lists.read_text() if known else ""
        lists.write_text(base)
        try:
            self._run("update")
        except LabError as error:
            if not known:
                raise
            lists.write_text(before)
            when = datetime.fromtimestamp(read.stat().st_mtime, UTC)
            self._report(f"using the package lists of {when:%Y-%m-%d}: {first_line(error)}")
            return
        backports = [replace(s, release=f"{s.release}-backports") for s in sources if "-" not in s.release]
        extra = [source for source in backports if source not in sources]
        if extra:
            # A mirror might not have backports. The update then continues without them.
            lists.write_text(self._text([*sources, *extra]))
            try:
                self._run("update", "-o", "APT::Update::Error-Mode=any")
            except LabError:
                lists.write_text(base)
        # Newer lists may have newer packages.
        self._answers.unlink(missing_ok=True)
        read.write_text(made_of)

    def names(self, pattern: str) -> list[str]:
        """Return the names of all packages that match a regular expression."""
        found = self._run("search", "--names-only", pattern, tool="apt-cache").splitlines()
        return sorted(line.split(" - ")[0] for line in found)

    def closure(self, names: Sequence[str]) -> list[Path]:
        """Fetch packages and all their dependencies. Raises LabError."""
        self._report(f"fetching {', '.join(names[:3])} with dependencies")
        archives = self._home / "cache" / "archives"
        self._run("install", "--download-only", "--yes", *names)
        plan = self._run(
            "install", "--print-uris", "--yes", "--reinstall", *names, "-o", f"Dir::Cache={self._home}/none"
        )
        wanted = [line.split()[1] for line in plan.splitlines() if line.startswith("'")]
        return [archives / name for name in sorted(wanted)]

    def fetch(self, name: str) -> Path:
        """Fetch one package without its dependencies. Raises LabError."""
        folder = self._home / "single"
        folder.mkdir(exist_ok=True)
        plan = self._run("download", "--print-uris", name).split()
        if len(plan) < 2:
            raise LabError(f"apt has no download address for package {name}")
        path = folder / plan[1]
        if not path.exists():
            self._report(f"fetching {name}")
            # apt writes an incomplete file under its final name, so the package is fetched to a temporary folder.
            with tempfile.TemporaryDirectory(dir=folder) as draft:
                self._run("download", name, directory=Path(draft))
                (Path(draft) / path.name).replace(path)
        return path

    def ask_once(self, name: str, ask: Callable[[], Path]) -> Path:
        """Return the package that ``ask`` finds for a name. The answer is kept as long as the lists of packages.

        Apt takes a second for each question. Call this after ``update``.
        """
        known: dict[str, Path] = {}
        with suppress(OSError, ValueError):
            known = TypeAdapter(dict[str, Path]).validate_json(self._answers.read_bytes())
        if name not in known or not known[name].exists():
            known[name] = ask()
            self._answers.write_text(json.dumps(known, default=str))
        return known[name]

    def _text(self, sources: Sequence[PackageSource]) -> str:
        return "".join(f"deb [arch={self._architecture}] {s.uri} {s.release} {s.component}\n" for s in sources)

    def _run(self, *words: str, tool: str = "apt-get", directory: Path | None = None) -> str:
        argv = [tool, *words, *(["-qq"] if tool == "apt-get" else [])]
        # APT_CONFIG adds to the machine's configuration: its keys, proxies and mirrors stay in use.
        own = {"APT_CONFIG": str(self._home / "apt.conf")}
        return output(argv, FETCH_TIMEOUT_S, own, f"check the sources in {self._home}", directory or self._home)


def machine_sources() -> list[PackageSource]:
    """Return the Debian sources of this machine. Raises LabError if there are none."""
    if shutil.which("apt-get") is None:
        raise LabError(
            "emulated boards are made from Debian packages, but this machine has no apt-get",
            "run `pinet emulated card` on a Debian machine, and copy its ~/.cache/pinet to this machine",
        )
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"]
    lists = output([*command, "Created-By: Packages"], LISTS_TIMEOUT_S, act="run `sudo apt-get update`")
    rows = [line.split("|") for line in lists.splitlines() if line.count("|") == 3]
    found = [PackageSource(*row[1:]) for row in rows if row[0] == "Debian" and row[3] == "main"]
    if not found:
        raise LabError(
            "emulated boards are made from Debian packages, but apt of this machine has no lists of Debian packages",
            f"run `sudo apt-get update` on a Debian machine (this machine runs {_system()})",
        )
    return list(dict.fromkeys(found))


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def open_package(package: Path) -> tarfile.TarFile:
    """Open the archive of the files that a package installs. Raises LabError if the file is no package."""
    try:
        # Unpack the data first. In packed data, tarfile would unpack everything before a file for each file it reads.
        return tarfile.open(fileobj=io.BytesIO(unpacked(deb_data(package))), mode="r:")
    except (Unreadable, tarfile.TarError) as error:
        raise LabError(f"{package} cannot be unpacked: {error}") from None


# Read a kernel from its Debian package: Image, device trees, and the modules that an emulated board needs.


# Folders and files below kernel/ of the modules: drivers of the emulated hardware, and modules for tunings and
# traffic. A whole package has about 4,000 modules and 300 MB, which each board's card would have to hold.
WANTED = (
    "arch/*/crypto/*",
    "crypto/*",
    "drivers/block/virtio_blk.ko*",
    "drivers/char/hw_random/*",
    "drivers/char/virtio_console.ko*",
    "drivers/mmc/host/bcm2835.ko*",
    "drivers/net/ethernet/intel/e100.ko*",
    "drivers/net/ethernet/intel/e1000/*",
    "drivers/net/ethernet/intel/e1000e/*",
    "drivers/net/ethernet/intel/igb/*",
    "drivers/net/ethernet/intel/igbvf/*",
    # Shapers, and delay and loss on a path.
    "drivers/net/ifb.ko*",
    "drivers/net/phy/*",
    "drivers/net/usb/*",
    "drivers/net/virtio_net.ko*",
    "drivers/net/vmxnet3/*",
    "drivers/ptp/*",
    "drivers/usb/dwc2/*",
    "drivers/usb/host/xhci*",
    "drivers/usb/phy/phy-generic.ko*",
    "drivers/virtio/*",
    "drivers/watchdog/bcm2835_wdt.ko*",
    "drivers/watchdog/i6300esb.ko*",
    "fs/ext4/*",
    "fs/fat/*",
    "fs/nls/*",
    # Tagged VLANs, and bridges with VLAN filtering.
    "net/8021q/*",
    "net/bridge/bridge.ko*",
    "net/ipv4/tcp_*.ko*",
    # Address translation by nftables.
    "net/netfilter/nf_tables.ko*",
    "net/netfilter/nft_chain_nat.ko*",
    "net/netfilter/nft_masq.ko*",
    "net/sched/*",
)
_MODINFO = re.compile(rb"(?:^|\0)depends=([^\0]*)\0")


def arm64_image(data: bytes, name: str) -> bytes:
    """Return the raw arm64 Image of a ``vmlinuz``, which may be packed, or an EFI zboot image. Raises LabError."""
    try:
        plain = unpacked(bootable(data))
    except Unreadable as error:
        raise LabError(f"{name} is not an arm64 kernel: {error}") from None
    if not is_arm64(plain):
        raise LabError(f"{name} is not an arm64 kernel: it has {plain[0x38:0x3C]!r} at offset 0x38, expected b'ARMd'")
    return plain


class KernelPackage:
    """A ``linux-image`` package. ``release`` is the release name of its kernel."""

    def __init__(self, package: Path) -> None:
        self._package = package
        self._tar = open_package(package)
        self._modules: dict[str, tarfile.TarInfo] = {}
        images = []
        self._others: list[tarfile.TarInfo] = []
        self._device_trees: dict[str, tarfile.TarInfo] = {}
        for member in self._tar:
            path = member.name.removeprefix("./").removeprefix("usr/")
            parts = path.split("/")
            if path.startswith("boot/vmlinuz-"):
                images.append((member, path.removeprefix("boot/vmlinuz-")))
            elif path.startswith("lib/linux-image-") and path.endswith(".dtb"):
                self._device_trees[parts[-1]] = member
            elif parts[:2] == ["lib", "modules"] and len(parts) > 3:
                inside = "/".join(parts[3:])
                if ".ko" in parts[-1]:
                    self._modules[inside.removeprefix("kernel/")] = member
                elif member.isfile() and inside.startswith("modules."):
                    self._others.append(member)
        if not images:
            raise LabError(f"{package.name} is not a kernel package: it has no boot/vmlinuz-*")
        self._image, self.release = images[-1]

    def image(self) -> bytes:
        """Return the raw Image. Raises LabError."""
        return arm64_image(self._read(self._image), f"{self._image.name} in {self._package.name}")

    def device_trees(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the named device trees that the package has."""
        return {name: self._read(self._device_trees[name]) for name in names if name in self._device_trees}

    def install_modules(self, root: Path, more: Sequence[str] = ()) -> Path:
        """Install the wanted modules and their dependencies below ``root``/lib/modules. Return their folder.

        ``more`` are paths of modules beside ``WANTED``.
        """
        folder = root / "usr" / "lib" / "modules" / self.release
        for path, data in self._selected((*WANTED, *more)).items():
            target = folder / "kernel" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        for member in self._others:
            (folder / member.name.rpartition("/")[2]).write_bytes(self._read(member))
        tool("depmod", "-b", str(root / "usr"), self.release)
        return folder

    def _selected(self, wanted: Sequence[str]) -> Mapping[str, bytes]:
        """Return modules and their dependencies by path. Debian's are uncompressed up to 6.1, and use xz later."""
        by_name = {name_of(path): path for path in self._modules}
        todo = [path for path in self._modules if any(fnmatchcase(path, glob) for glob in wanted)]
        found: dict[str, bytes] = {}
        while todo:
            path = todo.pop()
            if path in found:
                continue
            found[path] = self._read(self._modules[path])
            todo += [by_name[name] for name in dependencies(found[path]) if name in by_name]
        return found

    def _read(self, member: tarfile.TarInfo) -> bytes:
        file = self._tar.extractfile(member)
        assert file is not None
        return file.read()


def dependencies(module: bytes) -> list[str]:
    """Return the names of the modules that a module depends on, from its ``.modinfo``."""
    found = _MODINFO.search(unpacked(module))
    return [name.replace("-", "_") for name in found[1].decode().split(",") if name] if found else []
