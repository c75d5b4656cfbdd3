"""Downloads the files of a build from a web server, once for each version of them."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from pytest_pinet.builds.archives import MAX_BYTES
from pytest_pinet.builds.cache import keep_once
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import is_url
from pytest_pinet.version import __version__

TIMEOUT_S = 60.0
# The list of the modules of a large kernel takes 1 MB.
MAX_METADATA = 2**24
# How servers answer for a file that they do not have. Object stores without a list of their files say 403.
_MISSING = (403, 404, 410)


def fetch_metadata(place: str, name: str) -> tuple[bytes, str]:
    """Return the file ``name`` below the URL ``place``, or else the content of ``place`` itself; and its URL.

    Raises ConfigError.
    """
    below = f"{place.rstrip('/')}/{name}"
    try:
        return _get(below, MAX_METADATA), below
    except HTTPError as error:
        if error.code not in _MISSING:
            raise _unreadable(below, error) from None
    except (OSError, HTTPException, ValueError) as error:
        raise _unreadable(below, error) from None
    try:
        return _get(place, MAX_METADATA), place
    except (OSError, HTTPException, ValueError) as error:
        raise _unreadable(below, error) from None


def fetch_files(urls: Mapping[str, str]) -> Path:
    """Return a folder with these files, by their path in it. Files of the same version come from the cache.

    Raises ConfigError.
    """
    for url in urls.values():
        if not is_url(url):
            raise ConfigError(f"{url[:200]} cannot be downloaded; expected a URL that begins with https:// or http://")
    versions = sorted((name, url, _version(url)) for name, url in urls.items())
    key = hashlib.sha256(json.dumps(versions).encode()).hexdigest()
    try:
        return keep_once(key, lambda: ((name, _file(url)) for name, url in urls.items()))
    except OSError as error:
        raise ConfigError(f"the files of the build cannot be kept in the cache ({error.strerror})") from None


def _file(url: str) -> bytes:
    try:
        return _get(url, MAX_BYTES)
    except (OSError, HTTPException, ValueError) as error:
        raise _unreadable(url, error) from None


def _version(url: str) -> str:
    """Return what a server says of the version of a file. Without an answer, the file is downloaded again."""
    try:
        with _open(url, "HEAD") as reply:
            known = [reply.headers.get(name) for name in ("ETag", "Last-Modified")]
            size = reply.headers.get("Content-Length")
    except HTTPError as error:
        if error.code in _MISSING:
            raise _unreadable(url, error) from None
        known = []
    except (OSError, HTTPException, ValueError) as error:
        raise _unreadable(url, error) from None
    return json.dumps([*known, size]) if any(known) else secrets.token_hex(16)


def _get(url: str, most: int) -> bytes:
    with _open(url, "GET") as reply:
        data = reply.read(most + 1)
        if len(data) > most:
            raise ValueError(f"it has more than {most // 2**20} MiB")
        return data


def _open(url: str, method: str) -> HTTPResponse:
    request = Request(url, method=method, headers={"User-Agent": f"pytest-pinet/{__version__}"})
    return cast(HTTPResponse, urlopen(request, timeout=TIMEOUT_S))


def _unreadable(url: str, error: Exception) -> ConfigError:
    reason = f"the server answers {error.code} {error.reason}" if isinstance(error, HTTPError) else str(error)
    return ConfigError(f"{url} cannot be downloaded: {' '.join(reason.split())[:200] or type(error).__name__}")
