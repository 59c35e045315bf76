"""The table of metrics against the program's own table of counters."""

from __future__ import annotations

import re
from pathlib import Path

from roofreport import metrics
from roofreport.metrics import Better

_COUNTERS = Path(__file__).parents[2] / "lib/harness/counters.cc"


def _program_table() -> list[tuple[str, str, str]]:
    """(name, unit, better) of every row of kTable."""
    source = _COUNTERS.read_text()
    table = source[source.index("kTable[] = {") : source.index("}  // namespace", source.index("kTable[] = {"))]
    rows = re.findall(r'\{"([^"]+)", "([^"]+)", Better::k(\w+),', table)
    return [(name, unit, better.lower()) for name, unit, better in rows]


def test_agrees_with_the_program() -> None:
    ours = [(row.name, row.unit, row.better.value) for row in metrics.COUNTERS]
    assert len(ours) > 15
    assert ours == _program_table()


def test_patterns() -> None:
    for name, row in (
        ("a100_flop_util", "<ref>_flop_util"),
        ("a100_80gb_mem_util", "<ref>_mem_util"),
        ("forward_ms", "<phase>_ms"),
        ("gate_up_roof", "<phase>_roof"),
        ("mean_ms", "mean_ms"),
        ("flop_util", "flop_util"),
        ("activation_mem", "<part>_mem"),
        ("predicted_activation_mem", "predicted_<part>_mem"),
        ("predicted_mem", "predicted_mem"),
    ):
        found = metrics.find(name)
        assert found is not None
        assert found.name == row
    assert metrics.find("_ms") is None
    assert metrics.find("nonsense") is None


def test_every_metric_with_a_direction_has_a_threshold() -> None:
    for row in metrics.COUNTERS:
        assert row.practical >= 0
        if row.better is not Better.NEITHER and row.noisy:
            assert row.practical > 0, row.name
