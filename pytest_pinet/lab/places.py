"""labgrid's manager of remote places, without its sleeps.

labgrid 26.0.1 polls every resource of a place at each driver activation and sleeps 0.1 s each time: a second for a
place with ten resources. The manager also shares the session that holds the leases, instead of opening a second one.
"""

from __future__ import annotations

import time

from labgrid.resource import EthernetPort
from labgrid.resource.common import ResourceManager
from labgrid.resource.remote import RemotePlaceManager

from pytest_pinet.errors import CoordinatorError
from pytest_pinet.lab.coordinator import Coordinator

POLL_INTERVAL_S = 0.5


class CoalescingPlaceManager(RemotePlaceManager):  # type: ignore[misc]  # labgrid is not typed
    """Polls at most every POLL_INTERVAL_S, and says it clearly when an exporter is gone."""

    _last_poll = float("-inf")

    def poll(self) -> None:
        now = time.monotonic()
        if now - self._last_poll < POLL_INTERVAL_S:
            return
        self._last_poll = now
        try:
            self._take_in()
        except KeyError:
            # labgrid keeps polling resources of an exporter that went away, whose parameters are gone with it.
            raise CoordinatorError(
                "a labgrid exporter of this lab is gone", "the lab's admin: start labgrid-exporter again"
            ) from None

    def _take_in(self) -> None:
        import asyncio

        if not self.loop.is_running():
            self.loop.run_until_complete(asyncio.sleep(0))
        for resource in self.unmanaged_resources:
            resource.avail = resource._remote_entry.avail
            for key, value in resource._remote_entry.args.items():
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
