# SPDX-License-Identifier: Apache-2.0
"""The logic of tools/peers train: what it asks of roofbench, what it reads back, how it compares. No PyTorch runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import peer_runs.training as peers
import pytest

CASE = "train_step/impl:native/size:small/context:128/dtype:fp32"

FAKE = """#!{python}
import json, sys
flags = dict(flag[2:].split("=", 1) for flag in sys.argv[1:] if "=" in flag)
lines = [
    {{"context": {{"roofbench_revision": "abc", "torch_version": "2.11.0", "allocator": "tuned"}}}},
    {{"verdict": "{verdict}", "reason": "no memory", "median_s": 0.25}},
]
open(flags["journal"], "w").write("".join(json.dumps(line) + "\\n" for line in lines[: {lines}]))
open("{log}", "w").write(json.dumps(sys.argv[1:]))
"""


def settings(folder: Path, verdict: str = "measured", lines: int = 2) -> peers.Settings:
    program = folder / "roofbench"
    program.write_text(FAKE.format(python=sys.executable, verdict=verdict, lines=lines, log=folder / "flags.json"))
    program.chmod(0o755)
    return peers.Settings(program, threads=3, samples=None)


def test_ours_asks_for_the_case_and_reads_its_median(tmp_path: Path) -> None:
    seconds, facts = peers.run_ours(CASE, settings(tmp_path))
    assert seconds == 0.25
    assert facts == {"revision": "abc", "torch": "2.11.0", "allocator": "tuned"}
    flags = json.loads((tmp_path / "flags.json").read_text())
    assert f"--benchmark_filter=^{CASE}$" in flags
    for axis in ("impl=native", "size=small", "context=128", "dtype=fp32"):
        assert f"--axis=train_step.{axis}" in flags
    assert "--threads=3" in flags
    assert "--allocator=tuned" in flags
    assert f"--benchmark_min_time={peers.SAMPLES['train_step']}x" in flags
    assert f"--warmup_iters={peers.WARMUPS}" in flags


@pytest.mark.parametrize("allocator", peers.ALLOCATORS)
def test_both_sides_have_the_same_allocator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, allocator: str) -> None:
    asked: list[list[str]] = []
    found = json.dumps({"seconds": [0.5], "settings": {"allocator": allocator}})

    def outcome(case: str, command: list[object]) -> str:
        asked.append(list(map(str, command)))
        return found

    monkeypatch.setattr(peers, "outcome", outcome)
    given = peers.Settings(Path("unused"), threads=1, samples=1, allocator=allocator)
    assert peers.run_peer(CASE, given) == (0.5, {"allocator": allocator})
    assert allocator in asked[0]
    monkeypatch.undo()
    given = peers.Settings(settings(tmp_path).program, threads=1, samples=1, allocator=allocator)
    peers.run_ours(CASE, given)
    assert f"--allocator={allocator}" in json.loads((tmp_path / "flags.json").read_text())


@pytest.mark.parametrize(("verdict", "lines", "reason"), [("skipped", 2, "no memory"), ("measured", 1, "no such case")])
def test_a_case_that_was_not_measured_ends_it(tmp_path: Path, verdict: str, lines: int, reason: str) -> None:
    with pytest.raises(SystemExit, match=reason):
        peers.run_ours(CASE, settings(tmp_path, verdict, lines))


def test_sides_take_turns_and_the_ratio_is_of_their_medians(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order = ""
    medians = {"a": [1.0, 2.0, 3.0, 4.0], "b": [4.0, 4.0, 4.0, 2.0]}

    def side(name: str) -> object:
        def run(case: str, given: peers.Settings) -> tuple[float, dict[str, str]]:
            nonlocal order
            order += name
            return medians[name].pop(0), {"side": name}

        return run

    monkeypatch.setattr(peers, "run_ours", side("a"))
    monkeypatch.setattr(peers, "run_peer", side("b"))
    peers.compare(CASE, rounds=4, settings=peers.Settings(Path("unused"), threads=2, samples=7))
    assert order == "abbaabba"
    out = capsys.readouterr().out
    assert "2 threads, tuned allocator, 4 processes a side, 7 steps each" in out
    assert "2500.000 ms" in out
    assert "4000.000 ms" in out
    assert "0.62     (0.25 to 2.00 by pairs)" in out


def test_a_side_that_fails_is_named_without_a_traceback(tmp_path: Path) -> None:
    given = settings(tmp_path)
    given.program.write_text("#!/bin/sh\necho 'no axis nope' >&2\nexit 2\n")
    with pytest.raises(SystemExit, match=rf"{CASE}: roofbench ended with 2"):
        peers.run_ours(CASE, given)


@pytest.mark.parametrize(
    ("argument", "reason"),
    [("matmul/n:64", "there are peers for the cases of train_step and mlp"), ("--rounds=0", "0 is less than 1")],
)
def test_bad_arguments_are_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str], argument: str, reason: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        peers.main([argument])
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def test_a_reason_does_not_act_on_the_terminal(tmp_path: Path) -> None:
    given = settings(tmp_path, "skipped")
    with pytest.raises(SystemExit) as ended:
        peers.run_ours(f"{CASE}/x:\x1b]0;y", given)
    assert "\x1b" not in str(ended.value)
