"""The link of one combination: its ends, addresses, forwarding, checks and tunings."""
