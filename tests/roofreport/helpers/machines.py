# SPDX-License-Identifier: Apache-2.0
"""Journals of the machine suite as tests plant them: a machine's true figures, and rows that show them with noise."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import builders

KIB, MIB, GIB = 2**10, 2**20, 2**30
SIZES = [16 * KIB << power for power in range(17)]
_PLAIN = "/stores:plain"
_TRAFFIC = {"read": (1, 1.0, ""), "copy": (2, 0.8, _PLAIN), "write": (1, 0.6, _PLAIN), "update": (2, 1.5, _PLAIN)}
_DTYPES = {"fp32": ("vector", 1.0), "bf16": ("vector", 2.0), "int8": ("vector", 4.0)}


@dataclass(frozen=True)
class Machine:
    """Sizes up to which a level reaches, with the rate of a thread's reads and the latency of an access there."""

    levels: Sequence[tuple[float, float, float]] = (
        (96 * KIB, 250e9, 1.2e-9),
        (2 * MIB, 100e9, 4e-9),
        (math.inf, 30e9, 100e-9),
    )
    threads: int = 2
    memory: float = 40e9  # reads of all threads
    fp32: float = 500e9  # of all threads
    reached: float = 0.9  # by the best product
    start: float = 20e-6  # of a message between ranks
    rate: float = 5e9
    noise: float = 0.01
    seed: int = 0
    said: Mapping[str, Any] = field(default_factory=dict)  # counters of a row, by the begin of its name
    context: Mapping[str, str] = field(default_factory=dict)

    def at(self, size: float) -> tuple[float, float]:
        """Rate and latency: a size up to twice that of a level is half in it, half in the next."""
        for (reach, rate, latency), (_, next_rate, next_latency) in zip(self.levels, self.levels[1:], strict=False):
            if size <= 0.8 * reach:
                return rate, latency
            if size < 2 * reach:
                return 2 / (1 / rate + 1 / next_rate), (latency + next_latency) / 2
        return self.levels[-1][1:]

    def rows(self) -> Iterator[tuple[str, float, float, float, dict[str, float]]]:
        """Name, seconds, FLOPs, bytes, counters."""
        for kind, (arrays, share, stores) in _TRAFFIC.items():
            for size in SIZES:
                work, touched = arrays * size, size * (2 if kind == "copy" else 1)
                name = f"{kind}/impl:stream{stores}/bytes:{size}/threads:1/cache:warm"
                yield name, work / (share * self.at(touched)[0]), 0, work, {}
            for threads in [1 << power for power in range(0 if stores else 1, self.threads.bit_length())]:
                work, rate = arrays * 256 * MIB, share * min(self.memory, threads * self.levels[-1][1])
                yield f"{kind}/impl:stream/bytes:{256 * MIB}/threads:{threads}/cache:warm", work / rate, 0, work, {}
            for other in ("", *((_PLAIN, "/stores:streaming") if stores else ())):
                for size in (512 * MIB, GIB):
                    name = f"{kind}/impl:stream{other}/bytes:{size}"
                    yield name, arrays * size / (share * self.memory), 0, arrays * size, {}
        for pages, worse in (("huge", 1.0), ("small", 1.3)):
            for size in SIZES:
                latency = worse * self.at(size)[1]
                yield f"latency/pages:{pages}/bytes:{size}", 1e4 * latency, 0, 0, {"latency_ns": 1e9 * latency}
        for dtype, (impl, times) in _DTYPES.items():
            for rest, share in (("", 1.0), ("/threads:1", 1 / self.threads), ("/data:zeros", 1.1)):
                yield f"arithmetic/impl:{impl}/dtype:{dtype}{rest}", 1e-3, 1e-3 * share * times * self.fp32, 0, {}
            for n, share in ((512, 0.7 * self.reached), (1024, self.reached)):
                flops = 2.0 * n**3
                seconds = flops / (share * times * self.fp32)
                yield f"matmul/impl:onednn/dtype:{dtype}/n:{n}", seconds, flops, 12.0 * n * n, {}
        yield "parallel_region/what:region", 4e-6, 0, 0, {"latency_ns": 4000.0}
        yield "operator_call/what:out", 1e-6, 0, 0, {}
        yield f"first_touch/pages:small/bytes:{GIB}", 0.5, 0, GIB, {"latency_ns": 1900.0}
        for size in (8, 512, 32 * KIB, 2 * MIB, 64 * MIB):
            yield f"send_recv/impl:gloo/ranks:2/dtype:fp32/bytes:{size}", self.start + size / self.rate, 0, 0, {}

    def lines(self) -> list[dict[str, Any]]:
        """Of a journal, with samples of one speed."""
        noise = random.Random(self.seed)
        found = []
        for name, seconds, flops, work, counters in self.rows():
            factor = math.exp(noise.gauss(0, self.noise))
            counted = {"ci": 0.004, "samples": 40.0} | {key: value * factor for key, value in counters.items()}
            counted |= next((said for start, said in self.said.items() if name.startswith(start)), {})
            line = builders.line(name, 1e3 * seconds * factor, flops=flops, bytes=work, counters=counted)
            axes = dict(part.split(":") for part in name.split("/")[1:])
            omitted = {"cache": "cold" if name.split("/")[0] in _TRAFFIC else "warm"}
            found.append(line | {"axes": omitted | axes})
        return found

    def write(self, path: Path, *more: dict[str, Any]) -> Path:
        facts = {"device": "Planted CPU", "threads": str(self.threads), "memory_bytes": "25000000000"}
        header = builders.header(**facts | dict(self.context))
        path.write_text(builders.journal_text(header, *self.lines(), *more))
        return path
