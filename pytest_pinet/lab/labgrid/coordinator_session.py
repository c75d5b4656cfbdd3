"""labgrid's client session and its manager of places, extended: they survive a restart of coordinator or exporter.

We found no labgrid issue that requests a client that reconnects. The overridden names are public but not documented:
tests/unit/lab/labgrid/test_private.py fails when labgrid changes them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import grpc
from labgrid.remote.client import ClientSession
from labgrid.remote.generated import labgrid_coordinator_pb2_grpc
from labgrid.resource.common import ResourceManager
from labgrid.resource.remote import RemotePlaceManager

from pytest_pinet.lab.labgrid_private import remote_data

POLL_INTERVAL_S = 0.5
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
