"""Chooses which worker runs which test next. ``planner`` is pure; ``workers`` and ``hooks`` connect it to xdist."""
