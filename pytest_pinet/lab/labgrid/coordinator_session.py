"""labgrid's client session and its manager of places, extended, and the heartbeats in the thread of the session.

Session and manager survive a restart of coordinator or exporter. We found no labgrid issue that requests a client that
reconnects. The overridden names are public but not documented: tests/unit/lab/labgrid/test_private.py fails when
labgrid changes them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import grpc
from labgrid.remote.client import ClientSession
from labgrid.remote.generated import labgrid_coordinator_pb2 as pb
from labgrid.remote.generated import labgrid_coordinator_pb2_grpc
from labgrid.resource.common import ResourceManager
from labgrid.resource.remote import RemotePlaceManager

from pytest_pinet.lab.labgrid.identity import BEAT_S, TAG, Heartbeat, Identity, Watch
from pytest_pinet.lab.labgrid_private import remote_data

_log = logging.getLogger(__name__)
POLL_INTERVAL_S = 0.5
# A coordinator that is slower than this is blocked (an exporter may hold its lock for 10 s); it blocks all heartbeats
# too.
ANSWER_S = 2.0
_CHANNEL_OPTIONS = [
    # The next four options are the options of labgrid's client.
    ("grpc.keepalive_time_ms", 7500),
    ("grpc.keepalive_timeout_ms", 10000),
    ("grpc.http2.ping_timeout_ms", 10000),
    ("grpc.http2.max_pings_without_data", 0),
    # Without this option a new channel inherits the retry delay of an old one to the same address (up to 120 s).
    ("grpc.use_local_subchannel_pool", 1),
]


class ResumableSession(ClientSession):  # type: ignore[misc]  # labgrid is not typed
    """A ClientSession whose ``start`` may be called again once the stream has ended.

    labgrid's targets keep references to resource entries, so the same entry objects are filled again. ``freed`` is set
    whenever a place changes hands.
    """

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.channel = grpc.aio.insecure_channel(self.address, options=_CHANNEL_OPTIONS)
        self.stub = labgrid_coordinator_pb2_grpc.CoordinatorStub(self.channel)
        self.freed = threading.Event()
        self.lost_at: float | None = None
        self.left_at: dict[str, float] = {}
        self._kept: dict[tuple[str, str, str], Any] = {}
        self.resources: dict[str, Any] = {}
        self.places: dict[str, Any] = {}

    async def start(self) -> None:
        if self.pump_task is not None:
            # Wait for the end of the old pump, which would stop the new stream.
            self.pump_task.cancel()
            await asyncio.gather(self.pump_task, return_exceptions=True)
            await self.channel.close()
            freed, lost_at, left_at, kept = self.freed, self.lost_at, self.left_at, dict(self._kept)
            for exporter, groups in self.resources.items():
                for group, entries in groups.items():
                    for name, entry in entries.items():
                        kept[exporter, group, name] = entry
            self.__attrs_post_init__()
            self.freed, self.lost_at, self.left_at, self._kept = freed, lost_at, left_at, kept
        await super().start()
        self.lost_at = None

    async def message_pump(self) -> None:
        try:
            await super().message_pump()
        finally:
            if self.lost_at is None:
                self.lost_at = time.monotonic()
            self.freed.set()

    async def on_resource_changed(self, exporter: str, group_name: str, resource_name: str, resource: Any) -> None:
        if not resource:
            self.left_at[exporter] = time.monotonic()
        entry = self._kept.pop((exporter, group_name, resource_name), None)
        if entry is not None:
            self.resources.setdefault(exporter, {}).setdefault(group_name, {})[resource_name] = entry
        await super().on_resource_changed(exporter, group_name, resource_name, resource)

    async def on_place_changed(self, place_pb2: Any) -> None:
        before = self.places.get(place_pb2.name)
        holder = before.acquired if before is not None else None
        await super().on_place_changed(place_pb2)
        if self.places[place_pb2.name].acquired != holder:
            self.freed.set()


class CoalescingPlaceManager(RemotePlaceManager):  # type: ignore[misc]  # labgrid is not typed
    """A RemotePlaceManager that uses our session, polls at most every POLL_INTERVAL_S, and survives a lost exporter.

    labgrid 26.0.1 polls every resource of a place at each driver activation and sleeps 0.1 s each time: a second for a
    place with ten resources (https://github.com/labgrid-project/labgrid/pull/1638). When an exporter is gone, its
    resources have no parameters, and labgrid raises KeyError for all resources. Here such a resource keeps its last
    values, so that nodes can be left as they were found. The check of the lease reports the missing exporter.
    """

    _last_poll = float("-inf")

    def __init__(self, session: ResumableSession) -> None:
        super().__init__()
        self.session = session
        self.loop = session.loop
        self.url = session.address
        self.env = None

    def poll(self) -> None:
        now = time.monotonic()
        if now - self._last_poll < POLL_INTERVAL_S:
            return
        self._last_poll = now
        for resource in self.unmanaged_resources:
            data = remote_data(resource)
            if "params" not in data:
                continue
            resource.avail = data["avail"]
            for key, value in data["params"].items():
                if key == "extra":
                    continue
                if getattr(resource, key) != value:
                    setattr(resource, key, value)

    @classmethod
    def install(cls, session: ResumableSession) -> None:
        """Make labgrid expand places through this session from now on."""
        ResourceManager.instances[RemotePlaceManager] = cls(session)


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

    async def acquire(self, name: str) -> None:
        """Acquire a place. Raises the errors of gRPC."""
        # Noted before the answer: an interrupted call may have acquired the place.
        self._since[name] = time.time()
        try:
            await self._session.stub.AcquirePlace(pb.AcquirePlaceRequest(placename=name))
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

    async def release(self, name: str, holder: Identity) -> None:
        """Release the place of a holder, ourselves or a dead one, and clear its tag. Raises the errors of gRPC."""
        async with self._lock:
            if holder == self._identity:
                self._since.pop(name, None)
                if self._beacon == name:
                    self._beacon = None
            place = self._session.places.get(name)
            if place is not None and Heartbeat.of(holder, place.tags.get(TAG)) is not None:
                await self._tag(name, "")
            await self._session.stub.ReleasePlace(pb.ReleasePlaceRequest(placename=name, fromuser=str(holder)))

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
                await self.release(name, holder)
