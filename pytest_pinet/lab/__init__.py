"""Access to the hardware through labgrid: launcher, leases, targets, strategy, power, console, ssh and switch ports."""
