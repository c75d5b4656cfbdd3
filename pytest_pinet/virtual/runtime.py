"""The directory of a running lab, private to its user: secrets, files, lock, users, control socket, status."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pytest_pinet.config.lab_path import lab_path
from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError, LabError, PinetError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.names import unknown
from pytest_pinet.execution.shell import ssh_options
from pytest_pinet.model.lab import Scale
from pytest_pinet.virtual.container import ProcessId

PROCESSES = ("coordinator", "exporter", "daemon")
# The secrets of a lab. Each lab gets new ones, so that only users who can read its directory can log in.


# Boards check the password with PAM. Its pam_unix uses the same library. Python 3.13 removed the crypt module.
LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2")


def make_password() -> str:
    """Return 96 random bits in characters that are not special to a shell, template or terminal."""
    return secrets.token_hex(12)


def password_hash(password: str) -> str:
    """Return the password's hash for ``/etc/shadow``. Raises LabError if libcrypt is missing."""
    for name in LIBRARIES:
        try:
            crypt = ctypes.CDLL(name).crypt
        except OSError:
            continue
        crypt.argtypes, crypt.restype = [ctypes.c_char_p, ctypes.c_char_p], ctypes.c_char_p
        # Few rounds are enough: 96 random bits cannot be guessed, and more rounds would slow down every login.
        found = crypt(password.encode(), f"$6$rounds=1000${secrets.token_hex(8)}$".encode())
        if found is not None and found.startswith(b"$6$"):
            return str(found.decode())
    raise LabError("the virtual lab needs libcrypt with SHA-512, which is missing", "apt install libcrypt1")


def make_ssh_keys(directory: Path) -> None:
    """Create the key pair of the user and the key pair of the boards' sshd."""
    directory.mkdir(exist_ok=True)
    for name in ("id_ed25519", "host_key"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "pinet-virtual-lab", "-f", str(directory / name)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=10)


LOCK_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 30.0
_USERS = "users"
_POLL_S = 0.02


class Runtime:
    """The directory of one lab. It does not exist before ``create``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, lab_file: str) -> Runtime:
        """Return the directory for this lab file and the current user."""
        base = os.environ.get("XDG_RUNTIME_DIR")
        root = Path(base) / "pinet" if base and Path(base).is_dir() else Path(f"/tmp/pinet-{_user()}")
        name = hashlib.sha256(str(lab_path(lab_file).resolve()).encode()).hexdigest()[:12]
        return cls(root / name)

    @property
    def control(self) -> Path:
        return self.path / "control.sock"

    @property
    def spec(self) -> Path:
        """The `LabSpec` for the daemon."""
        return self.path / "spec.pickle"

    @property
    def keys(self) -> Path:
        """The folder of the lab's secrets."""
        return self.path / "keys"

    @property
    def private_key(self) -> Path:
        return self.keys / "id_ed25519"

    def cards(self, image: str) -> Path:
        """Return the folder of the emulated boards' cards. It is beside the image: ``path`` may be in memory."""
        return Path(image).parents[1] / "cards" / self.path.name

    def log(self, process: str) -> Path:
        return self.path / f"{process}.log"

    def create(self) -> None:
        """Create the directory, readable only by this user."""
        self._own_root()
        self.path.mkdir(mode=0o700, exist_ok=True)

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a file atomically. It belongs to the directory's owner even if root writes it."""
        draft = self.path / f".{name}.{os.getpid()}"
        draft.unlink(missing_ok=True)
        self.write_private(draft, json.dumps(value, indent=1))
        owner = self.path.stat()
        os.chown(draft, owner.st_uid, owner.st_gid)
        draft.rename(self.path / name)

    def write_private(self, path: Path, text: str) -> None:
        """Write a new file that only its owner can read."""
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(text)

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Return the content of a file, or None if it is missing or not valid."""
        try:
            value = json.loads((self.path / name).read_text())
        except (OSError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def remove(self) -> None:
        """Remove the directory, and the user's directory if this was its last lab. Raises LabError."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.path.exists() and shutil.which("sudo"):  # files of the daemon that belong to root
            subprocess.run(["sudo", "-n", "rm", "-rf", str(self.path)], check=False, capture_output=True, timeout=10)
        if self.path.exists():
            raise LabError(f"{self.path} cannot be removed", f"run `sudo rm -r {self.path}`")

    @contextmanager
    def locked(self, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
        """Lock the lab: one process at a time starts or stops it. Raises LabError if another process takes too long."""
        lock = self.path.with_suffix(".lock")
        deadline = time.monotonic() + timeout_s
        while (fd := self._try_lock(lock)) is None:
            if time.monotonic() > deadline:
                raise LabError(f"another process has been starting or stopping this lab for {timeout_s:g} s")
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            if not self.path.exists():
                lock.unlink(missing_ok=True)
                with suppress(OSError):  # another lab of this user exists
                    lock.parent.rmdir()
            os.close(fd)

    def _try_lock(self, lock: Path) -> int | None:
        """Return the lock's descriptor, or None if another process holds the lock or removes the directory."""
        try:
            self._own_root()
            fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A process that stops the lab also removes the lock file. Then this descriptor locks a deleted file.
            if lock.stat().st_ino == os.fstat(fd).st_ino:
                return fd
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(fd)
        return None

    def _own_root(self) -> None:
        root = self.path.parent
        with suppress(FileExistsError):  # the path is not a directory, which is reported below
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = root.lstat()
        owners = {os.getuid()}
        if os.getuid() == 0:
            # The daemon of another user.
            owners.add(self.path.lstat().st_uid if self.path.exists() else 0)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners or stat.S_IMODE(found.st_mode) & 0o077:
            raise LabError(
                f"{root} is not a private directory of this user, but it must hold private keys",
                f"remove {root}, or set XDG_RUNTIME_DIR",
            )

    def join(self, run: str) -> int:
        """Return a descriptor that counts as a user of the lab until it is closed. The lab must be ``locked``."""
        # All processes of a run hold a shared lock on its file. The kernel releases the lock of a process that dies.
        directory = self.path / _USERS
        directory.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(directory / run, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
        return fd

    def runs(self) -> list[str]:
        """Return the runs in which a process uses the lab. Remove the files of others. The lab must be ``locked``."""
        found = []
        for file in sorted((self.path / _USERS).glob("*")):
            fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.unlink()
            except BlockingIOError:
                found.append(file.name)
            finally:
                os.close(fd)
        return found

    def is_abandoned(self, last_look: bool) -> bool:
        """Return whether a lab that pytest started has no user. After the ``last_look`` no process can join it."""
        try:
            with self.locked(timeout_s=0):
                state = self.read_json("state.json")
                if state is None or state["keep"] or not state["complete"] or self.runs():
                    return False
                if last_look:
                    self.write_json("state.json", {**state, "complete": False})
                return True
        except LabError:
            # A process joins, leaves, starts or stops the lab.
            return False

    def remove_abandoned(self) -> None:
        """Remove the directory, unless another process does this now, or has started the lab again."""
        with suppress(LabError), self.locked(timeout_s=0):
            own = ProcessId.of(os.getpid())
            if own is not None and (self.read_json("ports.json") or {}).get("process") == vars(own):
                self.remove()

    def ask(self, op: str, timeout_s: float = ANSWER_TIMEOUT_S, **arguments: Any) -> Any:
        """Send one request to the daemon and return its answer.

        Raises ConfigError for a user's mistake, LabError if the daemon does not answer or the operation fails.
        """
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(timeout_s)
                sock.connect(str(self.control))
                sock.sendall(json.dumps({"op": op, **arguments}).encode() + b"\n")
                answer = sock.makefile().readline()
        except OSError as error:
            raise LabError(
                f"the virtual lab's daemon does not answer ({error})",
                "restart it: pinet lab down, pinet lab up",
            ) from None
        if not answer:
            raise LabError("the virtual lab's daemon closed the connection", f"look at {self.log('daemon')}")
        reply = json.loads(answer)
        if "error" in reply:
            raise ConfigError(reply["error"]) if reply["mistake"] else LabError(reply["error"])
        return reply["result"]


def _user() -> int:
    """Return the number of this user, also from inside a user namespace, in which the same user is root."""
    own = os.getuid()
    # Each line: first number inside, first number outside, how many (see user_namespaces(7)).
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        inside, outside, many = map(int, line.split())
        if inside <= own < inside + many:
            return outside + own - inside
    return own


# The status of a running virtual lab, for users.


# Boards of virtual labs boot in a few seconds, on a busy machine in more.
BOOT_S = 60.0


def is_down(lab_file: str) -> PinetError:
    """Return the error for a command that needs a running virtual lab."""
    if load(lab_file, in_use=False).launcher is None:
        return ConfigError(f"{lab_file} has no launcher; this command is only for virtual labs")
    return LabError(f"the lab of {lab_file} is down", f"pinet lab up --lab {lab_file}")


def status(lab_file: str) -> dict[str, Any] | None:
    """Return nodes, switches, processes and environment of a lab, even if a process has ended. None if it is down."""
    runtime = Runtime.of(lab_file)
    state = runtime.read_json("state.json")
    if state is None or not state["complete"]:
        return None
    alive = {name: ProcessId(**state["processes"][name]).alive for name in PROCESSES}
    if not any(alive.values()):
        return None
    found = runtime.ask("status") if alive["daemon"] else {"lab": state["lab"], "nodes": [], "switches": []}
    scale = Scale(**state.get("scale", {}))
    return {
        **found,
        "scale": scale.share,
        "scale_because": scale.because,
        "processes": alive,
        "environment": state["environment"],
    }


def ssh_command(lab_file: str, node: str, command: Sequence[str], boot_s: float = 0.0) -> list[str]:
    """Return the ssh command line that runs ``command`` in a node, after a wait of at most ``boot_s`` for its boot.

    Raises ConfigError, LabError if it is off or does not boot in time.
    """
    found = status(lab_file)
    if found is None or not found["processes"]["daemon"]:
        raise is_down(lab_file)
    nodes = {entry["name"]: entry for entry in found["nodes"]}
    if node not in nodes:
        raise ConfigError(unknown("node", node, nodes))
    if nodes[node]["power"] != "on":
        raise LabError(
            f"{node} is switched off",
            f"labgrid-client -p {nodes[node]['place']} power on (with the LG_ lines of `pinet lab status`)",
        )
    if boot_s:
        await_ssh(node, nodes[node]["ssh"], boot_s)
    return [
        *("ssh", "-F", "none", "-i", found["environment"]["LG_KEYFILE"], "-p", str(nodes[node]["ssh"])),
        *ssh_options(),
        f"{nodes[node]['user']}@127.0.0.1",
        *command,
    ]


def await_ssh(node: str, port: int, timeout_s: float) -> None:
    """Wait until a node that was switched on has booted, so that its sshd greets. Raises LabError."""

    def greets() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as opened:
            return opened.recv(4) == b"SSH-"
        return False

    if not Deadline(timeout_s).wait_until(greets, 0.1):
        message = f"{node} is switched on, but did not answer over ssh within {timeout_s:.0f} s"
        raise LabError(message, f"look at the faults in `pinet lab status`, and at the console of {node}")
