"""The colours of pictures, for light and dark paper."""

from __future__ import annotations

FONT = "ui-monospace, Menlo, 'DejaVu Sans Mono', Consolas, 'Courier New', monospace"

_LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "muted": "#59636e", "box": "#f6f8fa", "edge": "#c0c8d0",
    "cable": "#818b98", "test": "#fff1c2",
}  # fmt: skip
_LIGHT_HUES = ("#0969da", "#1a7f37", "#8250df", "#bc4c00", "#0e7490", "#bf3989")
_DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "muted": "#9da7b3", "box": "#161b22", "edge": "#3d444d",
    "cable": "#6e7781", "test": "#453508",
}  # fmt: skip
_DARK_HUES = ("#58a6ff", "#3fb950", "#bc8cff", "#f0883e", "#39c5cf", "#f778ba")


def _rules(c: dict[str, str], hues: tuple[str, ...]) -> str:
    rules = [
        f".paper{{fill:{c['paper']}}}",
        f".ink,.name{{fill:{c['ink']}}}",
        ".name{font-weight:bold}",
        f".muted{{fill:{c['muted']}}}",
        f".node,.switch,.pill{{fill:{c['box']};stroke:{c['edge']}}}",
        f".pill{{fill:{c['paper']}}}",
        f".port{{fill:{c['paper']};stroke:{c['cable']}}}",
        f".test{{fill:{c['test']}}}",
        f".cable{{fill:none;stroke:{c['cable']}}}",
        f".halo{{stroke:{c['paper']};stroke-width:4px;stroke-linejoin:round;paint-order:stroke}}",
        ".flow{fill:none;stroke-width:1.8}",
        f".flow.inside{{stroke:{c['ink']}}}.head.inside{{fill:{c['ink']}}}",
    ]
    for index, hue in enumerate(hues):
        rules.append(f".group{index}{{fill:{hue};fill-opacity:.08;stroke:{hue}}}")
        rules.append(f".flow.hue{index}{{stroke:{hue}}}.head.hue{index}{{fill:{hue}}}")
    return "".join(rules)


# As many groups of ports as there are colours; then they come again.
HUES = len(_LIGHT_HUES)
STYLE = f"{_rules(_LIGHT, _LIGHT_HUES)}@media (prefers-color-scheme:dark){{{_rules(_DARK, _DARK_HUES)}}}"
