"""Release the places of a worker that is known to be dead, without waiting for its heartbeat to stop."""

from __future__ import annotations

from pytest_pinet.lab.labgrid.coordinator import Coordinator, address_of
from pytest_pinet.lab.labgrid.identity import Identity


def free_places_of(worker: str, run: str, lab_file: str, own: Identity) -> list[str]:
    """Release every place that this worker of this run holds; return the names of the places.

    ``own`` is the identity of the caller, for a separate session. Raises CoordinatorError or LeaseError.
    """
    from labgrid import Environment

    coordinator = Coordinator(address_of(Environment(lab_file)), own)
    try:
        coordinator.sync()
        freed = []
        for place in coordinator.places():
            holder = coordinator.holder(place)
            if holder is not None and holder.is_worker(worker, run):
                coordinator.release(place, holder)
                freed.append(place)
        return freed
    finally:
        coordinator.close()
