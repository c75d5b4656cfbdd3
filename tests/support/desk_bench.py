"""A desk: a home network in namespaces, with this machine (``pc``) and boards that only a real sshd serves.

ssh has the settings of a user: ``~/.ssh/config`` and known hosts, through a wrapper of the ssh command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

from pytest_pinet.execution.deadline import Deadline
from tests.support.sshd_settings import common_settings
from tests.support.user_command import run_command

IP = shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "ip"
_SSHD = """\
AuthorizedKeysFile /run/key.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv PATH={folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""
# A package manager with one package.
_APT_GET = """\
#!/bin/sh
echo "$*" >> {folder}/installed
[ "$*" = "install -y iperf3" ] && umount /usr/bin/iperf3
"""
# The board has accounts of its own, and not the start-up files of this machine's root.
_INIT = """\
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /root; mount -t tmpfs -o mode=755 tmpfs /run; mkdir -p /run/sshd
mount -t tmpfs -o mode=755 tmpfs /var/lib
# sshd reads the keys as the user who logs in, who cannot read the folder of the test.
cp {folder}/key.pub /run/
for file in passwd group shadow; do cp /etc/$file {folder}/$file; done
echo 'pi:x:4711:4711::/tmp:/bin/sh' >> {folder}/passwd
echo 'pi:x:4711:' >> {folder}/group
echo 'pi:*:19000:0:99999:7:::' >> {folder}/shadow
for file in passwd group shadow; do mount --bind {folder}/$file /etc/$file; done
[ {number} = 0 ] || mount --bind /dev/null /usr/bin/iperf3
exec /usr/sbin/sshd -D -e -f {folder}/sshd_config
"""
_WRAPPER = '#!/bin/sh\nexec /usr/bin/ssh -F {folder}/ssh_config "$@"\n'
_SSH_CONFIG = """\
IdentityFile {folder}/key
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile /dev/null
Host shelf
    HostName 192.0.2.5
    User pi
"""


class DeskBench:
    """``pinet`` runs commands as a user on this machine would; ``boards`` are their addresses."""

    def __init__(self, folder: Path, prefix: str, boards: Sequence[str]) -> None:
        self.folder = folder
        self.boards = boards
        self._prefix = prefix
        self._servers: list[subprocess.Popen[bytes]] = []
        self._settings = ""

    def namespace(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def inside(self, name: str, *argv: str) -> list[str]:
        return [IP, "netns", "exec", self.namespace(name), *argv]

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "100"}

    def as_user(self, *argv: str) -> list[str]:
        """Return the command on this machine, whose locks and journals are apart from other tests on this host."""
        own = "mount --make-rprivate /; for f in /var/lib /run; do mount -t tmpfs -o mode=755 tmpfs $f; done"
        return self.inside("pc", "unshare", "--mount", "sh", "-c", f'{own}; exec "$@"', "sh", *argv)

    def pinet_argv(self, *words: str) -> list[str]:
        return self.as_user(sys.executable, "-c", "from pytest_pinet.cli import main; main()", *words)

    def pinet(self, *words: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        return run_command(self.pinet_argv(*words), self.folder, self.environment, timeout_s)

    def converse(self, answers: Mapping[str, str], *words: str) -> tuple[int, str]:
        """Run ``pinet`` on a pseudo-terminal. Answer each question that contains a key. Return status and output."""
        argv = self.pinet_argv(*words)
        child = pexpect.spawn(
            argv[0], argv[1:], env=self.environment, cwd=str(self.folder), timeout=60, encoding="utf-8", echo=False
        )
        patterns = [*answers, pexpect.EOF]
        text = ""
        while True:
            found = child.expect_exact(patterns)
            text += child.before + (child.after if found < len(answers) else "")
            if found == len(answers):
                break
            child.sendline(answers[patterns[found]])
        child.close()
        return child.exitstatus, text.replace("\r\n", "\n")

    def setup(self) -> None:
        (self.folder / "bin").mkdir(parents=True)
        wrapper = self.folder / "bin" / "ssh"
        wrapper.write_text(_WRAPPER.format(folder=self.folder))
        wrapper.chmod(0o755)
        (self.folder / "ssh_config").write_text(_SSH_CONFIG.format(folder=self.folder))
        # The key of the user.
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "key")]
        subprocess.run(argv, check=True, timeout=20)
        self._settings = common_settings(self.folder / "host_key", 22)
        self.know_hosts()
        names = ["net", "pc", *(f"b{number}" for number in range(len(self.boards)))]
        lines = [f"netns add {self.namespace(name)}" for name in names]
        ends = [("pc", "enp3s0", "192.0.2.1")]
        ends += [(f"b{number}", "eth0", address) for number, address in enumerate(self.boards)]
        for number, (name, device, _) in enumerate(ends):
            peer = f"p{number} netns {self.namespace('net')}"
            lines.append(f"link add {device} netns {self.namespace(name)} type veth peer name {peer}")
        self._ip("-batch", "-", text="\n".join(lines))
        self._ip("-n", self.namespace("net"), "link", "add", "br0", "type", "bridge", "stp_state", "0")
        self._ip("-n", self.namespace("net"), "link", "set", "br0", "up")
        for number, (name, device, address) in enumerate(ends):
            self._ip("-n", self.namespace("net"), "link", "set", f"p{number}", "master", "br0", "up")
            self._ip("-n", self.namespace(name), "addr", "add", f"{address}/24", "dev", device)
            for one in ("lo", device):
                self._ip("-n", self.namespace(name), "link", "set", one, "up")
        for number in range(len(self.boards)):
            self._serve(number)

    def know_hosts(self, *, known: bool = True, key: str | None = None) -> None:
        """Make ssh know the host keys of all boards, or none, or another key."""
        line = key or " ".join((self.folder / "host_key.pub").read_text().split()[:2])
        lines = [f"{address} {line}\n" for address in self.boards] if known else []
        (self.folder / "known_hosts").write_text("".join(lines))

    def _serve(self, number: int) -> None:
        folder = self.folder / f"b{number}"
        folder.mkdir()
        shutil.copy(self.folder / "key.pub", folder / "key.pub")
        (folder / "sshd_config").write_text(self._settings + _SSHD.format(folder=folder))
        (folder / "apt-get").write_text(_APT_GET.format(folder=folder))
        (folder / "apt-get").chmod(0o755)
        argv = self.inside(f"b{number}", "unshare", "--mount", "--uts", "sh", "-c")
        argv.append(f"hostname pi-{number + 1}; {_INIT.format(folder=folder, number=number)}")
        with (folder / "log").open("wb") as log:
            self._servers.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        ready = Deadline(20).wait_until(lambda: "Server listening" in (folder / "log").read_text(errors="replace"))
        assert ready, (folder / "log").read_text()

    def stop_ssh(self) -> None:
        """End all ssh servers; the boards still answer to pings."""
        for server in self._servers:
            server.terminate()
            server.wait(10)
        self._servers.clear()

    def close(self) -> None:
        self.stop_ssh()
        for name in ["net", "pc", *(f"b{number}" for number in range(len(self.boards)))]:
            argv = [IP, "netns", "del", self.namespace(name)]
            subprocess.run(argv, capture_output=True, timeout=10, check=False)

    @staticmethod
    def _ip(*words: str, text: str | None = None) -> None:
        done = subprocess.run([IP, *words], input=text, text=True, capture_output=True, timeout=10, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"


@contextmanager
def desk_bench(folder: Path, boards: Sequence[str] = ("192.0.2.5", "192.0.2.6")) -> Iterator[DeskBench]:
    """Yield a desk whose boards have these addresses. Users there: root, and pi without root rights.

    Only the first board has iperf3; ``apt-get`` of the others installs it.
    """
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    if not Path("/usr/sbin/sshd").exists():
        pytest.skip("sshd is not installed")
    bench = DeskBench(folder, f"d{os.getpid() % 100000}", boards)
    try:
        bench.setup()
        yield bench
    finally:
        bench.close()
