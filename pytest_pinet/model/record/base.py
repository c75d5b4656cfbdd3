"""What all records have in common: they are frozen, checked when they are built, and dumped as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

T = TypeVar("T")
RARE = "rare"
# A key that only some records have: None if this record does not have it. None is not written to the file.
Rare = Annotated[T | None, RARE]


@dataclass(frozen=True)
class Beside:
    """Marks a key that is written, also as null, if the record has another key."""

    key: str


class Record(BaseModel):
    """One object of ``results.json``."""

    # A later version may add keys.
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, defer_build=True)

    def dump(self) -> dict[str, Any]:
        """Return the record as plain data, which JSON and pytest-xdist can carry."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def of(cls, source: object, /, **values: object) -> Self:
        """Return a record with these values, and with the attributes of ``source`` that have the name of a key.

        Objects inside ``source`` become records in the same way. Raises ValueError for a value of a wrong type,
        TypeError for a new name.
        """
        if unknown := values.keys() - cls.model_fields.keys():
            raise TypeError(f"{cls.__name__} has no {', '.join(sorted(unknown))}")
        known = {name: getattr(source, name) for name in cls.model_fields if hasattr(source, name)}
        return cls.model_validate({**known, **values}, from_attributes=True)

    def replace(self, **values: object) -> Self:
        """Return a copy with these values. Raises ValueError for a value of a wrong type, TypeError for a new name."""
        return self.of(self, **values)


class SparseRecord(Record):
    """A record with keys that not every record of its kind has: they are left out of the file if they are None."""

    # By rare key: the key that must have a value, or this key is left out.
    _rare: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Collect the rare keys once."""
        rare = {name: name for name, field in cls.model_fields.items() if RARE in field.metadata}
        marks = ((name, mark) for name, field in cls.model_fields.items() for mark in field.metadata)
        cls._rare = rare | {name: mark.key for name, mark in marks if isinstance(mark, Beside)}

    @model_serializer(mode="wrap")
    def _without_missing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = dump(self)
        for name, needed in self._rare.items():
            if getattr(self, needed) is None:
                del found[name]
        return found
