"""Builds commits of a kernel tree: one checkout and one output folder, so that make compiles only what changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter

from pytest_pinet.emulated.image import Report
from pytest_pinet.errors import BuildError, ConfigError, LabError
from pytest_pinet.exact.qemu import usable_processors
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.files import exists, is_file, write_file
from pytest_pinet.execution.names import unknown
from pytest_pinet.execution.shell import output
from pytest_pinet.tree.sources import Commit, Tree
from pytest_pinet.virtual.requirements import require

COMMANDS = Path(__file__).with_name("build-commands")
CROSS = "aarch64-linux-gnu-"
# A longer function must not move the others to other places in the lines of a cache.
FLAGS = "-falign-functions=64"
# Equal sources give equal bytes.
_FIXED = {
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 2026",
    "KBUILD_BUILD_USER": "pinet",
    "KBUILD_BUILD_HOST": "pinet",
    "KBUILD_BUILD_VERSION": "1",
}
# make gets a group of its own, which ends with this process, even if it is killed: sub-makes would go on otherwise.
_SUPERVISED = (
    "setpriv", "--pdeathsig", "TERM", "sh", "-c",
    """trap 'trap "" TERM; kill -TERM 0; wait' TERM; "$@" & wait $!""", "sh",
)  # fmt: skip
# A whole kernel of a distribution on a slow machine.
MAKE_TIMEOUT_S = 12 * 3600.0
_SAY_EACH_S = 60.0
_END_S = 10.0
# Builds that the cache keeps: 11 MB each for exact boards, about 200 MB for a lab.
KEPT_BYTES = 8 << 30
FILE = "build.yaml"
_IMAGE = "arch/arm64/boot/Image"
_DEFCONFIGS = "arch/arm64/configs"
# Seconds by kind of build.
_TIMES_FILE, _TIMES = "times.json", TypeAdapter(dict[str, float])
_ALL = "all.config"
_LINES = 20
# What the machine lacks, and not the commit. A compiler's message quotes lines of the source behind their numbers.
_OF_THE_MACHINE = re.compile(
    r"(?! *\d+ \|).*(?:No space left on device|Killed signal|Cannot allocate memory|memory exhausted)"
)
# Variables for a make or a build of the user, which must not configure this one.
_FOREIGN = ("MAKE", "KBUILD", "KCONFIG", "KCPPFLAGS", "KAFLAGS", "LLVM", "INSTALL_")
_ERROR = re.compile(r".*(?:\berror: |\bundefined reference|\*\*\* ).*", re.IGNORECASE)


@dataclass(frozen=True)
class KernelConfig:
    """A configuration of the kernel: its text, or without a text the defconfig ``name`` of the tree.

    If the text has the word ``allnoconfig``, all other options are off. Else they have their defaults.
    """

    name: str
    text: str = ""
    has_device_trees: bool = True

    @property
    def key(self) -> str:
        """A short hash."""
        made_of = (self.name if not self.text else "", self.text, self.has_device_trees)
        return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:8]


def small_config(drivers: Collection[str] = ()) -> KernelConfig:
    """Return the configuration for exact boards: for the boards of these drivers, or for all boards."""
    wanted, lines = True, []
    for line in resources.files(__package__).joinpath("small.config").read_text("utf-8").splitlines():
        if line.startswith("#"):
            only = re.match(r"# Only for ([\w, ]+)", line)
            wanted = not drivers or only is None or not set(drivers).isdisjoint(only[1].split(", "))
        lines += [line] if wanted else []
    return KernelConfig("small", "\n".join(lines) + "\n", has_device_trees=False)


def read_config(value: str, exact: bool) -> KernelConfig:
    """Return the configuration in a file, or the defconfig of this name. Raises ConfigError."""
    path = Path(value).expanduser()
    if not exists(path):
        if re.fullmatch(r"[\w.+-]+", value):
            return KernelConfig(value, has_device_trees=not exact)
        raise ConfigError(
            f"there is no file {value}; expected a configuration of the kernel, or the name of a defconfig"
        )
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is no configuration of the kernel: {error}") from None
    if not re.search(r"^(?:CONFIG_\w+=|# CONFIG_\w+ is not set)", text, re.MULTILINE):
        raise ConfigError(f"{path} is no configuration of the kernel; expected lines such as CONFIG_NET=y")
    return KernelConfig(path.name, text, has_device_trees=not exact)


class TreeBuilder:
    """Builds commits of a tree with one configuration, and keeps the builds in the cache.

    It holds the lock of the tree from ``with`` to its end, so that the sources stay at the last commit.
    Raises LabError.
    """

    def __init__(self, tree: Tree, config: KernelConfig, say: Report) -> None:
        require(COMMANDS, "building a kernel needs")
        self.tree, self._config, self._say = tree, config, say
        self._out, self._builds = tree.folder / "out", tree.folder / "builds"
        self._lock = -1
        self._held = ExitStack()
        self._compiler = output([f"{CROSS}gcc", "--version"], _END_S).partition("\n")[0]
        # Builds of another compiler, or made in another way, are others.
        recipe = json.dumps([config.key, self._compiler, FLAGS, _FIXED])
        self._key = hashlib.sha256(recipe.encode()).hexdigest()[:8]

    def __enter__(self) -> Self:
        self._lock = self._held.enter_context(self.tree.locked(self._say))
        self._builds.mkdir(exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def kept(self, commit: str) -> Path | None:
        """Return the build of a commit (its whole hash) if the cache has it."""
        folder = self._folder(commit)
        return folder if is_file(folder / FILE) else None

    def _folder(self, commit: str) -> Path:
        return self._builds / f"{commit[:16]}-{self._key}"

    def build(self, commit: str) -> Path:
        """Return the folder with the build of a commit, which ``pinet gate`` accepts.

        Raises BuildError with the compiler's last lines if the commit cannot be built, LabError for the machine.
        """
        found = self.kept(commit)
        if found is not None:
            os.utime(found)
            return found
        what = self.tree.commit(commit)
        began = time.monotonic()
        self._say(f"{what}: checking out")
        source = self.tree.checkout(commit)
        # After another configuration, make compiles nearly all files.
        last = self._out / "pinet-config"
        kind = f"{'again' if is_file(last) and last.read_text() == self._config.key else 'first'} {self._config.key}"
        times = self._times()
        known = f"; the last time, this took {_duration(times[kind])}" if kind in times else ""
        self._say(f"{what}: compiling{known}")
        self._out.mkdir(exist_ok=True)
        last.unlink(missing_ok=True)
        self._make(what, source, self._configure(what))
        self._make(what, source, "Image", "modules", *(["dtbs"] if self._config.has_device_trees else []))
        last.write_text(self._config.key)
        folder = self._keep(what, source)
        times[kind] = time.monotonic() - began
        write_file(self.tree.folder / _TIMES_FILE, [_TIMES.dump_json(times)])
        self._say(f"{what}: built in {_duration(times[kind])}")
        self._prune(folder)
        return folder

    def _configure(self, what: Commit) -> str:
        """Write the configuration, and return the target of make that completes it. Raises ConfigError."""
        if not self._config.text:
            found = self.tree.names(what.id, _DEFCONFIGS)
            if self._config.name not in found:
                kind = f"defconfig in {_DEFCONFIGS} of {what.id[:12]}"
                raise ConfigError(unknown(kind, self._config.name, found))
            return self._config.name
        text = [self._config.text.encode()]
        write_file(self.tree.folder / _ALL, text)
        if "allnoconfig" in self._config.text:
            return "allnoconfig"
        write_file(self._out / ".config", text)
        return "olddefconfig"

    def _make(self, what: Commit, source: Path, *words: str) -> None:
        """Run make, whose output goes to a file. Raises BuildError, LabError."""
        compiler = [f"CC=ccache {CROSS}gcc"] if shutil.which("ccache") else []
        argv = [
            *_SUPERVISED, "make", f"-j{usable_processors()}", "-C", str(source), f"O={self._out}", "ARCH=arm64",
            f"CROSS_COMPILE={CROSS}", *compiler, f"KCFLAGS={FLAGS}", "LOCALVERSION=",
            f"KCONFIG_ALLCONFIG={self.tree.folder / _ALL}", *words,
        ]  # fmt: skip
        clean = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        log = self.tree.folder / "make.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                # As long as a compiler runs, another process that wants this folder waits.
                pass_fds=(self._lock,), env={**clean, **_FIXED, "LC_ALL": "C.UTF-8"},
            )  # fmt: skip
            try:
                self._wait(process, what, log)
            finally:
                _end(process)
        if process.returncode:
            raise _failed(what, log.read_text("utf-8", "replace").replace(f"{source}/", ""))

    def _wait(self, process: subprocess.Popen[bytes], what: Commit, log: Path) -> None:
        deadline = Deadline(MAKE_TIMEOUT_S)
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SAY_EACH_S)
                return
            if deadline.expired:
                raise LabError(f"make does not end within {MAKE_TIMEOUT_S / 3600:g} hours for {what}; see {log}")
            steps = log.read_bytes().count(b"\n")
            self._say(f"{what}: {steps} steps of make in {_duration(MAKE_TIMEOUT_S - deadline.remaining_s)}")

    def _keep(self, what: Commit, source: Path) -> Path:
        """Copy what a gate needs, as packages have it, and return the folder. It gets its name when it is whole."""
        draft, folder = self._builds / "draft", self._folder(what.id)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            trees = ["dtbs_install", f"INSTALL_DTBS_PATH={draft / 'dtbs'}"] if self._config.has_device_trees else []
            # The gate needs no list of dependencies.
            to = [f"INSTALL_MOD_PATH={draft}", "INSTALL_MOD_STRIP=1", "DEPMOD=true", *trees]
            self._make(what, source, "modules_install", *to)
            shutil.copyfile(self._out / _IMAGE, draft / "Image")
            shutil.copyfile(self._out / ".config", draft / "config")
            modules = [str(path.relative_to(draft)) for path in draft.glob("lib/modules/*")]
            described = {
                "name": what.id[:12],
                "kernel": "Image",
                "modules": modules,
                # A configuration may have none, as for a board that brings its own.
                **({"device_trees": "dtbs"} if (draft / "dtbs").exists() else {}),
                "source": {"commit": what.id, "compiler": self._compiler, "config": "config"},
            }
            (draft / FILE).write_text(json.dumps(described, indent=1))
            shutil.rmtree(folder, ignore_errors=True)
            return draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _times(self) -> dict[str, float]:
        with suppress(OSError, ValueError):
            return _TIMES.validate_json((self.tree.folder / _TIMES_FILE).read_bytes())
        return {}

    def _prune(self, newest: Path) -> None:
        """Remove the builds that were not used for the longest time, so that the others have at most KEPT_BYTES."""
        room = KEPT_BYTES
        for folder in sorted(self._builds.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True):
            room -= sum(path.lstat().st_size for path in folder.rglob("*"))
            if room < 0 and folder != newest:
                shutil.rmtree(folder)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End make and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)


def _failed(what: Commit, log: str) -> BuildError | LabError:
    lines = log.splitlines()
    reasons = [line.strip() for line in lines if _ERROR.match(line)] or lines[-1:] or ["no message"]
    if found := next((line for line in lines if _OF_THE_MACHINE.match(line)), None):
        return LabError(f"{what} cannot be built here: {found.strip()}", "free disk space or memory, and start again")
    return BuildError(f"{what} does not compile: {reasons[0]}", "not built", "\n".join(lines[-_LINES:]))


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
