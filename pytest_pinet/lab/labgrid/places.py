"""labgrid's manager of remote places, without its sleeps, and without errors when an exporter goes away.

labgrid 26.0.1 polls every resource of a place at each driver activation and sleeps 0.1 s each time: a second for a
place with ten resources (https://github.com/labgrid-project/labgrid/pull/1638). The manager also shares the session
that holds the leases, instead of opening a second one.
"""

from __future__ import annotations

import time

from labgrid.resource.common import ResourceManager
from labgrid.resource.remote import RemotePlaceManager

from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid_private import remote_data

POLL_INTERVAL_S = 0.5


class CoalescingPlaceManager(RemotePlaceManager):  # type: ignore[misc]  # labgrid is not typed
    """Polls at most every POLL_INTERVAL_S.

    labgrid polls every resource that it ever saw. When one exporter is gone, its entries have no parameters any more,
    and labgrid raises KeyError for all resources. Here such a resource keeps its last values, so that nodes can be left
    as they were found. The check of the lease reports the missing exporter.
    """

    _last_poll = float("-inf")

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


def install(coordinator: Coordinator) -> None:
    """Make labgrid expand places through this coordinator session from now on."""
    manager = CoalescingPlaceManager()
    manager.session = coordinator.session
    manager.loop = coordinator.loop
    manager.url = coordinator.address
    manager.env = None
    ResourceManager.instances[RemotePlaceManager] = manager
