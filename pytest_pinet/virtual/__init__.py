"""Stand-ins for hardware: boards and switches in namespaces, shaped links, a PDU and consoles."""
