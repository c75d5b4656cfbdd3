"""Which xdist worker runs which test next: pure in ``planner``, tied to xdist in ``workers`` and ``hooks``."""
