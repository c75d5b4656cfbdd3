"""Evidence beside a measured value. Each module reads one source."""
