"""Read the files that a Debian package installs, with their links and modes, without dpkg."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from pytest_pinet.builds.packed import Unreadable, deb_data, unpacked
from pytest_pinet.errors import LabError


def data_of(package: Path) -> tarfile.TarFile:
    """Open the archive of the files that a package installs. Raises LabError if the file is no package."""
    try:
        # Unpack the data first. In packed data, tarfile would unpack everything before a file for each file it reads.
        return tarfile.open(fileobj=io.BytesIO(unpacked(deb_data(package))), mode="r:")
    except (Unreadable, tarfile.TarError) as error:
        raise LabError(f"{package} cannot be unpacked: {error}") from None
