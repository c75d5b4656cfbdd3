"""The options, ini keys and markers of the plugin, and its pytest hooks.

The session object is registered when a pinet test is collected. Before that, only pytest, the standard library and a
few small modules of this package are imported (tests/functional/package/test_invisible.py lists them), so that an
installed but unused plugin costs nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_pinet.session import fixtures
from pytest_pinet.session.fixtures import SESSION_MAKER, exact_gate, gate, link, tune
from pytest_pinet.session.option_table import EXACT, PINET, SETTINGS
from pytest_pinet.session.settings import is_written

if TYPE_CHECKING:
    from pytest_pinet.session.session import PinetSession

__all__ = ["exact_gate", "gate", "link", "tune"]

SESSION_KEY: pytest.StashKey[PinetSession] = pytest.StashKey()

MARKER = (
    f"{PINET}: measure on every matching combination of the lab. min (goodput of the NIC) and sum (of all flows) are a "
    "bit rate or a share of the physical limit; tolerance is how far goodput may be below its accepted baseline; each "
    "limit can be a mapping from direction (tx, rx, bidir) to value. profile is fast, standard, soak or full. reset "
    "power-cycles the nodes first. tuning is a mapping such as {'rps': 'all'}, or a list of mappings, each one a "
    "separate combination; with tuning_required, a test whose tuning has no effect is not measured."
)

EXACT_MARKER = (
    f"{EXACT}: count what a build executes on an exact board, with --pinet-exact. instructions is how much the "
    "instructions for each packet may grow, such as '1%', '1% and 20' or {'gem_rx': '0'}; tolerance is how far virtual "
    "goodput may fall."
)

_SUITES = Path(__file__).parent / "suites"
# Only a session with a build under test reads these options.
_OF_BUILDS = ["build", "against", "boots", "exact"]


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the hooks of ``hookspecs``, which plugins and conftest files can implement."""
    from pytest_pinet import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options and ini keys of all settings."""
    group = parser.getgroup("pinet", "network throughput of boards in a labgrid lab (pytest-pinet)")
    for one in SETTINGS:
        # argparse expands % in a help text.
        text = one.full_help.replace("%", "%%")
        if one.metavar is None:
            group.addoption(one.option, action="store_true", default=None, help=text)
        else:
            action = "append" if one.repeatable else "store"
            group.addoption(one.option, action=action, default=None, metavar=one.metavar, help=text)
        if one.repeatable:
            parser.addini(one.key, "the same as the option of this name; one value on each line", type="linelist")
        else:
            parser.addini(one.key, "the same as the option of this name")


def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """Let pytest's message about an unknown option suggest the nearest option of ours, also for ``--nic``."""
    accepted = {one.option for one in SETTINGS}
    wrong = {word.partition("=")[0] for word in args if word.startswith("--")} - accepted
    similar = {name for name in wrong if name.startswith("--pinet")} | (wrong & {one.gate_option for one in SETTINGS})
    # Other plugins can have an option --profile.
    for word in parser.parse_known_and_unknown_args(args)[1] if similar else ():
        if (name := word.partition("=")[0]) in similar:
            from pytest_pinet.execution.names import nearest_word

            if near := nearest_word(name, accepted):
                parser.extra_info["did you mean"] = near


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Keep ``-p no:terminal`` usable: labgrid's plugin reads an option that exists only with the terminal plugin.

    This hook is a wrapper because labgrid's hook is also ``tryfirst``.
    """
    if not hasattr(config.option, "verbose"):
        config.option.verbose = 0
    # The scheduler of pytest -n reads this value. It is saved before xdist sets its default.
    config.option.pinet_dist_unchosen = getattr(config.option, "dist", None) == "no" and not config.option.distload
    if hasattr(config, "workerinput") and getattr(config.option, "clean_alluredir", False) and _is_used(config):
        # The controller has emptied the folder. A worker that replaces a crashed one would delete all results.
        config.option.clean_alluredir = False
    return (yield)


# Runs last: progress needs the terminal reporter, which pytest registers in this same hook.
@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the marker. If a pinet option or a lab is given, start the session now, to report mistakes early.

    xdist's controller collects no tests, but it keeps the results of the workers. It needs the session, too.
    """
    config.addinivalue_line("markers", MARKER)
    config.addinivalue_line("markers", EXACT_MARKER)
    config.stash[SESSION_MAKER] = pinet_session
    if _is_used(config):
        from pytest_pinet.errors import ConfigError
        from pytest_pinet.execution.text import for_log

        try:
            pinet_session(config)
        except ConfigError as error:
            _write_to_allure(config, str(error))
            raise pytest.UsageError(for_log(str(error))) from None


def _write_to_allure(config: pytest.Config, mistake: str) -> None:
    """Write the mistake into the Allure report. Nothing is measured, and an empty report would look like success."""
    directory = config.getoption("allure_report_dir", None)
    if directory and not hasattr(config, "workerinput"):
        from pytest_pinet.errors import ConfigError
        from pytest_pinet.report.allure.run_files import write_global_error

        with suppress(ConfigError):
            write_global_error(Path(directory), mistake)


def _is_used(config: pytest.Config) -> bool:
    """Return whether the user gives a lab or a setting that only a run of pinet needs."""
    return any(is_written(config, one) for one in SETTINGS if one.starts)


def pinet_session(config: pytest.Config) -> PinetSession:
    """Return the session object. The first call makes and registers it."""
    if SESSION_KEY not in config.stash:
        from pytest_pinet.session.session import PinetSession

        session = PinetSession(config)
        if any(config.getoption(f"--pinet-{name}") not in (None, False) for name in _OF_BUILDS):
            from pytest_pinet.ab.build_run import measure_builds

            measure_builds(session)
        config.stash[SESSION_KEY] = session
        config.pluginmanager.register(session, "pinet-session")
    return config.stash[SESSION_KEY]


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Name the tests of a packaged suite by its file.

    For a file on the command line that is outside of the root folder, pytest's ids begin with "::".
    """
    if module_path.parent != _SUITES or parent.config.rootpath in module_path.parents:
        return None
    found: pytest.Module = pytest.Module.from_parent(parent, path=module_path, nodeid=module_path.name)
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test that is marked ``pinet`` and uses a link of pinet: one parameter for each combination.

    A test that uses the exact gate has one parameter for each NIC that has an exact board.
    """
    if _uses_ours(metafunc, "exact_gate"):
        _parametrize_exact(metafunc)
    markers = list(metafunc.definition.iter_markers("pinet"))
    if not markers or not _uses_ours(metafunc, "link"):
        return
    from pytest_pinet.errors import ConfigError

    try:
        pinet_session(metafunc.config).parametrizer.parametrize(metafunc, markers)
    except ConfigError as error:
        raise pytest.Collector.CollectError(str(error)) from None


def _parametrize_exact(metafunc: pytest.Metafunc) -> None:
    from pytest_pinet.errors import ConfigError
    from pytest_pinet.session.exact_gate import parametrize

    try:
        parametrize(metafunc, lambda: pinet_session(metafunc.config).exact)
    except ConfigError as error:
        raise pytest.Collector.CollectError(str(error)) from None


def _uses_ours(metafunc: pytest.Metafunc, name: str) -> bool:
    """Return whether a test uses our fixture of this name: itself, or through the user's fixtures that override it."""
    for one in reversed(metafunc.definition._fixtureinfo.name2fixturedefs.get(name, ())):
        if one.func.__module__ == fixtures.__name__:
            return True
        if name not in one.argnames:
            return False
    return False
