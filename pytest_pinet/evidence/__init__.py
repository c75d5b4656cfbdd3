"""Evidence that explains a measured value: counters and states of kernel, NIC and switch."""
