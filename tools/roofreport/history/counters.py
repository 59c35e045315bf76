# SPDX-License-Identifier: Apache-2.0
"""The counters of a reading, unpacked when somebody asks: a year of nights has millions of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, select

from roofreport.history import tables
from roofreport.history.sound import sound

_DOUBLE = struct.Struct("<d")


class Layouts(dict[int, dict[str, int]]):
    """Number of a layout to its names and their places in bytes."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        for number, names in connection.execute(select(tables.layouts.c.id, tables.layouts.c.names)):
            self[number] = {sound(name, str): place * _DOUBLE.size for place, name in enumerate(json.loads(names))}


class Counters(Mapping[str, float]):
    __slots__ = ("_data", "_places")

    def __init__(self, places: dict[str, int], data: bytes) -> None:
        if len(data) != len(places) * _DOUBLE.size:
            raise ValueError("counters of another length than their names")
        self._places = places
        self._data = data

    def __getitem__(self, name: str) -> float:
        value: float = _DOUBLE.unpack_from(self._data, self._places[name])[0]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
