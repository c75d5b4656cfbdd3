"""Emulated boards: boards that run in QEMU, with their packages, SD cards, stand-in firmware and power."""
