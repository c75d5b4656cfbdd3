"""One measurement over an open link, from preconditions to the result."""
