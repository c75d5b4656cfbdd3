"""labgrid's manager of remote places, without its sleeps, and calm when an exporter goes away.

labgrid 26.0.1 polls every resource of a place at each driver activation and sleeps 0.1 s each time: a second for a
place with ten resources. The manager also shares the session that holds the leases, instead of opening a second one.
"""

from __future__ import annotations

import time

from labgrid.resource import EthernetPort
from labgrid.resource.common import ResourceManager
from labgrid.resource.remote import RemotePlaceManager

from pytest_pinet.lab.coordinator import Coordinator

POLL_INTERVAL_S = 0.5


class CoalescingPlaceManager(RemotePlaceManager):  # type: ignore[misc]  # labgrid is not typed
    """Polls at most every POLL_INTERVAL_S.

    labgrid polls every resource that it ever saw, and raises KeyError for all of them when one exporter is gone, whose
    entries have no parameters any more. Here such a resource stays as it was, so that nodes can be left as they were
    found; that the exporter is gone is for the lease to tell.
    """

    _last_poll = float("-inf")

    def poll(self) -> None:
        now = time.monotonic()
        if now - self._last_poll < POLL_INTERVAL_S:
            return
        self._last_poll = now
        for resource in self.unmanaged_resources:
            # Once, since the session's thread replaces it.
            data = resource._remote_entry.data
            if "params" not in data:
                continue
            resource.avail = data["avail"]
            for key, value in data["params"].items():
                if key == "extra":
                    continue
                if getattr(resource, key) != value:
                    setattr(resource, key, value)


def install(coordinator: Coordinator) -> None:
    """Make labgrid expand places through this coordinator session from now on."""
    manager = CoalescingPlaceManager()
    manager.session = coordinator.session
    manager.loop = coordinator.loop
    manager.url = coordinator.address
    manager.env = None
    ResourceManager.instances[RemotePlaceManager] = manager
    # labgrid declares EthernetPort without eq=False, which makes it unhashable, so that no driver can bind it.
    EthernetPort.__hash__ = object.__hash__
    EthernetPort.__eq__ = object.__eq__
