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

from roofreport.io.source import Entry, files_in, read_bytes, refuse
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
    case: str
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
        return _PlainUnpickler(io.BytesIO(data)).load()
    # The errors that a damaged pickle raises are not documented.
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError,
            OverflowError, MemoryError, RecursionError) as error:  # fmt: skip
        raise refuse(path, f"is not a memory snapshot: {printable(str(error), 200)}") from error


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
        case=own.text("case", path.name.removesuffix(ENDING)),
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
