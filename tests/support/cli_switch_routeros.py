"""The part of RouterOS's command line that a switch needs, after MikroTik's documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.support.cli_switch_state import State, shared


class RouterOsError(Exception):
    """An error message of RouterOS."""


class RouterOs:
    """Menus and commands on one line. Values are written ``[...]``, joined texts ``(... . ...)``."""

    greeting = "\n\n  MikroTik RouterOS 7.16.1 (c) 1999-2024       https://www.mikrotik.com/\n\n\n"
    prompt = "[admin@crs] > "
    _WORD = re.compile(r'\s*(\[|\]|\(|\)|"[^"]*"|[^\s\[\]()"=]+=?|=)')

    def __init__(self, file: Path) -> None:
        self._file = file

    def echo(self, line: str) -> str:
        # RouterOS prints the line again when it is complete.
        return f"\r{self.prompt}{line}\n"

    def run(self, line: str) -> str | None:
        if line.strip() in ("quit", "/quit"):
            return None
        words = self._WORD.findall(line)
        with shared(self._file) as state:
            try:
                return self._command(words, state)
            except RouterOsError as error:
                return f"{error}\n"

    def _command(self, words: list[str], state: State) -> str:
        if not words:
            return ""
        if words[0] == ":put":
            value, rest = self._value(words[1:], state)
            if rest:
                raise RouterOsError(f"expected end of command (line 1 column {len(' '.join(words)) - 1})")
            return f"{value}\n"
        if not words[0].startswith("/"):
            raise RouterOsError(f"bad command name {words[0]} (line 1 column 1)")
        path, rest = self._menu(words)
        return self._menu_command(path, rest, state)

    def _value(self, words: list[str], state: State) -> tuple[str, list[str]]:
        if not words:
            raise RouterOsError("expected expression")
        if words[0] == "(":
            value, words = self._value(words[1:], state)
            while words[:1] == ["."]:
                more, words = self._value(words[1:], state)
                value += more
            if words[:1] != [")"]:
                raise RouterOsError("expected closing parenthesis")
            return value, words[1:]
        if words[0] == "[":
            depth = 0
            for end, word in enumerate(words):
                depth += {"[": 1, "]": -1}.get(word, 0)
                if depth == 0:
                    return self._bracket(words[1:end], state), words[end + 1 :]
            raise RouterOsError("expected closing bracket")
        if words[0].startswith('"'):
            return words[0].strip('"'), words[1:]
        return words[0], words[1:]

    def _bracket(self, words: list[str], state: State) -> str:
        path, rest = self._menu(words)
        if rest[:1] != ["get"]:
            raise RouterOsError(f"bad command name {' '.join(rest[:1])} (line 1 column 2)")
        row, rest = self._row(path, rest[1:], state)
        table: dict[str, dict[str, Any]] = {
            "interface": {
                "disabled": not row.get("admin"),
                "running": row.get("admin") and row.get("carrier"),
            },
            "interface bridge port": {"pvid": row.get("vlan"), "bridge": "bridge1"},
            "interface bridge": {"vlan-filtering": state["filtering"]},
            "interface ethernet poe": {"poe-out": "auto-on" if row.get("poe") else "off"},
        }
        if path not in table or len(rest) != 1 or rest[0] not in table[path]:
            raise RouterOsError("input does not match any value of value-name")
        value = table[path][rest[0]]
        return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)

    def _menu(self, words: list[str]) -> tuple[str, list[str]]:
        known = ["interface bridge port", "interface bridge host", "interface bridge", "interface ethernet poe"]
        known += ["interface ethernet", "interface", "ip neighbor"]
        for path in known:
            parts = path.split()
            if [word.removeprefix("/") if i == 0 else word for i, word in enumerate(words[: len(parts)])] == parts:
                return path, words[len(parts) :]
        raise RouterOsError(f"bad command name {words[0].removeprefix('/') if words else ''} (line 1 column 2)")

    def _row(self, path: str, words: list[str], state: State) -> tuple[dict[str, Any], list[str]]:
        """Return a row by its name, by `[find key="..."]`, or by the value of another bracket."""
        if words[:1] == ["["] and words[1:2] == ["find"]:
            end = words.index("]")
            key, _, name = "".join(words[2:end]).partition("=")
            if key != ("interface" if path == "interface bridge port" else "name"):
                raise RouterOsError(f"unknown parameter {key}")
            rest = words[end + 1 :]
        elif words[:1] == ["["]:
            name, rest = self._value(words, state)
        else:
            name, rest = words[0], words[1:]
        name = name.strip('"')
        if path == "interface bridge" and name == "bridge1":
            return {}, rest
        row = state["ports"].get(name)
        if row is None or (path == "interface ethernet poe" and "poe" not in row):
            raise RouterOsError("no such item")
        return row, rest

    def _menu_command(self, path: str, words: list[str], state: State) -> str:
        verb = words[0] if words else ""
        if path == "interface" and verb in ("enable", "disable") and len(words) == 2:
            self._row(path, words[1:], state)[0]["admin"] = verb == "enable"
            return ""
        if verb == "set" and path in ("interface bridge port", "interface ethernet poe"):
            row, rest = self._row(path, words[1:], state)
            return self._set(path, row, "".join(rest))
        if path == "interface ethernet" and verb == "monitor" and words[2:] == ["once"]:
            return self._monitor(words[1].strip('"'), self._row("interface", words[1:2], state)[0])
        if path == "interface ethernet" and words[:5] == ["print", "stats", "without-paging", "where", "name="]:
            return self._stats(words[5].strip('"'), state)
        if path == "ip neighbor" and words == ["print", "detail", "without-paging"]:
            return self._neighbours(state)
        if path == "interface bridge host" and words == ["print", "terse", "without-paging"]:
            return self._hosts(state)
        raise RouterOsError(f"bad command name {verb} (line 1 column {len(path) + 3})")

    def _set(self, path: str, row: dict[str, Any], assignment: str) -> str:
        key, _, value = assignment.partition("=")
        if path == "interface bridge port" and key == "pvid":
            if not value.isdecimal() or not 1 <= int(value) <= 4094:
                raise RouterOsError("value of pvid out of range (1..4094)")
            row["vlan"] = int(value)
        elif path == "interface ethernet poe" and key == "poe-out" and value in ("auto-on", "off"):
            row["poe"] = value == "auto-on"
        else:
            raise RouterOsError(f"syntax error (line 1 column {len(path)})")
        return ""

    def _monitor(self, name: str, row: dict[str, Any]) -> str:
        text = f"                      name: {name}\n"
        if not (row["admin"] and row["carrier"]):
            return text + "                    status: no-link\n          auto-negotiation: done\n\n"
        rate = f"{row['speed'] // 1000}Gbps" if row["speed"] >= 1000 else f"{row['speed']}Mbps"
        text += "                    status: link-ok\n          auto-negotiation: done\n"
        return text + f"                      rate: {rate}\n               full-duplex: yes\n\n"

    def _stats(self, name: str, state: State) -> str:
        row = state["ports"].get(name)
        if row is None:
            return "\n"
        lines = [f"                  name: {name}", "        driver-rx-byte: 1 234"]
        lines += [f"              rx-bytes: {row['rx']:,}".replace(",", " "), "          rx-fcs-error: 3"]
        lines += [f"               rx-drop: {row['rx_discards']}"]
        lines += [
            f"              tx-bytes: {row['tx']:,}".replace(",", " "),
            f"               tx-drop: {row['tx_discards']}",
        ]
        return "\n".join(lines) + "\n\n"

    def _neighbours(self, state: State) -> str:
        text = ""
        for number, (name, row) in enumerate(state["ports"].items()):
            if row.get("far"):
                text += (
                    f" {number} interface={name},bridge1 address=10.0.0.{number} mac-address={row['far'].upper()} \n"
                    f'   identity="{row["name"]}" platform="" version="" age=3s interface-name="eth0" \n\n'
                )
        return text

    def _hosts(self, state: State) -> str:
        text = " 0 DL  mac-address=DC:2C:6E:0F:57:67 interface=bridge1 bridge=bridge1 on-interface=bridge1\n"
        for number, (name, row) in enumerate(state["ports"].items(), 1):
            if row.get("far"):
                text += (
                    f" {number} D   mac-address={row['far'].upper()} vid={row['vlan']} interface={name} "
                    f"bridge=bridge1 on-interface={name}\n"
                )
        return text
