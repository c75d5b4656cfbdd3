"""Where a lab file is: at the path that the user wrote or, for a name such as ``virtual``, in this package."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import unknown

# The labs that come with pytest-pinet: in a checkout, a link to the folder lab/.
FOLDER = Path(__file__).parents[1] / "labs"
# Files about a packaged lab that need no review are written here. The folder of the package can be read-only, and an
# update replaces it.
OWN_FOLDER = Path(".pinet")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def packaged_labs() -> list[str]:
    """Return the names of all packaged labs."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if "." not in path.stem)


def is_name(lab: str, folder: Path = Path()) -> bool:
    """Return whether the text is meant as the name of a packaged lab, and is not a file or folder in ``folder``.

    A folder that has the name of a packaged lab is not meant.
    """
    if not _NAME.fullmatch(lab):
        return False
    return not (folder / lab).exists() or ((folder / lab).is_dir() and lab in packaged_labs())


def lab_path(lab: str) -> Path:
    """Return the path of a lab file that a user named by its path or, for a packaged lab, by name.

    Raises ConfigError for an unknown name. The file at a path need not exist.
    """
    if not is_name(lab):
        return Path(lab)
    names = packaged_labs()
    if lab not in names:
        raise ConfigError(f"{unknown('packaged lab', lab, names)}; there is no file of this name either")
    return FOLDER / f"{lab}.yaml"


def lab_of_ini(value: str, rootdir: Path) -> str:
    """Return the value of the ini key ``pinet_lab``, in which a path is relative to the rootdir."""
    return value if is_name(value, rootdir) else str(rootdir / value)
