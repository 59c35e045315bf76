# SPDX-License-Identifier: Apache-2.0
"""Which formats there are. What one of them needs is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from roofreport.errors import UnusableInputError
from roofreport.io.contract import Better

if TYPE_CHECKING:
    from roofreport.history.store import Store

# Of a history and, where somebody chose it, how many of the newest runs.
Format = Callable[["Store", "int | None"], bytes]


def _hud(store: Store, newest: int | None) -> bytes:
    from roofreport.history.export import pytorch_hud, row

    return pytorch_hud.text(row.rows(store, newest)).encode()


def _text(name: str, *more: Better) -> Format:
    """One of the formats for the newest run."""

    def made(store: Store, newest: int | None) -> bytes:
        from roofreport.history.export import row, texts

        text: str = getattr(texts, name)(row.rows(store, newest or 1), *more)
        return text.encode()

    return made


def _parquet(store: Store, newest: int | None) -> bytes:
    import io

    try:
        from roofreport.history.export import parquet, row
    except ModuleNotFoundError as missing:
        raise UnusableInputError("Parquet needs the Python package pyarrow; tools/setup installs it") from missing
    out = io.BytesIO()
    parquet.write(out, row.rows(store, newest))
    return out.getvalue()


def _gpt_fast(store: Store, newest: int | None) -> bytes:
    from roofreport.io import gpt_fast

    runs = store.newest(newest or 1)
    return "".join(gpt_fast.text(store.result(run), with_header=run is runs[0]) for run in runs).encode()


ALL: dict[str, Format] = {
    "parquet": _parquet,
    "pytorch-hud": _hud,
    "gpt-fast": _gpt_fast,
    "github-action-benchmark-smaller": _text("github_action_benchmark", Better.LOWER),
    "github-action-benchmark-bigger": _text("github_action_benchmark", Better.HIGHER),
    "bencher": _text("bencher"),
    "openmetrics": _text("open_metrics"),
}
BINARY = "parquet"
