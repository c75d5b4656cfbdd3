"""Checks that a build fits the processor of a board, and that the board runs the build."""

from __future__ import annotations

from pytest_pinet.builds.module import name_of
from pytest_pinet.errors import BuildError
from pytest_pinet.model.build import Build, BuildFileRole, RunningBuild

# From a machine's own name (uname -m) to the architecture's name in the kernel source.
_MACHINES = {"aarch64": "arm64", "armv8l": "arm", "armv7l": "arm", "armv6l": "arm"}
WRONG_ARCHITECTURE = "wrong architecture"
_YES = {"Y": "1", "y": "1", "N": "0", "n": "0"}


def require_any_pi(build: Build) -> None:
    """Check a build before any board is used. Raises BuildError if no Raspberry Pi can run it."""
    if build.arch is not None and build.arch not in _MACHINES.values():
        raise BuildError(
            f"{build} is for {build.arch}, but a Raspberry Pi has an arm64 or arm processor: "
            "set ARCH=arm64 when you compile the kernel",
            WRONG_ARCHITECTURE,
        )


def require_machine(build: Build, name: str, machine: str) -> None:
    """Check a build that needs no boot for board ``name``, whose ``uname -m`` is ``machine``.

    Raises BuildError for another architecture.
    """
    require_any_pi(build)
    if build.arch is not None and _MACHINES.get(machine, build.arch) != build.arch:
        raise BuildError(
            f"{build} is for {build.arch}, but {name} runs {_MACHINES[machine]} ({machine})", WRONG_ARCHITECTURE
        )


def require_processor(build: Build, name: str, architectures: tuple[str, ...], bits: int | None) -> None:
    """Check a build that is booted for board ``name``, which can start kernels of these architectures.

    ``bits`` are the bits of the board's programs (None: unknown). Raises BuildError if the board cannot run the build.
    """
    require_any_pi(build)
    if build.arch is not None and build.arch not in architectures:
        why = f"the processor of {name} starts only {architectures[0]} kernels: set ARCH={architectures[0]}"
    elif build.arch == "arm" and bits == 64:
        why = f"the programs of {name} are 64-bit, which a 32-bit kernel cannot run: set ARCH=arm64"
    else:
        return
    raise BuildError(f"{build} is for {build.arch}, but {why} when you compile the kernel", WRONG_ARCHITECTURE)


def mismatches(build: Build, running: RunningBuild, booted: bool) -> list[str]:
    """Return the differences from the build, a few words each; empty if all reported values agree.

    ``booted``: the board was booted with the build.
    """
    found = _boot(build, running) if booted or running.marker else []
    if found:
        return found
    found = _kernel(build, running)
    for name, module in sorted(build.modules.items()):
        loaded = running.modules.get(name)
        if loaded is None:
            continue
        for kind, wanted, now in (
            ("srcversion", module.srcversion, loaded.srcversion),
            ("build ID", module.build_id, loaded.build_id),
        ):
            if wanted and now and wanted != now:
                found.append(f"module {name} has {kind} {now}, expected {wanted}")
    found += [f"module {name} is not loaded" for name in missing_modules(build, running)]
    for module_name, parameter, wanted in build.options:
        now = running.parameters.get(f"{module_name}.{parameter}")
        # Most drivers hide their parameters.
        if now is not None and _YES.get(wanted, wanted) != _YES.get(now.strip(), now.strip()):
            found.append(f"module {module_name} runs with {parameter}={now}, expected {wanted}")
    for name, wanted in build.sysctls:
        now = running.sysctls.get(name)
        if now is None:
            found.append(f"the kernel has no sysctl {name}")
        elif not sysctl_holds(wanted, now):
            found.append(f"sysctl {name} is '{' '.join(now.split())}', expected '{wanted}'")
    return found


def sysctl_holds(wanted: str, now: str) -> bool:
    """Return whether a sysctl has the requested value. The kernel separates several numbers with tabs."""
    return now.split() == wanted.split()


def missing_modules(build: Build, running: RunningBuild) -> list[str]:
    """Return a build's single modules that are not loaded: they have no device there, or did not probe."""
    return sorted({name_of(file.name) for file in build.of(BuildFileRole.MODULE)} - set(running.modules))


def _boot(build: Build, running: RunningBuild) -> list[str]:
    """Return the differences if the board did not boot with the boot files of this build."""
    if running.marker is None:
        return [f"the kernel command line has no {build.key}: {running.node} booted its known-good build"]
    if running.marker != build.key:
        return [f"{running.node} booted build {running.marker}, expected {build.key}"]
    words = running.cmdline.split()
    return [f"'{word}' is missing on the kernel command line" for word in build.cmdline if word not in words]


def _kernel(build: Build, running: RunningBuild) -> list[str]:
    kernel = build.kernel
    if kernel is None or not kernel.release:
        return []
    if kernel.version and kernel.version.split() != running.version.split():
        return [f"the board runs '{running.version}', but the image contains '{kernel.version}'"]
    if kernel.build_ids and running.build_id and running.build_id not in kernel.build_ids:
        return [f"the build ID of the running kernel is {running.build_id}, which the image does not contain"]
    return []
