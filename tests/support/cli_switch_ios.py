"""The command line of a Catalyst, after Cisco's command references."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.cli_switch_state import State, shared


class Ios:
    """A Catalyst: exec and configuration mode with submodes.

    It accepts no abbreviated words. Interface names are complete or begin with two letters.
    """

    invalid = "                    ^\n% Invalid input detected at '^' marker.\n\n"

    def __init__(self, file: Path) -> None:
        self._file = file
        self._mode = "exec"
        self._subject = ""

    @property
    def greeting(self) -> str:
        return "\n"

    @property
    def prompt(self) -> str:
        modes = {"exec": "", "config": "(config)", "if": "(config-if)", "vlan": "(config-vlan)"}
        return f"lab-sw1{modes[self._mode]}#"

    def echo(self, line: str) -> str:
        return "\n"

    def run(self, line: str) -> str | None:
        """Return the answer, or None at the end of the session."""
        line = line.strip()
        if not line:
            return ""
        with shared(self._file) as state:
            if self._mode == "exec":
                return self._exec(line, state)
            return self._configure(line, state)

    def _exec(self, line: str, state: State) -> str | None:
        if line in ("exit", "logout"):
            return None
        if line == "configure terminal":
            self._mode = "config"
            return "Enter configuration commands, one per line.  End with CNTL/Z.\n"
        if line in ("enable", "terminal length 0") or re.fullmatch(r"terminal width \d+", line):
            return ""
        shows: dict[str, Callable[[State], str]] = {
            "show interfaces status": self._status,
            "show power inline": self._power,
            "show lldp neighbors detail": self._lldp,
            "show mac address-table dynamic": self._macs,
        }
        if line in shows:
            return shows[line](state)
        match = re.fullmatch(r"show interfaces (\S+)", line)
        port = match and self._named(match[1], state)
        return self._counters(port, state) if port else self.invalid

    def _configure(self, line: str, state: State) -> str:
        if line == "end":
            return self._leave("exec", state)
        if line == "exit":
            return self._leave("exec" if self._mode == "config" else "config", state)
        if (match := re.fullmatch(r"interface (\S+)", line)) and (port := self._named(match[1], state)):
            answer = self._leave("if", state)
            self._subject = port
            return answer
        if (match := re.fullmatch(r"(no )?vlan (\d+)", line)) and 1 <= int(match[2]) <= 4094:
            if match[1]:
                state["vlans"] = [vlan for vlan in state["vlans"] if vlan != int(match[2])]
                return ""
            answer = self._leave("vlan", state)
            self._subject = match[2]
            return answer
        return self._interface(line, state["ports"][self._subject], state) if self._mode == "if" else self.invalid

    def _leave(self, mode: str, state: State) -> str:
        """Leave the current mode. A VLAN is created when its mode is left."""
        left, self._mode = self._mode, mode
        if left != "vlan" or int(self._subject) in state["vlans"]:
            return ""
        if int(self._subject) > 1005 and state["vtp"] == "server":
            return (
                f"% Failed to create VLANs {self._subject}\nExtended VLAN(s) not allowed in current VTP mode.\n"
                "%Failed to commit extended VLAN(s) changes.\n\n"
            )
        state["vlans"].append(int(self._subject))
        return ""

    def _interface(self, line: str, port: dict[str, Any], state: State) -> str:
        if line in ("shutdown", "no shutdown"):
            port["admin"] = line == "no shutdown"
            return ""
        if match := re.fullmatch(r"switchport access vlan (\d+)", line):
            answer = ""
            if int(match[1]) not in state["vlans"]:
                state["vlans"].append(int(match[1]))
                answer = f"% Access VLAN does not exist. Creating vlan {match[1]}\n"
            port["vlan"] = int(match[1])
            return answer
        if match := re.fullmatch(r"power inline (auto|never)", line):
            port["poe"] = match[1] == "auto"
            return ""
        return self.invalid

    def _named(self, word: str, state: State) -> str | None:
        match = re.fullmatch(r"(?i)(gigabitethernet|gi)(\d.*)", word)
        name = f"Gi{match[2]}" if match else ""
        return name if name in state["ports"] else None

    def _status(self, state: State) -> str:
        lines = ["", "Port      Name               Status       Vlan       Duplex  Speed Type"]
        for name, port in state["ports"].items():
            up = port["admin"] and port["carrier"]
            status = "disabled" if not port["admin"] else "connected" if port["carrier"] else "notconnect"
            duplex, speed = ("a-full", f"a-{port['speed']}") if up else ("auto", "auto")
            vlan = "trunk" if port.get("trunk") else port["vlan"]
            lines.append(
                f"{name:<9} {port['name']:<18} {status:<12} {vlan:<10} {duplex:>6} {speed:>6} 10/100/1000BaseTX"
            )
        return "\n".join(lines) + "\n"

    def _power(self, state: State) -> str:
        lines = ["Available:370.0(w)  Used:0.0(w)  Remaining:370.0(w)", ""]
        lines += ["Interface Admin  Oper       Power   Device              Class Max"]
        lines += ["                            (Watts)                            "]
        lines += ["--------- ------ ---------- ------- ------------------- ----- ----"]
        for name, port in state["ports"].items():
            lines.append(
                f"{name:<9} {'auto' if port['poe'] else 'never':<6} off        0.0     n/a                 n/a   30.0"
            )
        return "\n".join(lines) + "\n"

    def _counters(self, name: str, state: State) -> str:
        port = state["ports"][name]
        line = "up" if port["admin"] and port["carrier"] else "down"
        admin = "administratively down" if not port["admin"] else line
        return (
            f"GigabitEthernet{name[2:]} is {admin}, line protocol is {line} (connected)\n"
            "  Hardware is Gigabit Ethernet, address is 0026.0b01.0a01 (bia 0026.0b01.0a01)\n"
            "  MTU 1500 bytes, BW 1000000 Kbit/sec, DLY 10 usec, \n"
            '  Last clearing of "show interface" counters never\n'
            f"  Input queue: 0/75/{port['rx_discards']}/0 (size/max/drops/flushes); Total output drops: "
            f"{port['tx_discards']}\n"
            f"     {port['rx'] // 1500} packets input, {port['rx']} bytes, 0 no buffer\n"
            "     Received 17 broadcasts (12 multicasts)\n"
            "     0 runts, 0 giants, 0 throttles \n"
            "     3 input errors, 2 CRC, 0 frame, 0 overrun, 0 ignored\n"
            f"     {port['tx'] // 1500} packets output, {port['tx']} bytes, 0 underruns\n"
            "     1 output errors, 0 collisions, 2 interface resets\n"
        )

    def _lldp(self, state: State) -> str:
        if not state["lldp"]:
            return "% LLDP is not enabled\n"
        text = ""
        for name, port in state["ports"].items():
            if port.get("far"):
                address = port["far"].replace(":", "")
                cisco = ".".join(address[i : i + 4] for i in range(0, 12, 4))
                text += (
                    f"------------------------------------------------\nLocal Intf: {name}\nChassis id: {cisco}\n"
                    f"Port id: {cisco}\nPort Description: eth0\nSystem Name: {port['name']}\n\n"
                    "System Description: \nLinux\n\nTime remaining: 93 seconds\n\n"
                )
        return text + "\nTotal entries displayed: 1\n"

    def _macs(self, state: State) -> str:
        text = "          Mac Address Table\n-------------------------------------------\n\n"
        text += "Vlan    Mac Address       Type        Ports\n----    -----------       --------    -----\n"
        for name, port in state["ports"].items():
            if port.get("far"):
                address = port["far"].replace(":", "")
                cisco = ".".join(address[i : i + 4] for i in range(0, 12, 4))
                text += f"{port['vlan']:>4}    {cisco}    DYNAMIC     {name}\n"
        return text
