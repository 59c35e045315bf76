# SPDX-License-Identifier: Apache-2.0
"""The result of measuring one function."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from roofbench import _core, _render
from roofbench._machine import context

_FEWEST_SAMPLES = _core.fewest_for_interval
_NOISE = _core.noise_reasons()
_FLAGS = ("disturbed", "throttled", "launch_bound")


@functools.cache
def _meanings() -> dict[str, str]:
    """Of counters, as the contract has them; those of a flag say what its 1 means."""
    counters = json.loads(_core.contract())["counters"]
    return {counter["name"]: str(counter["meaning"]).removeprefix("1: ") for counter in counters}


def _verdict(name: str) -> property:
    return property(lambda result: name in result.verdicts)


@dataclasses.dataclass(frozen=True, repr=False)
class Result:
    """A measurement, or the reason why it does not count."""

    name: str
    failure: str = ""  # why it does not count; "": it does
    # The line of a journal, without the case; samples of a failed one are kept. Empty: there are none.
    measurement: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    axes: dict[str, str] = dataclasses.field(default_factory=dict)
    first_call: float | None = None  # seconds, with all compilation; never among the samples
    checked: bool = False  # against a reference
    notes: Sequence[str] = ()  # what else limits the result
    seed: int = 0
    subject: Hashable = dataclasses.field(default=None, compare=False)  # what was measured

    noisy = _verdict("noisy")
    disturbed = _verdict("disturbed")
    throttled = _verdict("throttled")
    launch_bound = _verdict("launch_bound")

    @property
    def ok(self) -> bool:
        return not self.failure

    @property
    def samples(self) -> list[float]:
        """Seconds of a call, in the order of measurement."""
        return list(self.measurement.get("samples_s", ()))

    @property
    def median(self) -> float | None:
        return self.measurement.get("median_s")

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the median; None with fewer than six samples."""
        return _core.median_interval(self.samples) if len(self.samples) >= _FEWEST_SAMPLES else None

    @property
    def roof(self) -> float | None:
        """The time that the roof allows over the median; None without `work` or if it is unknown."""
        return self.counters.get("roof") if self.ok else None

    @property
    def roof_name(self) -> str:
        return str(self.measurement.get("roof", {}).get("name", ""))

    @property
    def counters(self) -> dict[str, float]:
        return dict(self.measurement.get("counters", {}))

    @property
    def verdicts(self) -> dict[str, str]:
        """Reasons to distrust the figures, each explained: noisy, disturbed, throttled, launch_bound."""
        if not self.measurement:
            return {}
        noise, counters = self.measurement.get("noise", ()), self.counters
        found = {"noisy": "; ".join(map(_NOISE.__getitem__, noise))} if noise else {}
        found |= {flag: _meanings()[flag] for flag in _FLAGS if counters.get(flag, 0) > 0}
        if len(self.samples) < _FEWEST_SAMPLES:
            found["few samples"] = f"{len(self.samples)} do not bound a median; give it more max_time"
        return found

    def _columns(self) -> dict[str, str]:
        return {} if self.median is None else _render.figures(self.median, self.counters, self.roof_name)

    def __repr__(self) -> str:
        noisy = f"noisy ({', '.join(self.measurement.get('noise', ()))})"
        notes = [noisy if verdict == "noisy" else verdict for verdict in self.verdicts]
        return _render.line(self.name, self._columns(), [*notes, *self.notes], self.failure)

    def _repr_html_(self) -> str:
        doubts = self.verdicts | ({"note": "; ".join(self.notes)} if self.notes else {})
        return _render.table(self.name, self._columns(), doubts, self.failure)

    # Records.

    def line(self, *, repetition: int = 0) -> dict[str, Any]:
        """The row of this case in a record."""
        text = _core.unmeasured_line(self.name, self.axes, "failed", self.failure, repetition=repetition)
        line: dict[str, Any] = json.loads(text)
        if self.failure:
            return line | ({"samples_s": self.samples} if self.samples else {})
        return {**self.measurement, **line, "verdict": "measured"}

    def json(self) -> str:
        return json.dumps(self.line())

    def save(self, path: str | Path) -> None:
        """Writes a record of this case, for `tools/report` and `roofreport`."""
        save([self], path)


def save(results: Iterable[Result], path: str | Path) -> None:
    """Writes the record of these results into one file, completely or not at all. Several results of one function with
    arguments of one kind are its repetitions. Raises ValueError for others of one name."""
    counts: dict[str, int] = {}
    subjects: dict[str, Hashable] = {}
    axes: dict[str, dict[str, Any]] = {}
    lines = []
    for result in results:
        if subjects.setdefault(result.name, result.subject) != result.subject:
            raise ValueError(
                f"{result.name} is the name of results of several functions, or of arguments of several kinds: give"
                " each measurement its name=…"
            )
        repetition = counts[result.name] = counts.get(result.name, -1) + 1
        axes.setdefault(result.name.partition("/")[0], {}).update(result.axes)
        lines.append(result.line(repetition=repetition))
    families = [
        {"name": name, "cache_default": "cold", "axes": [{"name": axis} for axis in own]} for name, own in axes.items()
    ]
    write_record(Path(path), context(), families, lines)


def contract_with(families: Sequence[Mapping[str, Any]]) -> str:
    """What `tools/report` knows about the names in a record, as JSON."""
    contract: dict[str, Any] = json.loads(_core.contract())
    return json.dumps(contract | {"families": families})


def write_record(
    path: Path, facts: Mapping[str, str], families: Sequence[Mapping[str, Any]], lines: Iterable[Mapping[str, Any]]
) -> None:
    """Raises OSError."""
    text = _core.record_header(dict(facts), contract_with(families))
    if why := _core.write_file(str(path), text + "".join(f"{json.dumps(line)}\n" for line in lines)):
        raise OSError(why)
