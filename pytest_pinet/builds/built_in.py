"""Which parameters the code has that is built into a kernel, from the texts of its image.

No list has all parameters: modules.builtin.modinfo lacks what module_param_cb, __setup and MODULE_PARAM_PREFIX make.
But the kernel compares the words of its command line with texts such as "e1000e.debug", so an image without the text
does not know the parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from pydantic import TypeAdapter

from pytest_pinet.builds.cache import read_once
from pytest_pinet.builds.image import unpacked_kernel

# Ends as in struct kernel_param, or as in __setup.
_END = re.compile(rb"\.([A-Za-z0-9_-]{1,64})[\0=]")
_MODULE = re.compile(rb"[A-Za-z0-9_-]{1,64}\Z")
# Endings of the names of source files.
_SOURCES = ("c", "h", "S")


@dataclass(frozen=True)
class BuiltInParameters:
    """The texts of a kernel that have the form of a parameter, with _ for each -. Other bytes may precede a module."""

    texts: frozenset[str] = frozenset()

    def of(self, module: str) -> set[str]:
        """Return what the image has after ``module.``: the parameters of a module that is built in.

        Empty if the image has no such text. Texts of another kind may match, such as the name of a file.
        """
        begin = f"{module}."
        return {text.removeprefix(begin) for text in self.texts if text.startswith(begin)}

    def has(self, module: str, parameter: str) -> bool:
        """Return whether the image has a text that ends with this parameter."""
        ending = f"{module}.{parameter}".replace("-", "_")
        return any(text.endswith(ending) for text in self.texts)

    def lacks(self, module: str, parameter: str, listed: Iterable[str] = ()) -> set[str]:
        """Return the parameters of a module that is built in and does not have this one; else nothing.

        ``listed`` are parameters that the module has by another source. If none of them is a text of the image, its
        texts prove nothing.
        """
        has, listed = self.of(module), set(listed)
        proves = has and not (listed and has.isdisjoint(listed))
        return has | listed if proves and not self.has(module, parameter) else set()


def built_in_parameters(sha256: str, read: Callable[[], bytes]) -> BuiltInParameters:
    """Return the parameters that a kernel image of this hash has. Raises what ``read`` raises, and Unreadable."""
    texts = read_once(
        sha256, "built-in-1.json", TypeAdapter(list[str]), lambda: sorted(_texts(unpacked_kernel(read())))
    )
    return BuiltInParameters(frozenset(texts))


def _texts(plain: bytes) -> Collection[str]:
    found = set()
    for end in _END.finditer(plain):
        module = _MODULE.search(plain, max(0, end.start() - 64), end.start())
        if module is not None and end[1].decode() not in _SOURCES:
            found.add(f"{module[0].decode()}.{end[1].decode()}".replace("-", "_"))
    return found
