# SPDX-License-Identifier: Apache-2.0
"""Scaling over ranks: the model finds the costs of a simulated ring, and predicts it for more ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import builders
import pytest
from reports import Report

LATENCY = 20e-6  # s
BANDWIDTH = 1e9  # B/s
ARRAY = 8e6  # B
COMPUTATION = 50e-3  # s, of a batch of 256
HIDDEN = 0.4


def ring(ranks: int) -> float:
    """Seconds of an all-reduce: two rounds in which each rank passes on the parts of all others, one by one."""
    seconds = 0.0
    for _ in range(2):
        for _ in range(ranks - 1):
            seconds += LATENCY + ARRAY / ranks / BANDWIDTH
    return seconds


def ring_of_nodes(ranks: int, node: int, latency: float, bandwidth: float) -> float:
    """The same where links between nodes are others. A rank passes a part on when it has it and its link is free."""
    has = [0.0] * ranks
    free = [0.0] * ranks
    for _ in range(2 * (ranks - 1)):
        comes = [0.0] * ranks
        for rank in range(ranks):
            after = (rank + 1) % ranks
            crosses = rank // node != after // node
            free[rank] = max(has[rank], free[rank]) + ARRAY / ranks / (bandwidth if crosses else BANDWIDTH)
            comes[after] = free[rank] + (latency if crosses else LATENCY)
        has = comes
    return max(has)


def step(
    ranks: int,
    batch: int = 256,
    parallel: str = "ddp_flat",
    slower: float = 1.0,
    ring: Callable[[int], float] = ring,
) -> dict[str, Any]:
    computation = COMPUTATION * batch / 256 / (ranks if parallel == "tensor" else 1)
    exposed = (1 - HIDDEN) * ring(ranks)
    name = f"mlp/dtype:fp32/steps:2/layers:4/batch:{batch}/d:256/parallel:{parallel}/ranks:{ranks}"
    counters: dict[str, Any] = {
        "computation_ms": 1e3 * computation,
        "communication_ms": 1e3 * ring(ranks) * slower,
        "exposed_communication_ms": 1e3 * exposed * slower,
    }
    return builders.row(name, 1e3 * (computation + exposed * slower), **counters)


def rows(path: Path, report: Report, *more: str) -> tuple[list[dict[str, str]], str]:
    """The rows of the CSV, and the text for the terminal."""
    return report.rows("ranks", path, *more), " ".join(report("ranks", path, *more).split())


def test_weak_scaling_of_a_ring(tmp_path: Path, report: Report) -> None:
    path = builders.write_json(tmp_path / "a.json", [step(ranks) for ranks in (1, 2, 3, 4)])
    found, text = rows(path, report, "--predict=64,3,1024")
    assert [(row["ranks"], row[""]) for row in found] == [
        *((str(ranks), "measured") for ranks in (1, 2, 3, 4)),
        ("64", "predicted"),
        ("1024", "predicted"),
    ]
    for row in found:
        ranks = int(row["ranks"])
        assert float(row["time"]) == pytest.approx(COMPUTATION + (1 - HIDDEN) * ring(ranks), rel=1e-6)
        assert float(row["efficiency"]) == pytest.approx(COMPUTATION / float(row["time"]), rel=1e-6)
        assert float(row["speed-up"]) == pytest.approx(ranks * float(row["efficiency"]))
    first = next(ranks for ranks in range(1, 10_000) if ring(ranks) > COMPUTATION)
    assert f"longer than computation from {first} ranks on" in text
    assert "takes 40 µs (n-1) + 16 ms (n-1)/n, 40 % of it hidden" in text
    assert "left out of the fit is off by" in text


def test_speed_up_is_in_doubt_where_threads_ran_in_another_place(tmp_path: Path, report: Report) -> None:
    places = {1: 60.0, 2: 62.0, 3: 265.0}
    measured = [{**step(ranks), "handover_ns": place} for ranks, place in places.items()]
    found, _ = rows(builders.write_json(tmp_path / "a.json", measured), report)
    assert [row["speed-up"] == "in doubt" for row in found[:3]] == [False, False, True]
    assert found[2][""] == "measured; threads 60 ns apart, and 265 ns"


@pytest.mark.parametrize(("latency", "bandwidth"), [(1e-3, 1e9), (20e-6, 2.5e8), (100e-6, 5e8)])
def test_links_between_nodes_differ(latency: float, bandwidth: float, tmp_path: Path, report: Report) -> None:
    def nodes(ranks: int) -> float:
        return ring_of_nodes(ranks, 8, latency, bandwidth)

    measured = [step(ranks, ring=nodes) for ranks in (2, 4, 8, 16, 24, 32)]
    path = builders.write_json(tmp_path / "a.json", measured)
    found, text = rows(path, report, "--node=8", "--predict=64,128,256")
    assert [row["ranks"] for row in found[-3:]] == ["64", "128", "256"]
    for row in found:
        if row[""] == "predicted":
            assert float(row["communication"]) == pytest.approx(nodes(int(row["ranks"])), rel=0.1)
    assert "on m nodes" in text
    one_kind = rows(path, report, "--predict=256")[0][-1]
    assert abs(float(one_kind["communication"]) / nodes(256) - 1) > 0.1, "one link for all does not explain them"


def test_links_that_were_not_measured_are_not_predicted(tmp_path: Path, report: Report) -> None:
    path = builders.write_json(tmp_path / "a.json", [step(ranks) for ranks in (2, 3, 4)])
    found, text = rows(path, report, "--node=8", "--predict=8,16")
    assert [row["ranks"] for row in found] == ["2", "3", "4", "8"]
    assert "never, up to 8 ranks; more are on several nodes" in text
    for few in [(2, 4, 16), (2, 4, 8, 16)]:
        path = builders.write_json(tmp_path / "b.json", [step(ranks) for ranks in few])
        text = rows(path, report, "--node=8")[1]
        assert "no prediction without two numbers of ranks above 1, inside a node and beyond it" in text
    path = builders.write_json(tmp_path / "c.json", [step(ranks) for ranks in (2, 4, 8, 16, 32)])
    assert "too few points to leave one out" in rows(path, report, "--node=8")[1], "of those beyond a node"


def test_a_point_that_the_model_does_not_explain_shows_as_its_error(tmp_path: Path, report: Report) -> None:
    path = builders.write_json(tmp_path / "a.json", [step(2), step(3), step(4, slower=4.0)])
    text = rows(path, report)[1]
    error = float(text.partition("is off by ")[2].split(" ")[0])
    truth = COMPUTATION + (1 - HIDDEN) * ring(4) * 4
    assert error == pytest.approx(100 * ((COMPUTATION + (1 - HIDDEN) * ring(4)) / truth - 1), abs=0.1)


def test_strong_scaling_by_batches_and_by_tensors(tmp_path: Path, report: Report) -> None:
    halves = [step(ranks, batch=256 // ranks) for ranks in (1, 2, 4)]
    tensors = [step(ranks, parallel="tensor") for ranks in (1, 2, 4)]
    found, text = rows(builders.write_json(tmp_path / "a.json", [*halves, *tensors]), report, "--predict=8")
    assert {row["scaling"] for row in found} == {"strong"}
    assert "batch 256 of all ranks" in text
    for row in found:
        ranks = int(row["ranks"])
        seconds = COMPUTATION / ranks + (1 - HIDDEN) * ring(ranks)
        assert float(row["time"]) == pytest.approx(seconds, rel=1e-6)
        assert float(row["speed-up"]) == pytest.approx(COMPUTATION / seconds, rel=1e-6)
    assert "the error of the prediction is unknown" in text


def test_noise_is_said_and_a_picture_written(tmp_path: Path, report: Report) -> None:
    noisy = step(2) | {"noisy": 1.0, "ci": 0.3}
    path = builders.write_json(tmp_path / "a.json", [step(1), noisy])
    picture = tmp_path / "ranks.svg"
    found, text = rows(path, report, f"--svg={picture}")
    assert found[1][""] == "measured; noisy (ci 30 %)"
    assert len(found) == 2
    assert "no prediction: 2 ranks: noisy (ci 30 %)" in text
    assert [row["efficiency"] for row in found] == ["1.0", "in doubt"]
    assert "hollow: predicted" in picture.read_text()


@pytest.mark.parametrize(
    "unusable",
    [
        [step(2)],
        [builders.row(builders.MATMUL, 1.0)],
        [step(1), step(2) | {"communication_ms": 0.0}],
        [step(1), builders.error_row(step(2)["name"], "skipped: no Gloo")],
        [step(1), step(2) | dict.fromkeys(("name", "run_name"), step(2)["name"].replace("ranks:2", "ranks:2x"))],
    ],
)
def test_without_two_numbers_of_ranks(unusable: list[dict[str, Any]], tmp_path: Path, report: Report) -> None:
    assert "--ranks=1,2,4" in report.refused("ranks", builders.write_json(tmp_path / "a.json", unusable))
