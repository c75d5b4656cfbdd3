"""Compares what a board runs with the requested build, by all values that the board reports."""

from __future__ import annotations

from pytest_pinet.builds.module import name_of
from pytest_pinet.model.build import Build, BuildFileRole, RunningBuild

_YES = {"Y": "1", "y": "1", "N": "0", "n": "0"}


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
        told = [
            (kind, asked, now)
            for kind, asked, now in (
                ("srcversion", module.srcversion, loaded.srcversion),
                ("build id", module.build_id, loaded.build_id),
            )
            if asked and now
        ]
        found += [f"module {name} has {kind} {now}, not {asked}" for kind, asked, now in told if asked != now]
    found += [f"module {name} is not loaded" for name in missing_modules(build, running)]
    for module_name, parameter, asked in build.options:
        now = running.parameters.get(f"{module_name}.{parameter}")
        # Most drivers hide their parameters.
        if now is not None and not _same(asked, now):
            found.append(f"module {module_name} runs with {parameter}={now}, not {asked}")
    for name, asked in build.sysctls:
        now = running.sysctls.get(name)
        if now is None:
            found.append(f"there is no sysctl {name}")
        elif not sysctl_holds(asked, now):
            found.append(f"sysctl {name} is '{' '.join(now.split())}', not '{asked}'")
    return found


def sysctl_holds(asked: str, now: str) -> bool:
    """Return whether a sysctl has the requested value. The kernel separates several numbers with tabs."""
    return now.split() == asked.split()


def missing_modules(build: Build, running: RunningBuild) -> list[str]:
    """Return a build's single modules that are not loaded: they have no device there, or did not probe."""
    return sorted({name_of(file.name) for file in build.of(BuildFileRole.MODULE)} - set(running.modules))


def _boot(build: Build, running: RunningBuild) -> list[str]:
    """Return the differences if the board did not boot with the boot files of this build."""
    if running.marker is None:
        return [f"the command line has no {build.key}: {running.node} booted its known-good build"]
    if running.marker != build.key:
        return [f"{running.node} booted build {running.marker}, not {build.key}"]
    words = running.cmdline.split()
    return [f"'{word}' is not on the command line" for word in build.cmdline if word not in words]


def _kernel(build: Build, running: RunningBuild) -> list[str]:
    kernel = build.kernel
    if kernel is None or not kernel.release:
        return []
    if kernel.version and _plain(kernel.version) != _plain(running.version):
        return [f"the kernel says '{running.version}', the image '{kernel.version}'"]
    if kernel.build_ids and running.build_id and running.build_id not in kernel.build_ids:
        return [f"the kernel's build id is {running.build_id}, which is not in the image"]
    return []


def _plain(version: str) -> str:
    return " ".join(version.split())


def _same(asked: str, now: str) -> bool:
    return _YES.get(asked, asked) == _YES.get(now.strip(), now.strip())
