"""The way to the hardware through labgrid: launcher, lease, target and strategy, power, console, ssh, switch ports."""
