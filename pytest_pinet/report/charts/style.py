"""The look of charts: named colours, which a page may override, and CSS rules. Marks are readable without colour."""

from __future__ import annotations

from pytest_pinet.model.verdict import Verdict

FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Helvetica, Arial, sans-serif"

# The contrast with the paper is at least 4.5 for text and 3 for marks.
LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "muted": "#59636e", "grid": "#d8dee4", "line": "#57606a",
    "band": "#b7d7f5", "good": "#1a7f37", "better": "#0969da", "near": "#9a6700", "bad": "#cf222e",
    "unsure": "#8250df", "broken": "#bc4c00", "limit": "#a40e26", "oracle": "#57606a",
    "hue0": "#0969da", "hue1": "#bc4c00", "hue2": "#8250df", "hue3": "#1a7f37", "hue4": "#bf3989", "hue5": "#0e7490",
}  # fmt: skip
DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "muted": "#9da7b3", "grid": "#30363d", "line": "#9da7b3",
    "band": "#1c3f63", "good": "#3fb950", "better": "#58a6ff", "near": "#d29922", "bad": "#ff7b72",
    "unsure": "#bc8cff", "broken": "#f0883e", "limit": "#ff938a", "oracle": "#9da7b3",
    "hue0": "#58a6ff", "hue1": "#f0883e", "hue2": "#bc8cff", "hue3": "#3fb950", "hue4": "#f778ba", "hue5": "#39c5cf",
}  # fmt: skip
HUES = 6

# The colour name of each verdict. The verdict's mark is readable without colour.
COLOURS = {
    Verdict.PASS: "good",
    Verdict.IMPROVED: "better",
    Verdict.MARGINAL: "near",
    Verdict.FAIL: "bad",
    Verdict.INCONCLUSIVE: "unsure",
    Verdict.INVALID: "broken",
    Verdict.ERROR: "broken",
    Verdict.SKIPPED: "muted",
}


def variables(colours: dict[str, str]) -> str:
    """Return the colours as CSS variables."""
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def rules() -> str:
    """Return the style sheet of all charts, without the colours."""
    named = "".join(f".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name});fill:none}}" for name in LIGHT)
    return (
        f"{named}.thin{{stroke-width:1}}.plain{{stroke-width:1.6}}.strong{{stroke-width:2.4}}"
        ".dash{stroke-dasharray:6 4}.dots{stroke-dasharray:1.5 3.5;stroke-linecap:round}.faint{opacity:.45}"
        ".bold{font-weight:600}.hollow{fill:var(--paper);stroke-width:2}"
    )
