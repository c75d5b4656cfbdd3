"""The labgrid side: coordinator, places, heartbeats, and our drivers for ssh, power and boot."""
