# SPDX-License-Identifier: Apache-2.0
"""The result of measuring one function."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from roofbench import _core, _render
from roofbench._machine import context

_FEWEST_SAMPLES = 6  # fewer do not bound a median at 95 %
_NOISE = {
    "ci": "the interval of the median is wider than 5 %",
    "drift": "the medians of successive chunks of samples differ by more than 10 %",
    "others": "other programs used more than 5 % of the processors' time",
    "stolen": "the hypervisor took more than 5 % of the processors' time",
}
_FLAGS = {
    "disturbed": "it ran above the roof measured with it, the probes of that roof disagree, or other programs took more"
    " than half of the processors: no share is given",
    "throttled": "the processors slowed themselves down for heat",
    "launch_bound": "the host takes longer to start the work than the device to do it",
}


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
        found |= {flag: why for flag, why in _FLAGS.items() if counters.get(flag, 0) > 0}
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

    # The contract of results.

    def line(self, *, repetition: int = 0) -> dict[str, Any]:
        """The line of a journal."""
        text = _core.unmeasured_line(self.name, self.axes, "failed", self.failure, repetition=repetition)
        line: dict[str, Any] = json.loads(text)
        if self.failure:
            return line | ({"samples_s": self.samples} if self.samples else {})
        return {**self.measurement, **line, "verdict": "measured"}

    def row(self, *, repetition: int = 0, family_index: int = 0) -> dict[str, Any]:
        """The row of a result file, as the program writes it."""
        line = json.dumps(self.line(repetition=repetition))
        parsed: dict[str, Any] = json.loads(_core.rows([line], self.axes, family_index=family_index)[0])
        return parsed

    def json(self) -> str:
        return json.dumps(self.row())

    def save(self, path: str | Path) -> None:
        """Writes a result file of this case, for `tools/report` and `roofreport`."""
        save([self], path)


def save(results: Iterable[Result], path: str | Path) -> None:
    """Writes results into one file, completely or not at all."""
    from roofbench._runner import write_result

    counts: dict[str, int] = {}
    axes: dict[str, dict[str, Any]] = {}
    rows = []
    for result in results:
        repetition = counts[result.name] = counts.get(result.name, -1) + 1
        axes.setdefault(result.name.partition("/")[0], {}).update(result.axes)
        rows.append(result.row(repetition=repetition, family_index=list(counts).index(result.name)))
    # For readers of the file: an axis is not a counter.
    families = [
        {"name": name, "cache_default": "cold", "axes": [{"name": axis} for axis in own]} for name, own in axes.items()
    ]
    write_result(Path(path), context(), families, rows)
