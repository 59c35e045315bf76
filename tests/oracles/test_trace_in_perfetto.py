# SPDX-License-Identifier: Apache-2.0
"""Perfetto reads the Chrome trace of a profile, and its own nesting gives the figures of our tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import perfetto
import pytest
from built_program import NO_ROOFS, Run
from playwright.sync_api import Browser

pytestmark = pytest.mark.slow  # a browser reads it

STEPS = 2
SIZE = "size:small/context:16/dtype:fp32"
MODEL = "vocab:50/d_model:16/d_ff:32/layers:2/heads:2"
SHORT = ("--suite=full", "--benchmark_min_time=1x", "--warmup_iters=1", *NO_ROOFS, "--check=off", "--threads=1")

# The slices in a step, each with its own time: without the slices directly inside it.
OWN = """
select slice.name, slice.category, slice.dur - coalesce(sum(inside.dur), 0) as own
from slice left join slice as inside on inside.parent_id = slice.id
where slice.category in ('cpu_op', 'user_annotation')
  and (slice.name = 'step' or exists (select 1 from ancestor_slice(slice.id) where name = 'step'))
group by slice.id
"""


def by_name(rows: list[list[Any]]) -> dict[str, tuple[float, float]]:
    """Calls and milliseconds of a step."""
    return {name: (calls / STEPS, own / STEPS / 1e6) for name, calls, own in rows}


@pytest.fixture(params=["impl:eager/{}/attention:naive", "impl:native/{}"])
def profile(request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> tuple[dict[str, Any], Path]:
    """The tables of a training step, and its trace."""
    axes = [f"--axis=train_step.{axis.replace(':', '=')}" for axis in (*MODEL.split("/"), "context:16")]
    case = f"--benchmark_filter=^train_step/{request.param.format(SIZE)}/{MODEL}$"
    done = run(*SHORT, *axes, case, f"--profile={tmp_path}", f"--profile_steps={STEPS}")
    assert done.returncode == 0, done.stderr
    (trace,) = tmp_path.glob("*.trace.json")
    return json.loads(Path(str(trace).replace(".trace.json", ".json")).read_text()), trace


@pytest.fixture
def trace(profile: tuple[dict[str, Any], Path], chromium: Browser) -> Iterator[perfetto.Trace]:
    with perfetto.opened(chromium, profile[1]) as found:
        yield found


def test_it_holds_what_the_tables_say(profile: tuple[dict[str, Any], Path], trace: perfetto.Trace) -> None:
    tables, _ = profile
    assert trace.rows("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    # One thread ran the steps: every operator of the table, by its own time and number of calls.
    found = trace.rows(f"select name, count(*), sum(own) from ({OWN}) where category = 'cpu_op' group by name")
    calls: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for row in tables["operators"]:
        calls[row["name"]] += row["calls"]
        own[row["name"]] += row["self_ms"]
    assert len(calls) > 20
    expected: dict[str, Any] = {name: (calls[name], pytest.approx(own[name], abs=1e-4)) for name in calls}
    assert by_name(found) == expected
    # Every range: a part is called by the last word of its path, and a native kernel is a range, too.
    rows = trace.rows(f"select name, count(*), sum(own) from ({OWN}) where category = 'user_annotation' group by name")
    ranges = by_name(rows)
    assert ranges["step"][0] == 1
    for row in tables["kernels"]:
        if row["name"].startswith("roofbench::"):
            ours = sum(same["calls"] for same in tables["kernels"] if same["name"] == row["name"])
            assert ranges[row["name"]][0] == ours, row["name"]
    assert {"forward", "backward", "optimizer", "block 0", "block 1", "attention", "feed forward"} <= set(ranges)
    (step,) = trace.rows("select sum(dur) from slice where name = 'step' and category = 'user_annotation'")
    assert step[0] / STEPS / 1e6 == pytest.approx(tables["profiled_ms"], abs=1e-4)
