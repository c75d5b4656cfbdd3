"""Selftests in the form of the kernel's own: a runner, and small tests in shell. ``$KERNEL_TREE`` names a real tree."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# A source tree of the kernel, such as the unpacked package linux-source of Debian.
TREE = os.environ.get("KERNEL_TREE", "")
WITHOUT_PROGRAMS = " ".join(name for name in ("python3", "tar") if shutil.which(name) is None)
# The parts of kselftest/runner.sh of Linux 6.12 that make its TAP; it ends with 0 in any case.
_RUNNER = r"""#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in -t) test=$2; shift 2 ;; -o) limit=$2; shift 2 ;; *) exit 1 ;; esac
done
folder=${test%%:*}; name=${test##*:}; text="selftests: $folder: $name"
cd "$(dirname "$0")/$folder" || exit 1
printf 'TAP version 13\n1..1\n# timeout set to %s\n# %s\n' "$limit" "$text"
timeout "$limit" ./"$name" >out 2>&1; rc=$?
sed -e 's/^/# /' out
case $rc in
  0) echo "ok 1 $text" ;; 4) echo "ok 1 $text # SKIP" ;;
  124) echo "not ok 1 $text # TIMEOUT $limit seconds" ;; *) echo "not ok 1 $text # exit=$rc" ;;
esac
exit 0
"""
_HEAD = """#!/bin/sh
. ./net.config
result() { if eval "$3"; then echo "ok $1 $2"; else echo "not ok $1 $2"; fi; }
echo "TAP version 13"
"""
_TESTS = {
    "passes.sh": """echo 1..2
result 1 "reach the peer" "ssh -q $REMOTE_ARGS 'ping -c 1 -W 2 $LOCAL_V4' >/dev/null"
ssh -q $REMOTE_ARGS "mkdir /tmp/kselftestpeer"
echo hello >file; scp -q file $REMOTE_ARGS:/tmp/kselftestpeer/file
result 2 "copy a file" "[ \"$(ssh -q $REMOTE_ARGS 'cat /tmp/kselftestpeer/file')\" = hello ]"
""",
    "fails.sh": """echo 1..2
result 1 "reach the peer" "ssh -q $REMOTE_ARGS 'exit 3'"
echo "ok 2 other"
""",
    # It passes, but does not print what it tested.
    "silent.sh": "exit 0\n",
    "skips.sh": 'echo 1..1; echo "ok 1 offload # SKIP no such NIC"; exit 4\n',
    "ends.sh": 'echo 1..3; echo "ok 1 first"; exit 1\n',
    # The command on the peer ends with the test.
    "hangs.sh": "echo 1..1; ssh -q $REMOTE_ARGS 'sleep 1000'\n",
}


def kselftest_folder(folder: Path) -> Path:
    """Make a folder of installed selftests."""
    tests = folder / "drivers/net"
    tests.mkdir(parents=True)
    for path, text in {
        folder / "run_kselftest.sh": _RUNNER,
        **{tests / name: _HEAD + text for name, text in _TESTS.items()},
    }.items():
        path.write_text(text)
        path.chmod(0o755)
    (folder / "kselftest-list.txt").write_text("".join(f"drivers/net:{name}\n" for name in _TESTS))
    return folder
