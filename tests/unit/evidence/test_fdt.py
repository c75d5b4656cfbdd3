"""Device trees as values: what is written is read again, and other readers accept it."""

from pytest_pinet.evidence.fdt import cells, read_device_tree, text, write_device_tree

TREE = {
    "/": {"compatible": text("raspberrypi,4-model-b", "brcm,bcm2711"), "#address-cells": cells(2)},
    "/soc/ethernet@7d580000": {"reg": cells(0, 0x7D580000), "dma-coherent": b"", "local-mac-address": b"123456"},
    "/soc": {"ranges": b""},
    "/chosen": {},
}


def test_a_device_tree_is_read_as_it_was_written() -> None:
    data = write_device_tree(TREE)
    found = read_device_tree(data)
    assert found == TREE
    # Each property is in front of all children of its node, as the specification wants.
    assert list(found) == ["/", "/soc", "/soc/ethernet@7d580000", "/chosen"]
    assert int.from_bytes(data[4:8]) == len(data)


def test_a_name_is_stored_once() -> None:
    many = {"/": {"reg": cells(1)}, "/a": {"reg": cells(2)}, "/b": {"reg": cells(3)}}
    assert write_device_tree(many).count(b"reg\0") == 1
