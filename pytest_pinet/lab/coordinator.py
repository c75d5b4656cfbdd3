"""The one session with labgrid's coordinator that a process has: places, their holders, acquire and release.

The gRPC stub is called directly, since labgrid's own client methods read command line arguments and print.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

from pytest_pinet.errors import CoordinatorError, LeaseError
from pytest_pinet.lab.identity import Identity

CALL_TIMEOUT_S = 15.0
_ACT = "the lab's admin: is labgrid-coordinator running there, and reachable from here?"


class Coordinator:
    """Connects on construction. Raises CoordinatorError when nobody answers in time."""

    def __init__(self, address: str, identity: Identity) -> None:
        # Without it a fork after gRPC was used aborts the process (labgrid#1905).
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
        from labgrid.remote import client
        from labgrid.util import labgrid_version  # noqa: F401  (fails early, and clearly, on a broken installation)

        self.address = address
        self.identity = identity
        identity.export()
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.session = client.ClientSession(address, self.loop)
        try:
            self._run(self.session.start(), f"the labgrid coordinator at {address} to answer")
        except client.ServerError as error:
            raise CoordinatorError(f"no labgrid coordinator answers at {address}: {error}", _ACT) from error

    def _run(self, call: Coroutine[Any, Any, Any], what: str) -> Any:
        try:
            return self.loop.run_until_complete(asyncio.wait_for(call, CALL_TIMEOUT_S))
        except TimeoutError:
            raise CoordinatorError(f"waited {CALL_TIMEOUT_S:.0f} s for {what}", _ACT) from None

    def sync(self) -> None:
        """Take in everything that the coordinator has sent. Raises CoordinatorError when the connection is gone."""
        if self.session.stopping.is_set() or not self._run(
            self.session.sync_with_coordinator(), f"the labgrid coordinator at {self.address} to answer"
        ):
            raise CoordinatorError(f"the connection to the labgrid coordinator at {self.address} was lost", _ACT)

    def places(self) -> list[str]:
        """The names of all places."""
        return sorted(self.session.places)

    def holder(self, place: str) -> Identity | None:
        """Who holds this place, as of the last ``sync``. Raises LeaseError when there is no such place."""
        try:
            acquired = self.session.places[place].acquired
        except KeyError:
            known = ", ".join(self.places()) or "none"
            raise LeaseError(
                f"the coordinator at {self.address} has no place {place!r} (it has: {known})",
                f"labgrid-client -x {self.address} -p {place} create, or correct `place:` in the lab file",
            ) from None
        return Identity.parse(acquired) if acquired else None

    def acquire(self, place: str) -> bool:
        """Try to acquire; False when somebody else has it. Raises LeaseError for any other refusal."""
        import grpc
        from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

        self.holder(place)
        try:
            self._run(self.session.stub.AcquirePlace(pb.AcquirePlaceRequest(placename=place)), f"place {place}")
        except grpc.aio.AioRpcError as error:
            self.sync()
            if error.code() == grpc.StatusCode.FAILED_PRECONDITION and self.holder(place) is not None:
                return False
            raise LeaseError(
                f"the coordinator refused place {place}: {error.details()}",
                f"labgrid-client -x {self.address} -p {place} show (is its exporter running?)",
            ) from error
        return True

    def release(self, place: str, holder: Identity) -> None:
        """Release a place if ``holder`` still has it; harmless otherwise."""
        import grpc
        from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

        request = pb.ReleasePlaceRequest(placename=place, fromuser=str(holder))
        try:
            self._run(self.session.stub.ReleasePlace(request), f"place {place} to be released")
        except grpc.aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.FAILED_PRECONDITION:
                raise LeaseError(f"the coordinator did not release place {place}: {error.details()}") from error

    def close(self) -> None:
        """End the session; never raises, since it runs when everything else is over."""
        try:
            self.session.stopping.set()
            self._run(self.session.stop(), "the coordinator session to stop")
            self._run(self.session.close(), "the coordinator session to close")
        except Exception:  # noqa: S110  (the coordinator may be gone already, and nothing depends on a goodbye)
            pass
        finally:
            self.loop.close()
            asyncio.set_event_loop(None)
