"""The one session with labgrid's coordinator that a process has: places, their holders, acquire and release.

It lives in a thread of its own, so that the process goes on showing signs of life, and seeing those of others, while a
test runs. The gRPC stub is called directly, since labgrid's own client methods read command line arguments and print.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from pytest_pinet.errors import CoordinatorError, LeaseError
from pytest_pinet.lab.heartbeat import TAG, Beat
from pytest_pinet.lab.identity import Identity

CALL_TIMEOUT_S = 15.0
# How long a coordinator that was there may be away before its users give up; a restart takes a second or two, a service
# manager's pause before it may be longer.
RETURN_TIMEOUT_S = 30.0
DEFAULT_ADDRESS = "127.0.0.1:20408"
# What labgrid's coordinator says of a place that somebody has.
_TAKEN = "is already acquired"
_ACT = "the lab's admin: is labgrid-coordinator running there, and reachable from here?"


def address_of(environment: Any) -> str:
    """Where the coordinator of a labgrid environment is."""
    named = environment.config.get_option("coordinator_address", "") or os.environ.get("LG_COORDINATOR")
    return str(named or DEFAULT_ADDRESS)


@dataclass(frozen=True)
class Holding:
    """Who holds a place, and since when (s since 1970; None when it cannot be told)."""

    holder: Identity
    since: float | None

    def __str__(self) -> str:
        if self.since is None:
            return str(self.holder)
        then = time.localtime(self.since)
        today = time.strftime("%F", then) == time.strftime("%F")
        return f"{self.holder} since {time.strftime('%T' if today else '%F %T', then)}"


class Coordinator:
    """Connects on construction. Raises CoordinatorError when nobody answers in time.

    Once the connection is lost every call raises CoordinatorError until ``reconnect``: what was held may be lost.
    """

    def __init__(self, address: str, identity: Identity) -> None:
        # Without it a fork after gRPC was used aborts the process (labgrid#1905).
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
        from labgrid.remote import client

        from pytest_pinet.lab.coordinator_session import ResumableSession
        from pytest_pinet.lab.life import Life

        self.address = address
        self.identity = identity
        identity.export()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="pinet-coordinator", daemon=True)
        self._thread.start()

        async def connect() -> ResumableSession:
            # labgrid's session wants to be made where its loop runs.
            session = ResumableSession(address, self.loop)
            await session.start()
            return session

        try:
            self.session = self._run(connect(), f"the labgrid coordinator at {address} to answer")
            self._life = Life(self.session, identity)
            self._run(self._life.start(), "the heartbeat to start")
        except client.ServerError as error:
            self._end_loop()
            raise CoordinatorError(f"no labgrid coordinator answers at {address}: {error}", _ACT) from error
        except BaseException:
            self._end_loop()
            raise

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def _run(self, call: Coroutine[Any, Any, Any], what: str) -> Any:
        future = asyncio.run_coroutine_threadsafe(call, self.loop)
        try:
            return future.result(CALL_TIMEOUT_S)
        except TimeoutError:
            raise CoordinatorError(f"waited {CALL_TIMEOUT_S:.0f} s for {what}", _ACT) from None
        finally:
            # Harmless when it is done.
            future.cancel()

    @property
    def lost(self) -> bool:
        """Whether the connection has ended."""
        return bool(self.session.stopping.is_set())

    def sync(self) -> None:
        """Take in everything that the coordinator has sent. Raises CoordinatorError when the connection is gone."""

        async def answered() -> bool:
            # Asked here, in the loop's thread: nobody answers a question to a stream that has ended.
            return not self.lost and bool(await self.session.sync_with_coordinator())

        if not self._run(answered(), f"the labgrid coordinator at {self.address} to answer"):
            raise CoordinatorError(f"the connection to the labgrid coordinator at {self.address} was lost", _ACT)

    def reconnect(self, wait: bool) -> None:
        """Connect again after the connection was lost; what was held may be somebody else's now.

        With ``wait``, until RETURN_TIMEOUT_S after the loss. Raises CoordinatorError when nobody answers.
        """
        from labgrid.remote import client

        while True:
            lost_s = time.monotonic() - (self.session.lost_at or time.monotonic())
            try:
                self._run(self.session.start(), f"the labgrid coordinator at {self.address} to answer")
            except (client.ServerError, CoordinatorError) as error:
                if not wait or lost_s > RETURN_TIMEOUT_S:
                    raise CoordinatorError(
                        f"the labgrid coordinator at {self.address} went away {lost_s:.0f} s ago and is not back", _ACT
                    ) from error
                time.sleep(0.3)
            else:
                return

    def await_change(self, timeout_s: float) -> None:
        """Wait until a place changes hands, or the time is over."""
        self.session.freed.wait(timeout_s)
        self.session.freed.clear()

    def places(self) -> list[str]:
        """The names of all places."""
        return sorted(self.session.places)

    def _place(self, name: str) -> Any:
        try:
            return self.session.places[name]
        except KeyError:
            known = ", ".join(self.places()) or "none"
            raise LeaseError(
                f"the coordinator at {self.address} has no place {name!r} (it has: {known})",
                f"labgrid-client -x {self.address} -p {name} create, or correct `place:` in the lab file",
            ) from None

    def holder(self, place: str) -> Identity | None:
        """Who holds this place, as of the last ``sync``. Raises LeaseError when there is no such place."""
        acquired = self._place(place).acquired
        return Identity.parse(acquired) if acquired else None

    def holding(self, place: str) -> Holding | None:
        """Who holds this place and since when, as of the last ``sync``. Raises LeaseError when there is no such place.

        A heartbeat touches the place's own time stamp, so it carries the time.
        """
        holder = self.holder(place)
        if holder is None:
            return None
        entry = self._place(place)
        beat = Beat.of(holder, entry.tags.get(TAG))
        return Holding(holder, entry.changed if beat is None else beat.since)

    def resources(self, place: str) -> frozenset[tuple[str, ...]]:
        """The resources that came with the lease of a place: exporter, group, class and name of each."""
        return frozenset(tuple(path) for path in self._place(place).acquired_resources)

    def offered(self, path: tuple[str, ...]) -> bool:
        """Whether an exporter offers this resource now."""
        exporter, group, _, name = path
        entry = self.session.resources.get(exporter, {}).get(group, {}).get(name)
        return entry is not None and "params" in entry.data

    def left_at(self, exporter: str) -> float | None:
        """When (monotonic) an exporter last went away, if this process saw it."""
        when: float | None = self.session.left_at.get(exporter)
        return when

    def acquire(self, place: str) -> bool:
        """Try to acquire; False when somebody else has it. Raises LeaseError for any other refusal."""
        import grpc
        from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

        self.holder(place)
        try:
            self._run(self._life.acquire(pb.AcquirePlaceRequest(placename=place)), f"place {place}")
        except grpc.aio.AioRpcError as error:
            # Raises the better error when the coordinator is gone.
            self.sync()
            refused = error.code() == grpc.StatusCode.FAILED_PRECONDITION
            # Whoever had it may have let go of it since.
            if refused and (self.holder(place) is not None or _TAKEN in (error.details() or "")):
                return False
            raise LeaseError(
                f"the coordinator refused place {place}: {error.details()}",
                f"labgrid-client -x {self.address} -p {place} show (is its exporter running?)",
            ) from error
        return True

    def release(self, place: str, holder: Identity) -> None:
        """Release a place if ``holder`` still has it; harmless otherwise. Raises CoordinatorError or LeaseError."""
        import grpc
        from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

        request = pb.ReleasePlaceRequest(placename=place, fromuser=str(holder))
        try:
            self._run(self._life.release(request), f"place {place} to be released")
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                return
            self.sync()
            raise LeaseError(f"the coordinator did not release place {place}: {error.details()}") from error

    def close(self) -> None:
        """End the session; never raises, since it runs when everything else is over."""

        async def stop() -> None:
            await self._life.stop()
            self.session.stopping.set()
            await self.session.stop()
            await self.session.close()

        try:
            self._run(stop(), "the coordinator session to stop")
        except Exception:  # noqa: S110  (the coordinator may be gone already, and nothing depends on a goodbye)
            pass
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        if not self.loop.is_running():
            self.loop.close()
