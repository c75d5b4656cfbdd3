"""Gate kernel and driver changes for Raspberry Pi class boards on measured network throughput."""

__version__ = "0.1.0"
