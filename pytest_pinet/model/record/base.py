"""What all records have in common: they are frozen, checked when they are built, and dumped as plain data."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

T = TypeVar("T")
RARE, RARE_OR_NULL, LATER = "rare", "rare or null", "later"
# A key that only some records have: None if this record does not have it. None is not written to the file.
Rare = Annotated[T | None, RARE]
# The same for a key that older versions also wrote as null.
RareOrNull = Annotated[T | None, RARE_OR_NULL]
# A key that is always written, but that the first files lack.
Later = Annotated[T, LATER]


class Record(BaseModel):
    """One object of ``results.json``."""

    # A later version may add keys.
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    def dump(self) -> dict[str, Any]:
        """Return the record as plain data, which JSON and pytest-xdist can carry."""
        return self.model_dump(mode="json", by_alias=True)

    def replace(self, **values: object) -> Self:
        """Return a copy with these values. Raises ValueError for a value of a wrong type, TypeError for a new name."""
        names = type(self).model_fields.keys()
        if unknown := values.keys() - names:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        return self.model_validate({**{name: getattr(self, name) for name in names}, **values})


class SparseRecord(Record):
    """A record with keys that not every record of its kind has: they are left out of the file if they are None."""

    _rare: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Collect the names of the rare keys once."""
        rare = {RARE, RARE_OR_NULL}
        cls._rare = frozenset(name for name, field in cls.model_fields.items() if rare & set(field.metadata))

    @model_serializer(mode="wrap")
    def _without_missing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = dump(self)
        for name in self._rare:
            if found[name] is None:
                del found[name]
        return found
