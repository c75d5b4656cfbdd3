"""setup.cfg describes the package. Only what needs the public address of the project is here.

The page of a package index shows the README, and cannot resolve relative links. With an address, they become absolute,
as GitHub and GitLab name the files of a repository, and the address becomes the project's home page.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^]]*)\]\((?!https?:|#)(?P<path>[^)]+)\)")


def absolute(text: str, address: str) -> str:
    """Return Markdown whose relative links and pictures are those of the repository at an address."""
    return LINK.sub(
        lambda one: "{0[picture]}[{0[text]}]({1}/{2}/HEAD/{0[path]})".format(
            one, address, "raw" if one["picture"] else "blob"
        ),
        text,
    )


def main() -> None:
    """Build the package."""
    from setuptools import setup

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    address = settings["tool"]["pinet"]["address"].rstrip("/")
    readme = (ROOT / "README.md").read_text("utf-8")
    if not address:
        message = "no address in [tool.pinet] of pyproject.toml: links of the README stay relative"
        print(f"setup.py: {message}", file=sys.stderr)
    setup(
        long_description=absolute(readme, address) if address else readme,
        project_urls={"Source": address, "Changelog": f"{address}/blob/HEAD/CHANGELOG.md"} if address else {},
    )


if __name__ == "__main__":
    main()
