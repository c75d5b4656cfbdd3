"""Texts that do harm if a shell or a program reads them as more than a text."""

from __future__ import annotations

# Each would create the file `canary`, end a command, or be read as an option, a glob or another host.
HOSTILE = (
    "$(>canary)", "`>canary`", ";>canary", "x;>canary", "&>canary", "|>canary", "x|>canary", "x\n>canary\n", ">canary",
    "'$(>canary)'", '"$(>canary)"', "'; >canary; '", '"; >canary; "', "\\$(>canary)", "${x:=$(>canary)}", "x$(>canary)",
    "-oProxyCommand=>canary", "--option", "-x", "..", "../../x", "*", "pi*", "[a-z]", "~", "x y", "x\ty", "x\0y", "",
    "eth0 ; reboot", "#x", "a" * 5000, "\u202ex", "\x1b]0;x\x07", "host -oProxyCommand=x", "${IFS}", "x\u2028y",
)  # fmt: skip
