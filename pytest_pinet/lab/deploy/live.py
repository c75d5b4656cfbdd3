"""Builds that need no boot: unload and load modules, with their options, and set sysctls on the running board.

The undo of each change is in the journal of tunings on the board. A boot clears the journal, and undoes the changes.
"""

from __future__ import annotations

import shlex

from pytest_pinet.builds.kernel_files import name_of
from pytest_pinet.builds.matching import require_machine, sysctl_holds
from pytest_pinet.builds.tree import BuildSnapshot
from pytest_pinet.builds.validate import has_parameter, no_parameter
from pytest_pinet.errors import BuildError, ConfigError, LabError, SshError
from pytest_pinet.evidence.build import sysctl_path
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.names import misspelled
from pytest_pinet.execution.shell import as_root, own_lines, reason
from pytest_pinet.lab.deploy.board import ELSEWHERE, DeployableBoard, Refused, upload
from pytest_pinet.lab.deploy.card import FIRST_UTS, OURS
from pytest_pinet.model.build import Build, BuildFileRole
from pytest_pinet.tuning.journal import FOLDER, JournalEntry

# Enough time for drivers to load their firmware and start their PHY.
SWAP_TIMEOUT_S = 60.0
READ_S = 30.0
_FIND = "PATH=$PATH:/usr/sbin:/sbin; modprobe -n -q {}"
# Prints the parameters of a module, and what its file says about one of them: a parameter may have neither type nor
# description. modinfo does not know all code that is built in, and that of busybox knows no fields.
_PARAMETERS = r"""
PATH=$PATH:/usr/sbin:/sbin; LC_ALL=C; export LC_ALL
[ ! -e /sys/module/{0}/parameters/{1} ] || echo "parm {1}:"
for k in parm parmtype; do modinfo -F $k {0} | sed -n 's/^\([A-Za-z0-9_]*\):.*/parm \1:/p'; done
f=$(modinfo -F filename {0}); [ ! -f "$f" ] || case $f in *.xz) xzcat $f ;; *.zst) zstdcat $f ;; *.gz) zcat $f ;;
  *) cat $f ;; esac | tr '\000' '\n' | grep -oE 'vermagic=|^(__param_(str_)?)?{1}$' | sed 's/^/file /'
d=/lib/modules/$(uname -r); [ -d /sys/module/{0} ] || [ ! -e $d/modules.builtin ] ||
  for k in builtin dep; do sed -n "s/^\([^:]*\/\)*\([^/:]*\)\.ko.*/$k \2/p" $d/modules.$k | tr - _; done
"""
_SYS_MODULE = 1 << 16
# The NICs of a module that VLANs, bridges or bonds use. They would end with the NIC, and nothing makes them again.
_USED = (
    'for d in /sys/class/net/*; do l=$(readlink -f $d/device/driver/module); [ "${{l##*/}}" = {} ] || continue;'
    ' for u in $d/upper_*; do [ ! -e "$u" ] || echo "${{d##*/}} ${{u##*/upper_}}"; done; done'
)
# Enough time for the probe of a USB adapter; a PCIe NIC is faster.
DEVICES_S = 15
_SCRIPT = """\
PATH=$PATH:/usr/sbin:/sbin; LC_ALL=C; export LC_ALL
m={module}; status={status}
say() {{ [ $status = /dev/null ] || {{ echo "$1" | tr '\\n' ' ' > $status.new; mv $status.new $status; }}; }}
had=$(for d in /sys/class/net/*; do
  l=$(readlink -f $d/device/driver/module 2>/dev/null); [ "${{l##*/}}" != $m ] || echo ${{d##*/}}; done)
keep=$(for d in $had; do
  [ "$(( $(cat /sys/class/net/$d/flags) & 1 ))" = 0 ] || echo "ip link set dev $d up"
  ip -o addr show dev $d scope global | while read -r _ _ _ a _; do echo "ip addr replace $a dev $d"; done
  ip -o route show dev $d proto static | while read -r r; do echo "ip route replace $r dev $d"; done
  ip -o route show default dev $d | while read -r r; do echo "ip route replace $r dev $d"; done; done)
back() {{
  n=0; while [ $n -lt {tenths} ]; do
    gone=; for d in $had; do [ -e /sys/class/net/$d ] || gone="$gone $d"; done
    [ -n "$gone" ] || break
    sleep 0.1; n=$((n + 1)); done
  echo "$keep" | while read -r c; do [ -z "$c" ] || $c 2>/dev/null; done
  [ -z "$gone" ]; }}
if grep -q "^$m " /proc/modules; then
  e=$(rmmod $m 2>&1) || {{ say "busy $e"; exit 1; }}; fi
if e=$( {{ {load}; }} 2>&1 ); then
  if back; then say ok; exit 0; fi
  why="lost$gone"; rmmod $m 2>/dev/null
else why="refused $e"; fi
{rescue}
say "$why"; exit 1
"""


class Live:
    """The way of deployment for builds of single modules, options and sysctls."""

    name = "modules and sysctls, without a boot"
    boots = False

    def __init__(self, board: DeployableBoard, journal: str = FOLDER) -> None:
        self._board = board
        self._journal = journal
        self._undo: list[JournalEntry] = []

    # -- checks ---------------------------------------------------------------------------------------------------

    def check(self, build: Build) -> None:
        name = self._board.name
        if build.needs_boot:
            raise Refused(f"{build} needs a boot of {name}")
        self._check_sysctls(build)
        wanted = self._swapped(build)
        if not wanted:
            return
        done = self._board.shell.run(
            as_root(
                "uname -rm; readlink /proc/self/ns/uts; sed -n 's/^CapEff:[^0-9a-f]*//p' /proc/self/status;"
                " cat /proc/sys/kernel/modules_disabled 2>/dev/null || echo 0;"
                " [ ! -e /proc/modules ] || { echo has modules; cut -d' ' -f1,3,4 /proc/modules; }"
            )
        )
        lines = done.stdout.splitlines()
        if done.returncode or len(lines) < 4:
            raise Refused(f"{name} refuses to list its modules: {reason(done.stderr)}")
        (release, _, machine), uts, capabilities, disabled = lines[0].partition(" "), lines[1], lines[2], lines[3]
        if uts != FIRST_UTS or not int(capabilities or "0", 16) & _SYS_MODULE:
            raise Refused(
                f"{name} shares its kernel with other containers, so its modules cannot be changed; {ELSEWHERE}"
            )
        if disabled.strip() == "1":
            raise Refused(f"the kernel of {name} refuses to load modules (kernel.modules_disabled=1)")
        if "has modules" not in lines[4:5]:
            raise Refused(f"the kernel of {name} was built without modules")
        require_machine(build, name, machine)
        self._check_modules(build, release, {line.split()[0]: line.split()[1:] for line in lines[5:] if line.strip()})

    def _check_modules(self, build: Build, release: str, loaded: dict[str, list[str]]) -> None:
        name = self._board.name
        for file in build.of(BuildFileRole.MODULE):
            module = build.modules[name_of(file.name)]
            if module.release != release:
                raise ConfigError(f"{file.name} was built for kernel {module.release}, and {name} runs {release}")
        for wanted in self._swapped(build):
            if wanted not in loaded:
                if self._board.shell.run(f"[ ! -d /sys/module/{wanted} ]").returncode:
                    raise Refused(f"{wanted} is built into the kernel of {name}, so only another kernel can change it")
                if wanted not in build.modules and self._board.shell.run(_FIND.format(wanted)).returncode:
                    raise Refused(f"{name} has no module {wanted}")
                continue
            users = [user for user in loaded[wanted][1].split(",") if user not in ("", "-", "[permanent]")]
            if users:
                why = f"module {wanted} of {name} cannot be unloaded: it is used by {', '.join(users)}"
                raise Refused(f"{why}; only a build that boots can change it")
            if used := self._board.shell.run(_USED.format(wanted)).stdout.split():
                why = f"module {wanted} of {name} drives {used[0]}, which carries {used[1]}"
                raise Refused(f"{why}; only a build that boots can change it")
            if "[permanent]" in loaded[wanted][1]:
                raise Refused(f"module {wanted} of {name} cannot be unloaded: it is permanent")

    def _check_sysctls(self, build: Build) -> None:
        for sysctl, _ in build.sysctls:
            path = shlex.quote(sysctl_path(sysctl))
            done = self._board.shell.run(as_root(f"[ -e {path} ] || exit 3; [ -w {path} ]"))
            if done.returncode == 3:
                raise ConfigError(f"{build}: sysctls: the kernel of {self._board.name} has no sysctl {sysctl!r}")
            if done.returncode:
                raise Refused(f"sysctl {sysctl} of {self._board.name} cannot be written")

    def check_options(self, build: Build) -> None:
        """Check the options of modules that the build does not bring. Raises ConfigError, SshError.

        Nothing is checked if the build brings another kernel. Without modinfo, only the names of modules are checked.
        """
        for module, parameter, _ in () if build.kernel is not None else build.options:
            if module in build.modules:
                continue
            done = self._board.shell.run(_PARAMETERS.format(module, parameter), timeout_s=READ_S)
            pairs = {tuple(line.partition(" ")[::2]) for line in done.stdout.splitlines()}
            has = {text.rstrip(":") for kind, text in pairs if kind == "parm"}
            file = {text for kind, text in pairs if kind == "file"}
            # A module that can be loaded. A prefix of built-in code may be like other built-in code: rcutree, srcutree.
            modules = {text for kind, text in pairs if kind == "dep"}
            # The file of a module proves what the module does not have. Nothing proves this of code that is built in.
            lacks = file == {"vermagic="} or (not file and misspelled(parameter, has))
            if lacks and not has_parameter(has, parameter):
                raise ConfigError(f"{build}: options: {no_parameter(module, parameter, has)}")
            if not {("builtin", module), ("dep", module)} & pairs and (near := misspelled(module, modules)):
                message = f"{build}: options: {self._board.name} has no module {module!r}; did you mean {near!r}?"
                raise ConfigError(message)

    @staticmethod
    def _swapped(build: Build) -> dict[str, str]:
        """Return the modules to unload and load, with their options as words of a shell."""
        wanted = {name_of(file.name): "" for file in build.of(BuildFileRole.MODULE)}
        for module, parameter, value in build.options:
            wanted[module] = f"{wanted.get(module, '')} {shlex.quote(f'{parameter}={value}')}".strip()
        return wanted

    # -- deployment and start -------------------------------------------------------------------------------------

    def deploy(self, build: Build) -> None:
        singles = build.of(BuildFileRole.MODULE)
        if singles:
            upload(self._board.shell, self._folder(build), {file.name: BuildSnapshot.of(file) for file in singles})

    @staticmethod
    def _folder(build: Build) -> str:
        return f"/run/{OURS}/{build.key}"

    def start(self, build: Build) -> None:
        for module, options in self._swapped(build).items():
            self._swap(build, module, options)
        self.set_sysctls(build)

    def load(self, build: Build) -> None:
        """Load the single modules of a build whose kernel is running. Raises BuildError, LabError, SshError."""
        self.deploy(build)
        options = self._swapped(build)
        for file in build.of(BuildFileRole.MODULE):
            module = name_of(file.name)
            self._swap(build, module, options[module])

    def _swap(self, build: Build, module: str, options: str) -> None:
        file = next((file.name for file in build.of(BuildFileRole.MODULE) if name_of(file.name) == module), None)
        depends = " ".join(build.modules[module].depends) if file else ""
        load = f"insmod {self._folder(build)}/{shlex.quote(file)}" if file else f"modprobe {module}"
        before = f"modprobe -a {depends}; " if depends else ""
        board = self._board
        loaded = board.shell.run(f"grep -q '^{module} ' /proc/modules").returncode == 0
        known = f"modprobe {module}"
        again = swap_script(module, known, "/dev/null") if loaded else f"PATH=$PATH:/usr/sbin:/sbin; rmmod {module}"
        entry = JournalEntry.new(f"module {module} of {board.name}", again, self._journal)
        status = f"{self._folder(build)}/{module}.status"
        script = swap_script(module, f"{before}{load} {options}".strip(), status, known if loaded else "")
        # The script runs detached: our connection may use the very NIC that disappears for a moment.
        detached = f"mkdir -p {self._folder(build)} && rm -f {status} && {entry.kept()} && "
        detached += f"{{ setsid sh -c {shlex.quote(script)} </dev/null >/dev/null 2>&1 & }}"
        done = board.shell.run(as_root(detached))
        if done.returncode:
            raise LabError(f"{board.name} cannot write {self._journal}: {reason(done.stderr)}", f"look at {board.name}")
        self._undo.append(entry)
        self._judge(build, module, self._await(status, module))

    def _await(self, status: str, module: str) -> str:
        status_text = ""

        def ended() -> bool:
            nonlocal status_text
            try:
                status_text = self._board.shell.run(f"cat {status} 2>/dev/null", timeout_s=5.0).stdout.strip()
            except SshError:
                return False
            return bool(status_text)

        if not Deadline(SWAP_TIMEOUT_S).wait_until(ended, 0.3):
            message = f"{self._board.name} did not change module {module} within {SWAP_TIMEOUT_S:.0f} s"
            raise SshError(message, f"boot {self._board.name}")
        return status_text

    def _judge(self, build: Build, module: str, status: str) -> None:
        word, _, rest = status.partition(" ")
        if word == "ok":
            return
        where = f"on {self._board.name} ({build})"
        if word == "busy":
            raise LabError(f"module {module} cannot be unloaded {where}: {reason(rest)}", f"boot {self._board.name}")
        if word == "refused":
            raise BuildError(f"module {module} cannot be loaded {where}: {reason(rest)}", "no driver")
        raise BuildError(f"module {module} was loaded {where}, but {rest} did not appear again", "no driver")

    def set_sysctls(self, build: Build) -> None:
        """Set each sysctl and read it back. Raises BuildError if the kernel does not have it, or keeps its value.

        A value that the kernel has changed is no error (builds/matching.py, ``changed_values``).
        """
        for sysctl, wanted in build.sysctls:
            path = sysctl_path(sysctl)
            before = self._board.shell.run(as_root(f"cat {shlex.quote(path)}")).stdout.strip()
            if sysctl_holds(wanted, before):
                continue
            undo = _set(path, before)
            entry = JournalEntry.new(f"sysctl {sysctl} of {self._board.name}", undo, self._journal)
            done = self._board.shell.run(as_root(f"{entry.kept()} && {_set(path, wanted)}"))
            self._undo.append(entry)
            now = self._board.shell.run(as_root(f"cat {shlex.quote(path)}")).stdout.strip()
            if done.returncode or (now == before and not sysctl_holds(wanted, now)):
                why = reason(done.stderr) if own_lines(done.stderr) else f"its value is still '{' '.join(now.split())}'"
                why = why if now else "its kernel has no such sysctl"
                raise BuildError(f"{self._board.name} did not accept sysctl {sysctl}={wanted}: {why}", "mismatch")

    def undo(self) -> None:
        """Undo all changes, the last one first. Raises LabError, SshError."""
        failed = []
        while self._undo:
            entry = self._undo.pop()
            done = self._board.shell.run(as_root(entry.undone()), timeout_s=SWAP_TIMEOUT_S)
            if done.returncode:
                failed.append(f"{entry.what} ({reason(done.stderr, done.stdout)})")
        if failed:
            raise LabError(f"could not undo {'; '.join(failed)}", f"boot {self._board.name}")

    def forget(self) -> None:
        """Forget all changes after a boot, which undid them."""
        self._undo.clear()


def _set(path: str, value: str) -> str:
    """Return a command that writes with tee, since the shell's own echo reports any refusal as "I/O error"."""
    return f"printf '%s\\n' {shlex.quote(value)} | tee {shlex.quote(path)} >/dev/null"


def swap_script(module: str, load: str, status: str, rescue: str = "") -> str:
    """Return the script. ``load`` loads the new module; if that fails, ``rescue`` loads the known-good one.

    The file ``status`` gets ``ok``, or ``busy``, ``refused`` or ``lost`` with a text that explains it.
    """
    return _SCRIPT.format(
        module=module,
        load=load,
        status=shlex.quote(status),
        rescue=f"{rescue} 2>/dev/null; back" if rescue else ":",
        tenths=DEVICES_S * 10,
    )
