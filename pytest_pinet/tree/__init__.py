"""Builds of the commits of a kernel tree, in the cache of pinet. The tree of the user is only read."""
