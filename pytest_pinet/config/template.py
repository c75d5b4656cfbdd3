"""labgrid's ``!template`` values: kept as written, and filled in when the lab is up."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path

from pytest_pinet.errors import ConfigError


class Template(str):
    """The text behind a ``!template`` tag."""

    __slots__ = ()


def substitute(text: str, env: Mapping[str, str], file: str = "") -> str:
    """Fill ``$LG_*`` from ``env`` and ``$BASE``, the folder of the lab file, into a Template.

    Other text stays unchanged. As in labgrid, other variables are unknown. Raises ConfigError, which names the
    variable.
    """
    if not isinstance(text, Template):
        return text
    values = {name: value for name, value in env.items() if name.startswith("LG_")}
    values["BASE"] = str(Path(file).absolute().parent)
    try:
        return string.Template(text).substitute(values)
    except KeyError as error:
        raise ConfigError(
            f"!template '{text}' needs the variable {error.args[0]}, which is not set (known are $BASE and LG_*)"
        ) from None
    except ValueError:
        raise ConfigError(
            f"!template '{text}' has a '$' without a variable name; write '$$' for a dollar sign"
        ) from None
