"""The labgrid internals that we override or use must be exactly the version that our code was written for.

A failure here means that labgrid changed. Read the change, adapt our driver, then record the new fingerprint, which
``.venv/bin/python tests/unit/lab/labgrid/test_private.py`` prints.
"""

from __future__ import annotations

import ast
import configparser
import hashlib
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from labgrid import Target
from labgrid.driver import SerialDriver, ShellDriver, SSHDriver, USBStorageDriver
from labgrid.driver.consoleexpectmixin import ConsoleExpectMixin
from labgrid.driver.exception import ExecutionError
from labgrid.remote.client import ClientSession
from labgrid.resource import NetworkService
from labgrid.resource.remote import RemotePlaceManager
from packaging.requirements import Requirement

import pytest_pinet.lab
from pytest_pinet.lab import labgrid_private
from pytest_pinet.lab.drivers import PiSSHDriver
from tests.support.ports import free_port

ROOT = Path(__file__).parents[4]
# Methods of labgrid that we override, private ones that we call, and their callers, with signature and fingerprint of
# the source. They are the same in labgrid 26.0 and 26.0.1.
METHODS: list[tuple[Callable[..., Any], str, str]] = [
    (SSHDriver._start_own_master_once, "(self, timeout)", "8dcdee602d21dcbb"),
    (SSHDriver._stop_keepalive, "(self)", "b26f74504360eb54"),
    (SSHDriver._cleanup_own_master, "(self)", "76664bb621421c9b"),
    (SSHDriver._start_own_master, "(self)", "46822479c374bba6"),
    (SSHDriver.on_activate, "(self)", "10c8f68e7b251dfb"),
    (SSHDriver.on_deactivate, "(self)", "38446665520fcf4a"),
    (SSHDriver._get_username, "(self)", "8c715805f7fa78a2"),
    (SerialDriver._read, "(self, size: int = 1, timeout: float = 0.0, max_size: int = None)", "287b1da194bc33d0"),
    (SerialDriver.open, "(self)", "7a82d3cb4adf2648"),
    (SerialDriver.close, "(self)", "5aaf9106eb4fe6c0"),
    (ConsoleExpectMixin.expect, "(self, pattern, timeout=-1)", "cad88fee4f83d9ae"),
    (ShellDriver._await_login, "(self)", "7ad2de81ed389352"),
    (ShellDriver._check_prompt, "(self)", "c3a70923faef2c65"),
    (ShellDriver.on_activate, "(self)", "45c04411d5c44e6e"),
    (ShellDriver.on_deactivate, "(self)", "348e054efd0e2d97"),
    (RemotePlaceManager.poll, "(self)", "490525fb84f1466d"),
    (RemotePlaceManager.on_resource_added, "(self, resource)", "546a39384ccd210e"),
    (ClientSession.start, "(self)", "6f73074e584764ba"),
    (ClientSession.message_pump, "(self)", "42afbadcbb8bb643"),
    (ClientSession.__attrs_post_init__, "(self)", "4c74e20736fda2d4"),
    (ClientSession.on_resource_changed, "(self, exporter, group_name, resource_name, resource)", "84e4fc36f92a1741"),
    (ClientSession.on_place_changed, "(self, place_pb2: labgrid_coordinator_pb2.Place)", "36f4b2b086ef419f"),
    (USBStorageDriver._wait_for_medium, "(self, partition)", "140f8c6e56cf95f2"),
    (USBStorageDriver._start_wrapper, "(self)", "35795a1e2271a518"),
    (USBStorageDriver._get_devpath, "(self, partition)", "43222a3d8d5ef38b"),
]
# Attributes that labgrid sets on its objects, by the class that sets them.
ATTRIBUTES = {
    "_keepalive": SSHDriver,
    "_ssh": SSHDriver,
    "_expect": ConsoleExpectMixin,
    "_status": ShellDriver,
    "_remote_entry": RemotePlaceManager,
}


def source_of(function: Callable[..., Any]) -> str:
    """Return the code without docstring, comments and empty lines; the same on each version of Python."""
    text = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    (definition,) = ast.parse(text).body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    first = definition.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    left_out = range(first.lineno, (first.end_lineno or 0) + 1) if documented else range(0)
    lines = [line.rstrip() for number, line in enumerate(text.splitlines(), 1) if number not in left_out]
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def fingerprint(function: Callable[..., Any]) -> str:
    return hashlib.sha256(source_of(function).encode()).hexdigest()[:16]


def pinned(function: Callable[..., Any]) -> tuple[str, str]:
    return str(inspect.signature(inspect.unwrap(function))), fingerprint(function)


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


RECORDED = {function.__name__ for function, _, _ in METHODS} | set(ATTRIBUTES)


def our_modules() -> Iterator[ModuleType]:
    """Yield all modules of pytest_pinet.lab, the only package that may use labgrid's classes."""
    for found in pkgutil.walk_packages(pytest_pinet.lab.__path__, "pytest_pinet.lab."):
        yield importlib.import_module(found.name)


def heirs() -> Iterator[tuple[type, list[type]]]:
    """Yield our classes that inherit from labgrid classes, with these classes."""
    for module in our_modules():
        for one in vars(module).values():
            if inspect.isclass(one) and one.__module__ == module.__name__:
                bases = [base for base in one.__mro__ if base.__module__.split(".")[0] == "labgrid"]
                if bases:
                    yield one, bases


def accessed(text: str) -> Iterator[tuple[str, str]]:
    """Yield private attributes in a source text: the expression before the dot, and the name."""
    for node in ast.walk(ast.parse(textwrap.dedent(text))):
        if isinstance(node, ast.Attribute) and private(node.attr):
            yield ast.unparse(node.value), node.attr


@pytest.mark.parametrize(("function", "signature", "source"), METHODS, ids=[one.__qualname__ for one, _, _ in METHODS])
def test_labgrid_has_not_changed_what_we_override_or_call(
    function: Callable[..., Any], signature: str, source: str
) -> None:
    version = metadata.version("labgrid")
    assert pinned(function) == (signature, source), f"labgrid {version} changed it; it is now:\n{source_of(function)}"


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_labgrid_still_sets_the_private_attributes_that_we_use(name: str) -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(ATTRIBUTES[name])))
    targets = [target for node in ast.walk(tree) if isinstance(node, ast.Assign) for target in node.targets]
    assert name in {target.attr for target in targets if isinstance(target, ast.Attribute)}


def test_our_module_uses_no_private_name_that_is_not_recorded_here() -> None:
    assert {name for _, name in accessed(inspect.getsource(labgrid_private))} <= RECORDED


def test_only_one_module_overrides_private_methods_of_labgrid() -> None:
    overridden = {
        (one.__module__, name)
        for one, bases in heirs()
        for name, value in vars(one).items()
        if private(name) and inspect.isfunction(value) and any(name in vars(base) for base in bases)
    }
    assert {module for module, _ in overridden} == {labgrid_private.__name__}
    assert {name for _, name in overridden} <= RECORDED


def test_no_other_class_uses_private_names_of_labgrid() -> None:
    found = []
    for one, bases in heirs():
        if one.__module__ != labgrid_private.__name__:
            theirs = {name for base in bases for name in vars(base) if private(name)}
            theirs |= {name for base in bases for owner, name in accessed(inspect.getsource(base)) if owner == "self"}
            own = set(accessed(inspect.getsource(one)))
            found += [f"{one.__qualname__}: {name}" for owner, name in own if name in theirs]
    assert found == []


def test_no_other_module_uses_private_attributes_of_labgrid() -> None:
    found = [
        f"{module.__name__}: {owner}.{name}"
        for module in our_modules()
        if module is not labgrid_private
        for owner, name in accessed(inspect.getsource(module))
        if name in RECORDED and owner != "self"
    ]
    assert found == []


def test_the_version_of_labgrid_has_an_upper_bound_everywhere() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    texts = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    wanted = [Requirement(line) for text in texts for line in text.splitlines() if line.startswith("labgrid")]
    assert len(wanted) == 2
    assert [one for one in wanted if not re.search(r"<\d", str(one.specifier))] == []
    assert all(metadata.version("labgrid") in one.specifier for one in wanted)
    assert len({str(one.specifier) for one in wanted}) == 1


if __name__ == "__main__":
    for method, _, _ in METHODS:
        print(f"    ({method.__qualname__}, {', '.join(map(repr, pinned(method)))}),")  # noqa: T201


@pytest.fixture
def driver() -> PiSSHDriver:
    """Return the driver of a board on a port that refuses connections."""
    port = free_port()
    target = Target("board")
    NetworkService(target, name=None, address="127.0.0.1", username="pi", port=port)
    found = PiSSHDriver(target, "ssh")  # type: ignore[call-arg]  # labgrid is not typed
    found.connection_timeout = 1.0
    return found


def test_refused_connections_are_in_the_error_and_not_in_the_log(
    driver: PiSSHDriver, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Exception, match="Timeout while waiting for ssh connection") as found:
        driver.target.activate(driver)
    assert isinstance(found.value.__cause__, ExecutionError)
    assert found.value.__cause__.msg.startswith("pi@127.0.0.1: ")
    assert found.value.__cause__.msg.endswith("Connection refused")
    assert caplog.text == ""


def test_other_warnings_of_the_driver_stay(driver: PiSSHDriver, caplog: pytest.LogCaptureFixture) -> None:
    def start() -> str:
        driver.logger.warning("ssh: %s", "Connection refused")
        driver.logger.warning("the disk is full")
        return "control"

    assert driver.start_master(start) == "control"
    driver.logger.warning("ssh: %s", "after the start")
    assert [record.message for record in caplog.records] == ["the disk is full", "ssh: after the start"]
