# SPDX-License-Identifier: Apache-2.0
"""Reads the output of --memory_snapshot: an allocator's history, in the pickle of torch.cuda.memory's snapshots.

Those of PyTorch itself are read, too: they lack phases and categories.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from roofreport.errors import UnusableInputError
from roofreport.io.source import read_bytes, refuse
from roofreport.text import printable

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
    path: Path
    case: str
    device: str
    events: int
    dropped: int
    allocations: tuple[Allocation, ...]
    phases: tuple[Phase, ...]
    counters: dict[str, float]  # peak_mem and others, bytes


class _PlainUnpickler(pickle.Unpickler):
    """Dicts, lists, texts and numbers: a pickle that refers to other Python objects is refused before it is run."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {printable(f'{module}.{name}', 80)}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("it refers to external objects")


class _Object:
    """A dict of the file, with the expected type of every member."""

    def __init__(self, value: Any, path: Path) -> None:
        if not isinstance(value, dict):
            raise refuse(path, "is not a memory snapshot: an entry is not a dict")
        self._value, self._path = value, path

    def text(self, key: str, default: str | None = None) -> str:
        found = self._value.get(key, default)
        if not isinstance(found, str):
            raise refuse(self._path, f"is not a memory snapshot: it has no text {key!r}")
        return found

    def number(self, key: str, default: int | None = None) -> int:
        found = self._value.get(key, default)
        if isinstance(found, bool) or not isinstance(found, int):
            raise refuse(self._path, f"is not a memory snapshot: it has no whole number {key!r}")
        return found

    def items(self, key: str) -> list[_Object]:
        found = self._value.get(key, [])
        if not isinstance(found, list):
            raise refuse(self._path, f"is not a memory snapshot: it has no list {key!r}")
        return [_Object(each, self._path) for each in found]

    def lists(self, key: str) -> list[list[_Object]]:
        found = self._value.get(key)
        if not isinstance(found, list) or not all(isinstance(each, list) for each in found):
            raise refuse(self._path, f"is not a memory snapshot: it has no lists {key!r}")
        return [[_Object(entry, self._path) for entry in each] for each in found]

    def figures(self, key: str) -> dict[str, float]:
        found = self._value.get(key, {})
        if not isinstance(found, dict):
            return {}
        return {str(name): float(value) for name, value in found.items() if isinstance(value, (int, float))}

    def of(self, key: str) -> _Object:
        return _Object(self._value.get(key, {}), self._path)

    def site(self) -> str:
        return "/".join(frame.text("name") for frame in reversed(self.items("frames")))


def _older(snapshot: _Object, device: int) -> list[tuple[int, int, str]]:
    """Address, size and site of the allocations alive at the end, according to the segments."""
    alive = []
    for segment in snapshot.items("segments"):
        if segment.number("device", 0) != device:
            continue
        address = segment.number("address")
        for block in segment.items("blocks"):
            size = block.number("size")
            if block.text("state") == "active_allocated":
                alive.append((block.number("address", address), size, block.site()))
            address += size
    return alive


def _allocations(snapshot: _Object, events: list[_Object], device: int) -> list[Allocation]:
    found: list[Allocation] = []
    begun: dict[int, int] = {}
    for index, event in enumerate(events):
        action = event.text("action")
        if action == "alloc":
            begun[event.number("addr")] = index
        elif action == "free_requested":
            begin = begun.pop(event.number("addr"), -1)
            made = events[begin] if begin >= 0 else event
            category = made.text("category", UNKNOWN) if begin >= 0 else OLDER
            site = made.site() if begin >= 0 else ""
            found.append(Allocation(made.number("size"), site, category, begin, index))
    for begin in begun.values():
        made = events[begin]
        found.append(Allocation(made.number("size"), made.site(), made.text("category", UNKNOWN), begin, len(events)))
    for address, size, site in _older(snapshot, device):
        if address not in begun:
            found.append(Allocation(size, site, OLDER, -1, len(events)))
    if any(each.size < 0 for each in found):
        raise refuse(snapshot._path, "is not a memory snapshot: it has allocations of less than nothing")
    return found


def _parsed(path: Path) -> Any:
    data = read_bytes(path)
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    # The errors that a damaged pickle raises are not documented.
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError,
            OverflowError, MemoryError, RecursionError) as error:  # fmt: skip
        raise refuse(path, f"is not a memory snapshot: {printable(str(error), 200)}") from error


def _read(path: Path) -> Snapshot:
    snapshot = _Object(_parsed(path), path)
    traces = snapshot.lists("device_traces")
    device = max(range(len(traces)), key=lambda index: len(traces[index]), default=0)
    events = traces[device] if traces else []
    own = snapshot.of("roofbench")
    phases = [
        Phase(row.text("name"), row.number("step"), row.number("begin"), row.number("end"))
        for row in own.items("phases")
    ]
    if any(not 0 <= phase.begin <= phase.end <= len(events) for phase in phases):
        raise refuse(path, "is not a memory snapshot: a phase has events that are not there")
    return Snapshot(
        path=path,
        case=own.text("case", path.name.removesuffix(ENDING)),
        device=own.text("device", "cuda"),
        events=len(events),
        dropped=own.number("dropped", 0),
        allocations=tuple(_allocations(snapshot, events, device)),
        phases=tuple(phases),
        counters=own.figures("counters"),
    )


def load(path: Path) -> list[Snapshot]:
    """Snapshots of every case in a folder, by name. Raises UnusableInputError."""
    if not path.is_dir():
        return [_read(path)]
    found = sorted(path.glob(f"*{ENDING}"))
    if not found:
        raise UnusableInputError(
            f"{printable(str(path))}: holds no snapshot of memory; --memory_snapshot=FOLDER writes them"
        )
    return sorted((_read(each) for each in found), key=lambda snapshot: snapshot.case)
