"""An SNMP manager for one agent: get, walk and set by object number, for code without asyncio.

It uses pysnmp, from 5.1 (the version that ``labgrid[snmp]`` allows) up to 7. Only this file handles their differences.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from pytest_pinet.errors import ConfigError, SwitchError, Where
from pytest_pinet.execution.tasks import end_other_tasks
from pytest_pinet.lab.switch.snmp_proxy import SnmpProxy

Oid = tuple[int, ...]
Value = int | bytes | Oid
T = TypeVar("T")

# At 30 bytes each, this many values fit into one Ethernet frame. An agent with a smaller limit answers tooBig.
BATCH = 32
# The rows of a walk's first request. Rows after the end of a short column are useless, and may be slow to compute.
FIRST_ROWS = 4
_TOO_BIG, _NO_SUCH_NAME = 1, 2
# The errors for a user with read access only (RFC 3416): noAccess, readOnly, authorizationError.
_NOT_ALLOWED = frozenset({6, 4, 16})
_NOT_WRITABLE = 17
# A set of a number to this text changes nothing. An agent checks the access first, and then the type (RFC 3416, 4.2.5).
_WRONG_TYPE = b"?"
# If an agent is too slow for the first try, the second gets an answer.
TRIES = 2
_AUTH = {
    "md5": "usmHMACMD5AuthProtocol",
    "sha": "usmHMACSHAAuthProtocol",
    "sha224": "usmHMAC128SHA224AuthProtocol",
    "sha256": "usmHMAC192SHA256AuthProtocol",
    "sha384": "usmHMAC256SHA384AuthProtocol",
    "sha512": "usmHMAC384SHA512AuthProtocol",
}
_PRIV = {
    "des": "usmDESPrivProtocol",
    "3des": "usm3DESEDEPrivProtocol",
    "aes": "usmAesCfb128Protocol",
    "aes192": "usmAesCfb192Protocol",
    "aes256": "usmAesCfb256Protocol",
}


class Unsigned(int):
    """A number that is sent as Unsigned32 (Gauge32), not as Integer32."""


@dataclass(frozen=True)
class Access:
    """The address and the credentials of an agent; ``where`` is their place in the lab file.

    Version 3 uses ``user`` and the two keys, the other versions a community (``write_community``: for sets).
    """

    name: str
    host: str
    port: int
    where: Where
    version: str = "2c"
    community: str = "public"
    write_community: str | None = None
    user: str = ""
    auth_protocol: str = "sha256"
    auth_key: str = ""
    priv_protocol: str = "aes"
    priv_key: str = ""
    timeout_s: float = 5.0


class Refusal(SwitchError):
    """The agent refused a set: ``status`` is the error-status of RFC 3416, ``oid`` the object that it names."""

    def __init__(self, message: str, act: str, status: int, oid: Oid | None) -> None:
        super().__init__(message, act)
        self.status = status
        self.oid = oid

    @property
    def not_allowed(self) -> bool:
        """Whether the refusal is final, so that another form of the request cannot help."""
        return self.status in _NOT_ALLOWED or self.status == _NOT_WRITABLE


class SnmpClient:
    """Talks to one agent, directly or through a proxy.

    All methods raise SwitchError when the agent does not answer in time, and SshError when the proxy does not.
    """

    def __init__(self, access: Access, proxy: SnmpProxy | None = None) -> None:
        self._access = access
        self._proxy = proxy
        with warnings.catch_warnings():
            # pysnmp 5 imports deprecated names. The warnings are ignored, so that `python -W error` works.
            warnings.simplefilter("ignore")
            self._api = _import(access)
        # A separate event loop: labgrid's coordinator session has set a loop that cannot be shared.
        self._loop = asyncio.new_event_loop()
        self._engine: Any = None
        self._target: Any = None

    @property
    def name(self) -> str:
        return self._access.name

    def get(self, oids: Sequence[Oid]) -> list[Value | None]:
        """Return the values of these instances, in the same order; None for instances that the agent does not have."""
        found: list[tuple[Oid, Value | None]] = []
        for start in range(0, len(oids), BATCH):
            found += self._read("get", oids[start : start + BATCH])
        return [value for _, value in found]

    def following(self, oids: Sequence[Oid]) -> list[Oid]:
        """Return the name of the next instance after each of these in the agent's order; empty at the end."""
        return [() if value is None else oid for oid, value in self._read("next", oids)]

    def _read(self, verb: str, oids: Sequence[Oid]) -> list[tuple[Oid, Value | None]]:
        if not oids:
            return []
        status, index, binds = self._request(verb, oids)
        if status == 0:
            return binds
        if status == _TOO_BIG and len(oids) > 1:
            half = len(oids) // 2
            return self._read(verb, oids[:half]) + self._read(verb, oids[half:])
        if status == _NO_SUCH_NAME and index:
            # If one instance is missing, SNMPv1 returns no value at all.
            return [*self._read(verb, oids[: index - 1]), (oids[index - 1], None), *self._read(verb, oids[index:])]
        raise self._refusal("read", status, oids, index)

    def columns(self, columns: Sequence[Oid]) -> dict[Oid, dict[Oid, Value]]:
        """Walk these columns in parallel; return for each column its values by index."""
        found: dict[Oid, dict[Oid, Value]] = {column: {} for column in columns}
        cursors = {column: column for column in columns}
        rows = FIRST_ROWS
        while cursors:
            for column, last in self._page(cursors, rows, found).items():
                if last is None:
                    del cursors[column]
                else:
                    cursors[column] = last
            rows *= 4
        return found

    def _page(
        self, cursors: Mapping[Oid, Oid], count: int, found: dict[Oid, dict[Oid, Value]]
    ) -> dict[Oid, Oid | None]:
        """Add one answer to ``found``; return for each column the last name, or None at the column's end."""
        order = list(cursors)
        if self._access.version == "1":
            rows = self._read("next", [*cursors.values()])
        else:
            status, index, rows = self._request("bulk", [*cursors.values()], rows=count)
            if status:
                raise self._refusal("read", status, order, index)
        reached: dict[Oid, Oid | None] = dict.fromkeys(order) if not rows else {}
        for number, (oid, value) in enumerate(rows):
            column = order[number % len(order)]
            if reached.get(column, ()) is None:
                continue
            # An agent whose names do not increase would be walked for ever.
            if value is None or oid[: len(column)] != column or oid <= (reached.get(column) or cursors[column]):
                reached[column] = None
                continue
            found[column][oid[len(column) :]] = value
            reached[column] = oid
        return reached

    def set(self, values: Sequence[tuple[Oid, int | bytes]]) -> None:
        """Set all of these or none (RFC 3416), in one request. Raises Refusal."""
        oids = [oid for oid, _ in values]
        status, index, _ = self._request("set", oids, [value for _, value in values])
        if status:
            raise self._refusal("set", status, oids, index)

    def may_set(self, oid: Oid) -> bool:
        """Return whether these credentials may set this instance of a number. Changes nothing on the agent."""
        status, _, _ = self._request("set", [oid], [_WRONG_TYPE])
        # SNMPv1 has noSuchName for all of these.
        return status not in {*_NOT_ALLOWED, _NOT_WRITABLE, _NO_SUCH_NAME}

    @property
    def _place(self) -> str:
        way = "" if self._proxy is None else f" through {self._proxy}"
        return f"{self._access.host}:{self._access.port}{way}"

    @property
    def who(self) -> str:
        """The words for the credentials in messages."""
        return f"user {self._access.user!r}" if self._access.version == "3" else "this community"

    def set_each(self, values: Sequence[tuple[Oid, int | bytes]]) -> None:
        """Set all, together if the agent accepts that, else one by one. Raises Refusal."""
        for start in range(0, len(values), BATCH):
            chunk = values[start : start + BATCH]
            try:
                self.set(chunk)
            except Refusal as refusal:
                if refusal.not_allowed or len(chunk) == 1:
                    raise
                for one in chunk:
                    self.set([one])

    def close(self) -> None:
        """Free the sockets; a second call does nothing."""
        if self._proxy is not None:
            self._proxy.close()
        if self._loop.is_closed():
            return
        if self._engine is not None:
            self._loop.run_until_complete(self._stop())
        self._loop.close()

    async def _stop(self) -> None:
        if hasattr(self._engine, "close_dispatcher"):
            self._engine.close_dispatcher()
        elif self._engine.transportDispatcher is not None:
            self._engine.transportDispatcher.closeDispatcher()
        await end_other_tasks()

    async def _start(self) -> None:
        # Create the engine inside the running loop: pysnmp 5 binds to the loop at creation.
        access, api = self._access, self._api
        self._engine = api.SnmpEngine()
        address = (access.host, access.port) if self._proxy is None else self._proxy.open()
        target = api.Udp6TransportTarget if ":" in address[0] else api.UdpTransportTarget
        pause = access.timeout_s / TRIES
        made = getattr(target, "create", target)(address, timeout=pause, retries=TRIES - 1)
        self._target = await made if isinstance(made, Awaitable) else made

    def _credentials(self, writing: bool) -> Any:
        access, api = self._access, self._api
        if access.version != "3":
            community = access.write_community if writing and access.write_community else access.community
            return api.CommunityData(community, mpModel=0 if access.version == "1" else 1)
        return api.UsmUserData(
            access.user,
            access.auth_key,
            access.priv_key,
            authProtocol=getattr(api, _AUTH[access.auth_protocol]),
            privProtocol=getattr(api, _PRIV[access.priv_protocol]),
        )

    def _request(
        self, verb: str, oids: Sequence[Oid], values: Sequence[int | bytes] | None = None, rows: int = 1
    ) -> tuple[int, int, list[tuple[Oid, Value | None]]]:
        """Send one request; return the agent's error-status, error-index and values."""
        api = self._api
        if self._proxy is not None:
            self._proxy.open()
        names = [api.ObjectIdentity(oid) for oid in oids]
        if values is None:
            binds = [api.ObjectType(name) for name in names]
        else:
            binds = [api.ObjectType(n, _outgoing(api, v)) for n, v in zip(names, values, strict=True)]
        more = (0, max(1, min(rows, BATCH // len(oids)))) if verb == "bulk" else ()
        # The names in pysnmp 7 and in pysnmp 5.
        call = getattr(api, f"{verb}_cmd", None) or getattr(api, f"{verb}Cmd")

        async def ask() -> Any:
            if self._engine is None:
                await self._start()
            credentials = self._credentials(verb == "set")
            return await call(
                self._engine, credentials, self._target, api.ContextData(), *more, *binds, lookupMib=False
            )

        indication, status, index, answer = self._run(ask())
        if indication:
            raise self._no_answer(verb, str(indication), isinstance(indication, self._api.RequestTimedOut))
        # For next and bulk, pysnmp 5 returns rows of variables, pysnmp 7 one list.
        flat = [entry for row in answer for entry in (row if isinstance(row, list) else [row])]
        return int(status), int(index), [(tuple(oid), _incoming(value)) for oid, value in flat]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        access = self._access
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._loop.run_until_complete(asyncio.wait_for(work, access.timeout_s + 2))
        except TimeoutError:
            raise self._no_answer("ask", "", True) from None
        except (self._api.PySnmpError, OSError) as error:
            raise SwitchError(
                f"switch {access.name}: SNMP with {self._place} failed: "
                f"{str(error).partition('caused by')[0].rstrip()}",
                f"correct the settings of {access.name} in {access.where}",
            ) from None

    def _no_answer(self, verb: str, why: str, timed_out: bool) -> SwitchError:
        access = self._access
        if timed_out:
            if self._proxy is not None:
                self._proxy.check()
            secret = "user" if access.version == "3" else "write_community" if verb == "set" else "community"
            sets = "; if it may only be read, write `read_only: true`" if verb == "set" else ""
            return SwitchError(
                f"switch {access.name} does not answer SNMP version {access.version} at {self._place} "
                f"within {access.timeout_s:g} s",
                f"check that the switch has power, and check its address and {secret} in {access.where}{sets}",
            )
        return SwitchError(
            f"switch {access.name} at {self._place} refused SNMP: {why}",
            f"correct user, protocols and keys of {access.name} in {access.where}",
        )

    def _refusal(self, verb: str, status: int, oids: Sequence[Oid], index: int) -> Refusal:
        """Return the error for a request for ``oids``; ``index`` counts from 1, 0 names none."""
        access = self._access
        oid = oids[index - 1] if 0 < index <= len(oids) else None
        name = self._api.errorStatus.get(status, f"error {status}")
        about = f" ({'.'.join(map(str, oid))})" if oid else ""
        act = "the lab's admin: look at the switch"
        if status in _NOT_ALLOWED:
            name += f": {self.who} has read access only" if verb == "set" else f": {self.who} has no read access"
            setting = "user" if access.version == "3" else "write_community"
            act = f"in {access.where}, give {access.name} a {setting} with write access"
        return Refusal(f"switch {access.name} refused to {verb}{about}: {name}", act, status, oid)


class _Api:
    """The names of pysnmp that are used here, for all supported versions."""

    def __init__(self, hlapi: ModuleType) -> None:
        from pysnmp.error import PySnmpError
        from pysnmp.proto import errind, rfc1902, rfc1905

        self._hlapi = hlapi
        self.PySnmpError = PySnmpError
        self.RequestTimedOut = errind.RequestTimedOut
        self.Integer32, self.Unsigned32 = rfc1902.Integer32, rfc1902.Unsigned32
        self.OctetString = rfc1902.OctetString
        named = rfc1905.ErrorStatus.namedValues if hasattr(rfc1905, "ErrorStatus") else rfc1905.errorStatus.namedValues
        self.errorStatus = {int(number): str(name) for name, number in named.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hlapi, name)


def _import(access: Access) -> Any:
    try:
        import pysnmp  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"switch {access.name!r} with backend 'snmp' needs pysnmp: pip install 'pytest-pinet[snmp]'", access.where
        ) from None
    try:
        from pysnmp.hlapi.v3arch import asyncio as hlapi
    except ImportError:  # before 7
        from pysnmp.hlapi import asyncio as hlapi
    return _Api(hlapi)


def _outgoing(api: Any, value: int | bytes) -> Any:
    if isinstance(value, bytes):
        return api.OctetString(value)
    return api.Unsigned32(int(value)) if isinstance(value, Unsigned) else api.Integer32(value)


def _incoming(value: Any) -> Value | None:
    """Return a number, octets or an object name; None for a missing value."""
    kind = type(value).__name__
    if kind in ("NoSuchObject", "NoSuchInstance", "EndOfMibView", "Null", "UnSpecified"):
        return None
    if hasattr(value, "asOctets"):
        return bytes(value.asOctets())
    if hasattr(value, "asTuple"):
        return tuple(value.asTuple())
    return int(value)
