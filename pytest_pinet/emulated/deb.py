"""The files that a Debian package installs, with their links and modes; read without dpkg."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from pytest_pinet.builds.packed import Unreadable, deb_data, unpacked
from pytest_pinet.errors import LabError


def data_of(package: Path) -> tarfile.TarFile:
    """The files that a package installs. Raises LabError for what is no package."""
    try:
        # Unpacked as a whole: tarfile would unpack all that lies before it again for each file it is asked for.
        return tarfile.open(fileobj=io.BytesIO(unpacked(deb_data(package))), mode="r:")
    except (Unreadable, tarfile.TarError) as error:
        raise LabError(f"{package} cannot be unpacked: {error}") from None
