"""Write the generated parts of all pages of docs/."""

from __future__ import annotations

from pathlib import Path

from tools.site import generated

DOCS = Path(__file__).parents[2] / "docs"

for page in sorted(DOCS.rglob("*.md")):
    old = page.read_text(encoding="utf-8")
    new = generated(old)
    if new != old:
        page.write_text(new, encoding="utf-8")
        print(f"written: {page.relative_to(DOCS.parent)}")
