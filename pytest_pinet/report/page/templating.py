"""The templates of the page. All values are escaped, unless they are made as HTML here.

Characters that are not printable are shown as escapes: controls, marks that turn the direction of text, line ends.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pytest_pinet.report.losses import owner_text
from pytest_pinet.report.page.words import anchor, badge, kind
from pytest_pinet.report.text_wrap import copyable, rate_or, tied

_HERE = Path(__file__).parent


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    found = Environment(
        autoescape=True,
        loader=FileSystemLoader(_HERE / "templates"),
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else tied(copyable(str(value))),
    )
    found.filters |= {"kind": kind, "anchor": anchor, "badge": badge, "owner": owner_text, "rate": rate_or}
    return found


def render(template: str, **values: object) -> Markup:
    """Return a template with these values."""
    return Markup(environment().get_template(template).render(values))


def own_file(name: str) -> Markup:
    """Return a style sheet or script of this package, which becomes part of the page as it is."""
    return Markup((_HERE / name).read_text(encoding="utf-8"))


def hash_of(script: str) -> str:
    """Return the hash by which the page's policy allows this script, and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
