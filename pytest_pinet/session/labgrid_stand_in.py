"""Takes the place of labgrid's pytest plugin in runs that use neither labgrid nor pinet.

Importing labgrid's plugin takes most of a second, because it imports all of labgrid. It does nothing useful without a
labgrid environment, and pytest loads it in every run. The stand-in declares the same options, markers and fixtures. It
loads the real plugin if an environment or an option of labgrid is set after all, such as by a ``conftest.py``. This
module is the stand-in: pytest registers it under the name of labgrid's plugin. It imports only pytest, the standard
library and the table of our options.

pytest loads plugins in the order in which the system lists the folders of packages. If labgrid comes first, there is
nothing left to save, and nothing is changed. ``addopts = -p pinet`` makes pinet the first.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from types import ModuleType

import pytest

from pytest_pinet.session.option_table import SETTINGS

NAME = "labgrid"
# Options as labgrid declares them.
_OPTIONS: tuple[tuple[str, dict[str, str]], ...] = (
    ("--lg-env", {"action": "store", "help": "labgrid environment config file."}),
    (
        "--lg-coordinator",
        {"action": "store", "metavar": "COORDINATOR_ADDRESS", "help": "labgrid coordinator HOST[:PORT]."},
    ),
    (
        "--lg-log",
        {"action": "store", "metavar": "path to logfiles", "nargs": "?", "const": ".", "help": "path to logfiles"},
    ),
    ("--lg-colored-steps", {"action": "store_true", "help": "colored step reporter"}),
    ("--lg-initial-state", {"action": "store", "metavar": "STATE_NAME", "help": "set the strategy's initial state"}),
)
# With these options pytest lists what plugins offer. The list must be labgrid's own.
_LISTS = ("-h", "--help", "--markers", "--fixtures", "--funcargs", "--fixtures-per-test", "--trace-config", "-V")


def take_place(plugins: pytest.PytestPluginManager) -> None:
    """Register the stand-in, unless labgrid's plugin is loaded or disabled, or this run may need it."""
    config = plugins.get_plugin("pytestconfig")
    if not plugins.has_plugin(NAME) and not plugins.is_blocked(NAME) and config is not None and not _is_needed(config):
        plugins.register(sys.modules[__name__], NAME)


def _is_needed(config: pytest.Config) -> bool:
    """Return whether labgrid's plugin must be loaded, or would not be loaded without us."""
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return True
    if _is_set(config) or any(os.environ.get(one.variable) or config.getini(one.key) for one in SETTINGS if one.starts):
        return True
    return any(
        word in _LISTS or word.startswith(("--lg-", "--pinet-", "--disable-plugin-autoload")) or NAME in word
        for word in _words(config)
    )


def _words(config: pytest.Config) -> Iterable[str]:
    """Return the options of the command line, of the environment and of the configuration file."""
    yield from map(str, config.invocation_params.args)
    yield from shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
    yield from config.getini("addopts")


def _is_set(config: pytest.Config) -> bool:
    """Return whether an environment or an option of labgrid is set. The controller of xdist sets options of workers."""
    return "LG_ENV" in os.environ or any(getattr(config.option, _attribute(name), None) for name, _ in _OPTIONS)


def _attribute(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, so that code that reads them finds them."""
    group = parser.getgroup("labgrid")
    for name, how in _OPTIONS:
        group.addoption(name, dest=_attribute(name), **how)


# As labgrid's own hook, this one runs last: labgrid changes the format of pytest's logging plugin, which must be there.
@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the real plugin if labgrid is used after all: with an environment, or imported by a ``conftest.py``."""
    if _is_set(config) or "labgrid" in sys.modules:
        _load(config)
        return
    for marker in ("lg_feature", "lg_xfail_feature"):
        config.addinivalue_line("markers", f"{marker}: feature flags of a labgrid environment (see --lg-env)")


@pytest.fixture(scope="session")
def env() -> None:
    """The labgrid environment. There is none, or the real plugin would be loaded."""
    pytest.skip("missing environment config (use --lg-env)")


@pytest.fixture(scope="session")
def target(env: None) -> None:
    """The labgrid target ``main``."""


@pytest.fixture(scope="session")
def strategy(target: None) -> None:
    """The labgrid strategy of the target ``main``."""


def _load(config: pytest.Config) -> None:
    """Register labgrid's own hooks and fixtures. Its options are already declared."""
    from labgrid.pytestplugin import fixtures, hooks

    own = ModuleType("labgrid-fixtures")
    vars(own).update(env=fixtures.env, target=fixtures.target, strategy=fixtures.strategy)
    config.pluginmanager.register(own, "labgrid-fixtures")
    # pytest calls its pytest_configure at once.
    config.pluginmanager.register(hooks, "labgrid-hooks")
