# SPDX-License-Identifier: Apache-2.0
"""Reads the output of --memory_snapshot: an allocator's history, in the pickle of torch.cuda.memory's snapshots.

Those of PyTorch itself are read, too: they lack phases and categories.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from roofreport.io.source import Entry, files_in, read_bytes, refuse
from roofreport.text import inert, shortened

ENDING = ".pickle"
UNKNOWN = "unknown"
OLDER = "older"  # than the history


@dataclass(frozen=True)
class Allocation:
    size: int
    site: str  # "forward/block 3/attention/aten::bmm"
    category: str
    begin: int  # the event that allocates it; -1: it is older
    end: int  # the event that frees it; the number of events: it is alive at the end


@dataclass(frozen=True)
class Phase:
    name: str
    step: int
    begin: int  # events [begin, end)
    end: int


@dataclass(frozen=True)
class Snapshot:
    case: str
    events: int
    dropped: int
    allocations: tuple[Allocation, ...]
    phases: tuple[Phase, ...]
    counters: dict[str, float]  # peak_mem and others, bytes


# Plain values since protocol 2. Every other operation names a Python object, or reads a number as digits, which takes
# quadratic time.
_OPERATIONS = (
    *("PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
    *("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"),
    *("EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
)
_WIDEST_INTEGER = 9  # bytes
_MOST_VALUES = 100_000_000
_CHARACTERS = 16  # that count as a value


class _Operations(dict[int, Any]):
    def __missing__(self, code: int) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for more than plain values (operation {chr(code)!r})")


class _PlainUnpickler(pickle._Unpickler):
    """Dicts, lists, tuples, texts and numbers. In Python, because the one in C allocates as many places for shared
    values as nine bytes ask for.
    """

    dispatch = _Operations(
        {code: pickle._Unpickler.dispatch[code] for name in _OPERATIONS for code in getattr(pickle, name)}
    )
    stack: list[Any]

    def _set(self, items: list[Any]) -> None:
        # A tuple would be hashed, which shared parts make endless.
        if not all(isinstance(key, (str, int)) for key in items[::2]):
            raise pickle.UnpicklingError("it has a key that is not a text")
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def _set_items(self) -> None:
        self._set(self.pop_mark())  # type: ignore[attr-defined]

    def _long(self) -> None:
        width = self.read(1)[0]  # type: ignore[attr-defined]
        if width > _WIDEST_INTEGER:
            raise pickle.UnpicklingError("it has a number of more than 64 bits")
        self.stack.append(int.from_bytes(self.read(width), "little", signed=True))  # type: ignore[attr-defined]

    dispatch |= {pickle.SETITEM[0]: _set_item, pickle.SETITEMS[0]: _set_items, pickle.LONG1[0]: _long}


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()


def _check_extent(value: Any) -> None:
    """A pickle may repeat a part without repeating its bytes; the readers below visit it as often as it occurs. Takes
    time linear in the bytes. Raises UnpicklingError for too many values, and for a part that contains itself.
    """
    sizes: dict[int, int] = {}  # 0: is being counted
    stack = [value]
    while stack:
        size = sizes.setdefault(id(stack[-1]), -1)
        parts = _parts(stack[-1])
        if size < 0:
            sizes[id(stack[-1])] = 0
            nested = [part for part in parts if isinstance(part, (dict, list, tuple))]
            if any(sizes.get(id(part)) == 0 for part in nested):
                raise pickle.UnpicklingError("it contains itself")
            stack += nested
            continue
        if size == 0:
            size = 1 + sum(
                len(part) // _CHARACTERS + 1 if isinstance(part, str) else sizes.get(id(part), 1) for part in parts
            )
            if size > _MOST_VALUES:
                raise pickle.UnpicklingError("it repeats its values more often than any snapshot")
            sizes[id(stack[-1])] = size
        stack.pop()


def _site(entry: Entry) -> str:
    return "/".join(frame.text("name") for frame in reversed(entry.entries("frames", [])))


def _older(snapshot: Entry, device: int) -> list[tuple[int, int, str]]:
    """Address, size and site of the allocations alive at the end, according to the segments."""
    alive = []
    for segment in snapshot.entries("segments", []):
        if segment.integer("device", 0) != device:
            continue
        address = segment.integer("address")
        for block in segment.entries("blocks", []):
            size = block.integer("size")
            if block.text("state") == "active_allocated":
                alive.append((block.integer("address", address), size, _site(block)))
            address += size
    return alive


def _allocations(snapshot: Entry, events: list[Entry], device: int) -> list[Allocation]:
    found: list[Allocation] = []
    begun: dict[int, int] = {}
    for index, event in enumerate(events):
        action = event.text("action")
        if action == "alloc":
            begun[event.integer("addr")] = index
        elif action == "free_requested":
            begin = begun.pop(event.integer("addr"), -1)
            made = events[begin] if begin >= 0 else event
            category = made.text("category", UNKNOWN) if begin >= 0 else OLDER
            site = _site(made) if begin >= 0 else ""
            found.append(Allocation(made.integer("size"), site, category, begin, index))
    for begin in begun.values():
        made = events[begin]
        found.append(Allocation(made.integer("size"), _site(made), made.text("category", UNKNOWN), begin, len(events)))
    for address, size, site in _older(snapshot, device):
        if address not in begun:
            found.append(Allocation(size, site, OLDER, -1, len(events)))
    if any(each.size < 0 for each in found):
        raise snapshot.refusal("it has allocations of less than nothing")
    return found


def _parsed(path: Path) -> Any:
    data = read_bytes(path)
    try:
        snapshot = _PlainUnpickler(io.BytesIO(data)).load()
        _check_extent(snapshot)
        return snapshot
    # The errors that a damaged pickle raises are not documented.
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError,
            OverflowError, MemoryError, struct.error) as error:  # fmt: skip
        raise refuse(path, f"is not a memory snapshot: {shortened(str(error), 200)}") from error


def _read(path: Path) -> Snapshot:
    snapshot = Entry(_parsed(path), path, "a memory snapshot")
    traces = snapshot.lists("device_traces")
    device = max(range(len(traces)), key=lambda index: len(traces[index]), default=0)
    events = traces[device] if traces else []
    own = snapshot.entry("roofbench")
    phases = [
        Phase(row.text("name"), row.integer("step"), row.integer("begin"), row.integer("end"))
        for row in own.entries("phases", [])
    ]
    if any(not 0 <= phase.begin <= phase.end <= len(events) for phase in phases):
        raise snapshot.refusal("a phase has events that are not there")
    return Snapshot(
        case=own.text("case", inert(path.name.removesuffix(ENDING))),
        events=len(events),
        dropped=own.integer("dropped", 0),
        allocations=tuple(_allocations(snapshot, events, device)),
        phases=tuple(phases),
        counters=own.numbers("counters"),
    )


def load(path: Path) -> list[Snapshot]:
    """Snapshots of every case in a folder, by name. Raises UnusableInputError."""
    found = files_in(path, f"*{ENDING}", "snapshot of memory; --memory_snapshot")
    return sorted(map(_read, found), key=lambda snapshot: snapshot.case)
