"""Debian's own tools on an emulated board: systemd asks for a trial boot, and initramfs-tools makes an initramfs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from pytest_pinet.builds.archives import deb_data, unpacked
from pytest_pinet.builds.load import load_build
from pytest_pinet.emulated import image
from pytest_pinet.emulated.rootfs import SYSTEMD
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.deploy.root_files import MAKING_GROWTH
from pytest_pinet.lab.node.node_session import NodeSession
from tests.support.debian_release import card_of, packages_of
from tests.support.emulated_gate import NEEDS, emulated_session

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]
# Another release: the board cannot use the known-good initramfs, and needs modules to mount its root file system.
OTHER_KERNEL = "linux-image-rt-arm64"
# The kernel of Debian does not pass the argument of a reboot to a firmware. At the end of the shutdown, this script
# does what the notifier in the kernel of a Raspberry Pi does: it reads the same request and sets the flag.
WITHOUT_VCMAILBOX = """\
set -e
mkdir -p /usr/lib/systemd/system-shutdown
mv /usr/bin/vcmailbox /usr/lib/pinet/
cat >/usr/lib/systemd/system-shutdown/notifier <<'END'
#!/bin/sh
[ "$1" = reboot ] || exit 0
read -r request </run/systemd/reboot-param && [ "$request" = "0 tryboot" ] || exit 0
/usr/lib/pinet/vcmailbox 0x00038064 4 0 1
END
chmod 755 /usr/lib/systemd/system-shutdown/notifier
echo '0000000000000000 T rpi_firmware_notify_reboot' >/run/kallsyms
mount --bind /run/kallsyms /proc/kallsyms
"""
# Found before Debian's, which it calls. It notes the kilobytes of all temporary files.
WATCH = """\
mkdir -p /usr/local/sbin
cat >/usr/local/sbin/mkinitramfs <<'END'
#!/bin/sh
while sleep 0.3; do du -sk "$TMPDIR"; done >/root/used 2>/dev/null &
/usr/sbin/mkinitramfs "$@"
made=$?
kill $!
exit $made
END
chmod 755 /usr/local/sbin/mkinitramfs
"""


def with_systemd(text: str) -> str:
    """Return the lab file with systemd on the first board, which has the wall clock: it boots faster."""
    return text.replace("      clock: virtual\n", "      manager: systemd-networkd\n", 1)


@pytest.fixture(scope="module", params=["", "trixie"], ids=["of this machine", "trixie"])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabAccess]:
    """Yield a session on boards of the release of Debian of this machine, or of another one."""
    with ExitStack() as stack:
        if request.param:
            stack.enter_context(packages_of(request.param))
            stack.enter_context(patch.object(image, "card_image", partial(card_of, request.param)))
        yield stack.enter_context(emulated_session(tmp_path_factory.mktemp("debian"), with_systemd))


@pytest.fixture
def node(lab: LabAccess) -> Iterator[NodeSession]:
    (session,) = lab.pool.get([lab.lab.nodes["virt-1"]], 240.0)
    yield session
    session.deployment.start(None)
    assert not session.deployment.take_back()
    # A busy machine may take too long for the first answer of its board.
    assert [text for text in lab.take_warnings() if "came up only after a second power cycle" not in text] == []


def packages_of_initramfs_tools() -> list[Path]:
    """Return the packages of initramfs-tools that the card does not have."""
    with image.locked(image.cache()):
        apt = image._updated_apt(lambda _: None)
        there = apt.closure(SYSTEMD.packages)
        # No package depends on the last two, because each Debian has them.
        found = apt.closure(["initramfs-tools", "libc-bin", "dpkg"])
    return [package for package in found if package not in there or package.name.startswith("dpkg_")]


def test_systemd_passes_the_request_for_a_trial_boot_to_the_kernel(node: NodeSession) -> None:
    assert node.shell.run("cat /proc/1/comm").stdout == "systemd\n"
    done = node.shell.run(WITHOUT_VCMAILBOX)
    assert done.returncode == 0, done.stderr
    assert node.record is not None
    before = node.record.number
    assert node.deployment.prove() == "systemctl reboot --reboot-argument"
    lines = [line.text for line in node.record.lines_since(before)]
    restarts = [text.partition("reboot: ")[2].strip() for text in lines if "reboot: Restarting system" in text]
    # The way back to the known-good build is a plain reboot, or a power cycle if the board is too slow for one.
    assert restarts in [["Restarting system with command '0 tryboot'", *back] for back in ([], ["Restarting system"])]


def test_a_whole_mkinitramfs_makes_an_initramfs_that_boots(node: NodeSession, tmp_path: Path) -> None:
    for package in packages_of_initramfs_tools():
        (tmp_path / package.stem).write_bytes(unpacked(deb_data(package)))
        with (tmp_path / package.stem).open("rb") as source:
            done = node.shell.feed("tar -xf - -C / --keep-directory-symlink", source, 60.0)
        assert done.returncode == 0, f"{package.name}: {done}"
    assert node.shell.run(WATCH).returncode == 0
    build = load_build(str(image.kernel_package(OTHER_KERNEL, lambda _: None)))
    node.deployment.check(build)
    running = node.deployment.start(build)
    assert build.kernel is not None
    assert running.version == build.kernel.version
    used = [int(line.split()[0]) for line in node.shell.run("cat /root/used").stdout.splitlines()]
    made = int(node.shell.run("stat -c %s /boot/firmware/pytest-pinet/*/initrd.img").stdout)
    peak = max(used) * 1024
    print(f"mkinitramfs: {made} bytes made, {peak} bytes of temporary files, {len(used)} samples")  # noqa: T201
    # The rest is for a new initramfs that is larger than the known-good one.
    assert made < peak < made * MAKING_GROWTH / 1.5
