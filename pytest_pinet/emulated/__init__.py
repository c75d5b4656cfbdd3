"""Boards that are QEMU processes: their packages, SD cards, stand-in firmware and power."""
