"""A small module for arm64, compiled in several variants. ``tests/data/code`` has the objects.

``python -m tests.support.module_objects`` writes them again, with the cross compiler.
"""

from __future__ import annotations

import lzma
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.build_files import VERMAGIC
from tests.support.driver_builds import CROSS

OBJECTS = Path(__file__).parents[1] / "data" / "code"
_RECEIVE = f"""
int netdev_info(const char *, ...);
static const char info[] __attribute__((section(".modinfo"), used)) =
    "vermagic={VERMAGIC}\\0name=small\\0srcversion=" SRCVERSION;
static const int table[4] = {{1, 2, 3, 4}};
int budget = 64;
static __attribute__((noinline)) int handle(int packet)
{{
    static int once;
    return netdev_info("packet of %s", __func__) + table[packet & 3] + budget + once++;
}}
__attribute__((noinline)) int gem_rx(int packets)
{{
    int done = 0;
    while (packets-- > 0) done += handle(packets);
    return done;
}}
int configure(int key)
{{
    switch (key) {{
    case 0: return 11;
    case 1: return netdev_info("first");
    case 2: return 33;
    case 3: return handle(5);
    case 4: return gem_rx(key);
    case 5: return 99;
    }}
    return netdev_info("unknown");
}}
"""
_SEND = """
int netdev_info(const char *, ...);
int gem_rx(int);
static __attribute__((noinline)) int handle(int packet)
{
    static int once;
    return netdev_info("sending by %s", __func__) + (once += packet);
}
int send(int packet) { return handle(packet) + gem_rx(packet); }
int (*operations[])(int) = {send, gem_rx, handle};
"""
_BUSY = 'asm volatile("add x9, x9, #1; add x9, x9, #2; add x9, x9, #3; add x9, x9, #4"); '
# What is replaced in both sources. The order of the objects is that of the names.
VARIANTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "plain": (),
    # Other sources, as far as the module says.
    "order": (("SRCVERSION", '"0000"'),),
    "padding": (("int configure(int key)", 'asm(".text; .rept 37; nop; .endr");\nint configure(int key)'),),
    "instructions": (("int done = 0;", f"int done = 0; {_BUSY}"),),
    "constant": (("{1, 2, 3, 4}", "{1, 2, 3, 5}"),),
    "initial": (("budget = 64", "budget = 32"),),
    "text": (('"unknown"', '"no such"'),),
    "folder": (('"unknown"', '"no such key of the device"'),),
    "pointers": (("{send, gem_rx, handle}", "{send, handle, gem_rx}"),),
    "function": (("int send(", "int never_called(int x) { return x * 7; }\nint send("),),
}


def compile_variant(name: str) -> bytes:
    """Return the object of a variant."""
    with TemporaryDirectory() as place:
        folder, sources = Path(place), {"receive": _RECEIVE, "send": _SEND}
        for source, text in sources.items():
            for old, new in VARIANTS[name]:
                text = text.replace(old, new)
            (folder / f"{source}.c").write_text(text.replace("SRCVERSION", '"1111"'))
            _run(folder, "gcc", "-O2", "-ffreestanding", "-fno-pic", "-c", f"{source}.c", "-o", f"{source}.o")
        objects = sorted(sources, reverse=name == "order")
        _run(folder, "ld", "-r", *(f"{one}.o" for one in objects), "-o", "small.ko")
        return (folder / "small.ko").read_bytes()


def _run(folder: Path, tool: str, *words: str) -> None:
    subprocess.run([f"{CROSS}{tool}", *words], cwd=folder, check=True, timeout=60)


def variant(name: str) -> bytes:
    """Return the stored object of a variant, packed as ``small.ko.xz``."""
    return (OBJECTS / f"{name}.ko.xz").read_bytes()


if __name__ == "__main__":
    for one in VARIANTS:
        (OBJECTS / f"{one}.ko.xz").write_bytes(lzma.compress(compile_variant(one)))
