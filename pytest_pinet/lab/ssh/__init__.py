"""Commands on a node over ssh."""
