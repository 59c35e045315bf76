# SPDX-License-Identifier: Apache-2.0
"""Which formats there are. What one of them needs is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roofreport.errors import UnusableInputError
from roofreport.io.contract import Better

if TYPE_CHECKING:
    from roofreport.history.export.row import Row
    from roofreport.history.store import Store


@dataclass(frozen=True)
class Choice:
    """What of a history somebody wants."""

    last: int | None = None  # the newest runs of each machine and toolchain
    machine: str = ""  # runs of machines with this in their name


Format = Callable[["Store", Choice], bytes]


def _rows(store: Store, choice: Choice) -> list[Row]:
    from roofreport.history.export import row

    return [one for one in row.rows(store, choice.last) if choice.machine in one.run.machine.label]


def _hud(store: Store, choice: Choice) -> bytes:
    from roofreport.history.export import pytorch_hud

    return pytorch_hud.text(_rows(store, choice)).encode()


def _parquet(store: Store, choice: Choice) -> bytes:
    import io

    try:
        from roofreport.history.export import parquet
    except ModuleNotFoundError as missing:
        raise UnusableInputError("Parquet needs the Python package pyarrow; tools/setup installs it") from missing
    out = io.BytesIO()
    parquet.write(out, _rows(store, choice))
    return out.getvalue()


def _tonight(store: Store, choice: Choice) -> list[Row]:
    """The newest run of each machine."""
    rows = _rows(store, replace(choice, last=1))
    newest = {row.run.machine.id: row.run.id for row in rows}  # the oldest run comes first
    return [row for row in rows if newest[row.run.machine.id] == row.run.id]


def _newest_run(store: Store, choice: Choice) -> list[Row]:
    rows = _tonight(store, choice)
    return [row for row in rows if row.run == rows[-1].run]


def _open_metrics(store: Store, choice: Choice) -> bytes:
    from roofreport.history.export import texts

    return texts.open_metrics(_tonight(store, choice)).encode()


def _bencher(store: Store, choice: Choice) -> bytes:
    from roofreport.history.export import texts

    return texts.bencher(_newest_run(store, choice)).encode()


def _github_action_benchmark(better: Better) -> Format:
    def made(store: Store, choice: Choice) -> bytes:
        from roofreport.history.export import texts

        return texts.github_action_benchmark(_newest_run(store, choice), better).encode()

    return made


def _gpt_fast(store: Store, choice: Choice) -> bytes:
    from roofreport.io import gpt_fast

    rows = _newest_run(store, choice)
    return gpt_fast.text(store.result(rows[-1].run), with_header=True).encode() if rows else b""


ALL: dict[str, Format] = {
    "parquet": _parquet,
    "pytorch-hud": _hud,
    "gpt-fast": _gpt_fast,
    "github-action-benchmark-smaller": _github_action_benchmark(Better.LOWER),
    "github-action-benchmark-bigger": _github_action_benchmark(Better.HIGHER),
    "bencher": _bencher,
    "openmetrics": _open_metrics,
}
BINARY = "parquet"
OF_MANY_RUNS = ("parquet", "pytorch-hud")  # the others have no place for a date
