"""Reads a text file that the user named. A file above a largest size is refused. Errors are one sentence."""

from __future__ import annotations

import stat
from pathlib import Path

from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import nearest

# The largest known lab takes about 100 kB. A larger file was named by mistake.
MAX_BYTES = 1024 * 1024


def read_text(path: str | Path, what: str, origin: str = "") -> str:
    """Return the text of ``path``. ``what`` describes the expected content (``a lab file``). Raises ConfigError.

    ``origin`` is a sentence that says where such a file comes from, for a user who has none.
    """
    where = Where(str(path))
    try:
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            raise ConfigError(f"this is a directory; expected {what}", where)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"this is not a regular file; expected {what}", where)
        if status.st_size > MAX_BYTES:
            megabytes = status.st_size / 1e6
            raise ConfigError(f"{megabytes:.1f} MB is too large for {what}; at most 1 MiB is read", where)
        # Files of /proc are empty for `stat`. To read some of them takes for ever.
        content = Path(path).read_bytes() if status.st_size else b""
    except FileNotFoundError:
        raise ConfigError(_missing(Path(path), f"{what}; {origin}" if origin else what), where) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a valid path"
        raise ConfigError(f"this cannot be read ({reason}); expected {what}", where) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{content[error.start]:02x} is not UTF-8 text; expected {what}"
        raise ConfigError(message, Where(str(path), line)) from None


def _missing(path: Path, what: str) -> str:
    try:
        neighbours = {entry.name.lower(): entry.name for entry in path.parent.iterdir() if entry.is_file()}
    except (FileNotFoundError, NotADirectoryError):
        return f"neither this file nor its directory '{path.parent}' exists; expected {what}"
    except OSError:  # a directory that may be searched, but not listed
        neighbours = {}
    near = nearest(path.name, neighbours)
    if near is None:
        return f"this file does not exist; expected {what}"
    return f"this file does not exist, did you mean '{path.parent / neighbours[near]}'?"
