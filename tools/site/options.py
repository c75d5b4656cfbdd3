"""The reference of the options and ini keys of pytest, from the plugin's declarations."""

from __future__ import annotations

from _pytest.config.argparsing import Parser

from tools.site.markdown import code, plain, table


def _declared() -> Parser:
    from pytest_pinet import plugin

    parser = Parser(_ispytest=True)
    plugin.pytest_addoption(parser)
    return parser


def options() -> str:
    """Return a table of all options."""
    rows = []
    for option in _declared().getgroup("pinet").options:
        attributes = option.attrs()
        value = attributes.get("metavar") or "|".join(attributes.get("choices") or ())
        name = " ".join(filter(None, [", ".join(option.names()), str(value)]))
        rows.append([code(name), plain(str(attributes.get("help", "")).replace("%%", "%"))])
    return table(["option", "meaning"], rows)


def ini_keys() -> str:
    """Return a table of all ini keys."""
    known = _declared()._inidict
    return table(["key", "meaning"], [[code(name), plain(entry[0] or "")] for name, entry in sorted(known.items())])
