"""Send the heartbeat of this process and watch the heartbeats of other holders, in the coordinator session's thread."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import grpc
from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

from pytest_pinet.lab.labgrid.heartbeat import BEAT_S, TAG, Heartbeat, Watch
from pytest_pinet.lab.labgrid.identity import Identity

_log = logging.getLogger(__name__)
# A coordinator that is slower than this is blocked (an exporter may hold its lock for 10 s); it blocks all heartbeats
# too.
ANSWER_S = 2.0


class HeartbeatService:
    """Sends beats for the places that this process holds, and releases the places of dead holders.

    Only one place of a holder carries its beat. The coordinator thus handles one short call per holder and BEAT_S.
    """

    def __init__(self, session: Any, identity: Identity) -> None:
        self._session = session
        self._identity = identity
        self._since: dict[str, float] = {}
        self._beacon: str | None = None
        self._count = 0
        self._lock = asyncio.Lock()
        self._watch = Watch()
        self._looked = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        # Two tasks, so that a slow check of other holders does not delay our own beats.
        self._tasks = [loop.create_task(self._repeat(self._beat)), loop.create_task(self._repeat(self._look))]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await asyncio.wait_for(step(), 2 * BEAT_S)
            except asyncio.CancelledError:
                # gRPC also cancels a call when its channel is closed. Only a cancelled task ends the loop.
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
            except Exception as error:
                # The coordinator may be away; every other call reports that. The next round tries again.
                _log.debug("%s: %r", step.__name__, error)
            await asyncio.sleep(BEAT_S)

    async def acquire(self, request: Any) -> None:
        """Acquire a place. Raises the errors of gRPC."""
        name = request.placename
        # Noted before the answer: an interrupted call may have acquired the place.
        self._since[name] = time.time()
        try:
            await self._session.stub.AcquirePlace(request)
        except grpc.aio.AioRpcError:
            self._since.pop(name, None)
            raise
        if Heartbeat.parse(self._session.places[name].tags.get(TAG)) is not None:
            # A previous holder, which lost the place in a restart of the coordinator, left this tag.
            await self._tag(name, "")
        if self._beacon is None:
            # Beat at once, so that waiting processes see the start of the lease.
            self._tasks.append(asyncio.get_running_loop().create_task(self._first_beat()))

    async def _first_beat(self) -> None:
        with suppress(Exception):
            await self._session.sync_with_coordinator()
            await self._beat()

    async def release(self, request: Any) -> None:
        """Release the place of a holder, ourselves or a dead one, and clear its tag. Raises the errors of gRPC."""
        name, holder = request.placename, Identity.parse(request.fromuser)
        async with self._lock:
            if holder == self._identity:
                self._since.pop(name, None)
                if self._beacon == name:
                    self._beacon = None
            place = self._session.places.get(name)
            if place is not None and Heartbeat.of(holder, place.tags.get(TAG)) is not None:
                await self._tag(name, "")
            await self._session.stub.ReleasePlace(request)

    async def _tag(self, place: str, text: str) -> None:
        await self._session.stub.SetPlaceTags(pb.SetPlaceTagsRequest(placename=place, tags={TAG: text}))

    async def _beat(self) -> None:
        async with self._lock:
            places = self._session.places
            ours = [name for name in self._since if name in places and places[name].acquired == str(self._identity)]
            if self._beacon not in ours:
                self._beacon = min(ours, default=None)
            if self._beacon is not None:
                self._count += 1
                beat = Heartbeat(self._identity.mark, self._count, self._since[self._beacon])
                await self._tag(self._beacon, str(beat))

    async def _look(self) -> None:
        """Release the places of every holder whose heartbeat stopped while the coordinator was answering."""
        counts: dict[Identity, int | None] = {}
        held: dict[Identity, list[str]] = {}
        for name, place in self._session.places.items():
            holder = Identity.parse(place.acquired) if place.acquired else None
            if holder is None or holder == self._identity or not holder.beats:
                continue
            beat = Heartbeat.of(holder, place.tags.get(TAG))
            counts[holder] = beat.count if beat is not None else counts.get(holder)
            held.setdefault(holder, []).append(name)
        now = time.monotonic()
        watched_s = min(now - self._looked, 2 * BEAT_S)
        self._looked = now
        if counts:
            # This call needs the coordinator's lock, as heartbeats do. It shows whether the coordinator can process
            # heartbeats.
            try:
                await asyncio.wait_for(self._session.stub.GetReservations(pb.GetReservationsRequest()), ANSWER_S)
            except (grpc.aio.AioRpcError, TimeoutError):
                watched_s = 0.0
        for holder in self._watch.look(counts, watched_s):
            for name in sorted(held[holder]):
                await self.release(pb.ReleasePlaceRequest(placename=name, fromuser=str(holder)))
