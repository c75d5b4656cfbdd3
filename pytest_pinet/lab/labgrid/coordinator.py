"""The session of this process with labgrid's coordinator: lists places and their holders, acquires and releases places.

The session has its own thread. It sends heartbeats and checks the heartbeats of other processes while a test runs. The
gRPC stub is called directly, since labgrid's own client methods read command line arguments and print.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from pytest_pinet.errors import CoordinatorError, LeaseError, SshError
from pytest_pinet.execution.tasks import end_other_tasks
from pytest_pinet.lab.labgrid.identity import BEAT_S, STILL_S, TAG, Heartbeat, Holding, Identity

CALL_TIMEOUT_S = 15.0
# How long the coordinator may be away before its users give up. A restart takes a second or two; the service manager
# may wait longer before the restart.
RETURN_TIMEOUT_S = 30.0
# How long the last tasks of a closed session may take. After a closed stream, gRPC only takes note of the status.
LAST_TASKS_S = 1.0
DEFAULT_ADDRESS = "127.0.0.1:20408"
# Part of the coordinator's message for a place that another user holds.
_TAKEN = "is already acquired"
_ACT = "the lab's admin: check that labgrid-coordinator runs there and can be reached from here"


def address_of(environment: Any) -> str:
    """Return the address of the coordinator of a labgrid environment."""
    named = environment.config.get_option("coordinator_address", "") or os.environ.get("LG_COORDINATOR")
    return str(named or DEFAULT_ADDRESS)


class Coordinator:
    """A connection to the coordinator. The constructor raises CoordinatorError when no coordinator answers in time.

    Once the connection is lost, every call raises CoordinatorError until ``reconnect``: the held places may be lost.
    """

    # A holder without a heartbeat for so long has ended.
    dead_after_s = STILL_S + 3 * BEAT_S

    def __init__(self, address: str, identity: Identity) -> None:
        # Without this setting, a fork after the use of gRPC aborts the process (labgrid#1905).
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
        from labgrid.remote import client

        from pytest_pinet.lab.labgrid.coordinator_session import HeartbeatService, ResumableSession

        self.address = address
        self.identity = identity
        identity.export()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="pinet-coordinator", daemon=True)
        self._thread.start()

        async def connect() -> ResumableSession:
            # labgrid's session must be created in the thread of its loop.
            session = ResumableSession(address, self.loop)
            await session.start()
            return session

        try:
            self.session = self._run(connect(), f"the labgrid coordinator at {address} to answer")
            self._heartbeat = HeartbeatService(self.session, identity)
            self._run(self._heartbeat.start(), "the heartbeat to start")
        except client.ServerError as error:
            self._end_loop()
            raise CoordinatorError(f"no labgrid coordinator answers at {address}: {error}", _ACT) from error
        except BaseException:
            self._end_loop()
            raise

    def expand_places(self) -> None:
        """Make labgrid expand the places of its targets through this session from now on."""
        from pytest_pinet.lab.labgrid.coordinator_session import CoalescingPlaceManager

        CoalescingPlaceManager.install(self.session)

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
            # Does nothing to a completed call.
            future.cancel()

    @property
    def lost(self) -> bool:
        return bool(self.session.stopping.is_set())

    def sync(self) -> None:
        """Wait for all events that the coordinator has sent. Raises CoordinatorError if the connection is lost."""

        async def answered() -> bool:
            # `lost` is checked in the loop's thread: a request on an ended stream never gets an answer.
            return not self.lost and bool(await self.session.sync_with_coordinator())

        if not self._run(answered(), f"the labgrid coordinator at {self.address} to answer"):
            raise CoordinatorError(f"the connection to the labgrid coordinator at {self.address} was lost", _ACT)

    def reconnect(self, wait: bool) -> None:
        """Connect again after the connection was lost. Places that were held may have a new holder.

        With ``wait``, retry until RETURN_TIMEOUT_S after the loss. Raises CoordinatorError when no coordinator answers.
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
        """Return the holder of this place, as of the last ``sync``. Raises LeaseError when there is no such place."""
        acquired = self._place(place).acquired
        return Identity.parse(acquired) if acquired else None

    def holding(self, place: str) -> Holding | None:
        """Return the holder of this place and the start of its lease, as of the last ``sync``. Raises LeaseError."""
        holder = self.holder(place)
        if holder is None:
            return None
        entry = self._place(place)
        # A heartbeat changes the place's own time stamp. Therefore the heartbeat carries the start of the lease.
        beat = Heartbeat.of(holder, entry.tags.get(TAG))
        return Holding(holder, entry.changed if beat is None else beat.since)

    def silence(self, place: str) -> SshError | None:
        """Return None: a place can be leased whether or not its board answers."""
        return None

    def way_to_release(self, place: str) -> str:
        """Return the command by which a person releases a place that another user holds."""
        return f"labgrid-client -x {self.address} -p {place} release --kick"

    def service_of(self, place: str) -> tuple[str, int, str] | None:
        """Return host, port and user of the ssh server that an exporter offers for this place; None if none does."""
        matches = self._place(place).matches
        for exporter, groups in self.session.resources.items():
            for group, entries in groups.items():
                for name, entry in entries.items():
                    path = (exporter, group, entry.cls, name)
                    if entry.cls == "NetworkService" and any(match.ismatch(path) for match in matches):
                        # The resources of a lost exporter stay listed, without parameters.
                        found = entry.data.get("params")
                        if not found:
                            return None
                        return str(found["address"]), int(found.get("port", 22)), str(found.get("username", ""))
        return None

    def resources(self, place: str) -> frozenset[tuple[str, ...]]:
        """Return the resources that came with the lease of a place: exporter, group, class and name of each."""
        return frozenset(tuple(path) for path in self._place(place).acquired_resources)

    def offered(self, path: tuple[str, ...]) -> bool:
        """Return whether an exporter offers this resource now."""
        exporter, group, _, name = path
        entry = self.session.resources.get(exporter, {}).get(group, {}).get(name)
        return entry is not None and "params" in entry.data

    def left_at(self, exporter: str) -> float | None:
        """Return when (monotonic) an exporter last went away, or None if this process did not see it."""
        when: float | None = self.session.left_at.get(exporter)
        return when

    def acquire(self, place: str) -> bool:
        """Try to acquire a place; return False if another user holds it. Raises LeaseError for any other refusal."""
        import grpc

        self.holder(place)
        try:
            self._run(self._heartbeat.acquire(place), f"place {place}")
        except grpc.aio.AioRpcError as error:
            # If the coordinator is gone, `sync` raises the clearer error.
            self.sync()
            refused = error.code() == grpc.StatusCode.FAILED_PRECONDITION
            # The holder may have released the place since the refusal.
            if refused and (self.holder(place) is not None or _TAKEN in (error.details() or "")):
                return False
            raise LeaseError(
                f"the coordinator did not let this run acquire place {place}: {error.details()}",
                f"labgrid-client -x {self.address} -p {place} show; check that its exporter runs",
            ) from error
        return True

    def release(self, place: str, holder: Identity) -> None:
        """Release a place if ``holder`` still holds it, else do nothing. Raises CoordinatorError or LeaseError."""
        import grpc

        try:
            self._run(self._heartbeat.release(place, holder), f"place {place} to be released")
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                return
            self.sync()
            raise LeaseError(f"the coordinator did not release place {place}: {error.details()}") from error

    def close(self) -> None:
        """End the session. Never raises, because it runs at the end of the cleanup."""

        async def stop() -> None:
            await self._heartbeat.stop()
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
        with suppress(CoordinatorError):
            self._run(end_other_tasks(LAST_TASKS_S), "the last tasks of the coordinator session")
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        if not self.loop.is_running():
            self.loop.close()
