"""Sphinx settings of the documentation: ``make site`` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The version is that of this checkout.
sys.path.insert(0, str(ROOT))

from pytest_pinet.version import __version__  # noqa: E402

project = "pytest-pinet"
author = "The pytest-pinet developers"
copyright = f"2026, {author}"  # Sphinx reads a variable of this name.
release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nitpicky = True
# Commands in texts keep their quotes.
smartquotes = False

html_theme = "furo"
html_title = f"pytest-pinet {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
# Nothing is loaded from the network, so that the site can be read offline and from a file. There, a browser refuses to
# fetch the found pages for a summary.
html_show_search_summary = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"
