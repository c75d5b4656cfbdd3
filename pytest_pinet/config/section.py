"""The base of all mappings in files that users write."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping in the lab file, or in a file beside it. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
