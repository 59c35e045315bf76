# SPDX-License-Identifier: Apache-2.0
"""tools/report machine: passports of planted machines, whole, in part, in doubt, and side by side."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import builders
import pytest
from machines import GIB, MIB, Machine
from reports import Report
from roofreport.compare.machine import Passport
from roofreport.compare.machine_record import MOST_BYTES, record_text
from roofreport.io.load import load
from roofreport.io.reliability import IN_DOUBT

NOISY = {"noisy": 1.0, "ci": 0.5}
PARTS = (
    *("Ceilings", "Levels of memory", "By threads", "Arithmetic", "The best library product", "Floors", "Links"),
    *("Balance points", "What the machine allows", "How far to trust it"),
)


def _passport(path: Path, machine: Machine | None = None, *more: dict[str, Any]) -> Passport:
    return Passport([load((machine or Machine()).write(path, *more))])


def test_a_product_above_the_bare_loop_says_so(tmp_path: Path, report: Report) -> None:
    for reached, said in ((0.9, False), (1.3, True)):
        path = Machine(reached=reached).write(tmp_path / "a.jsonl")
        shown = report("machine", path)
        assert ("above the bare loop, which met a slower machine" in shown) is said


def test_a_passport_has_what_was_planted(tmp_path: Path) -> None:
    passport = _passport(tmp_path / "a.jsonl")
    found = {name: one.value for name, one in passport.ceilings.items()}
    planted = {
        "read": 40e9,
        "copy": 32e9,
        "write": 24e9,
        "update": 60e9,
        "latency": 100e-9,
        "fp32": 500e9,
        "bf16": 1e12,
        "int8": 2e12,
        "matmul fp32": 450e9,
        "matmul int8": 1.8e12,
        "parallel region region": 4e-6,
        "operator call out": 1e-6,
        "first touch small each page of 1 GiB": 1.9e-6,
        "send_recv/impl:gloo/ranks:2/dtype:fp32 start": 20e-6,
        "send_recv/impl:gloo/ranks:2/dtype:fp32 rate": 5e9,
    }
    assert {name: found[name] for name in planted} == pytest.approx(planted, rel=0.05)
    (one,) = [memory for memory in passport.memory if memory.levels]
    assert one.threads == 1, "also of the latency, whose loads wait for each other"
    assert [level.largest for level in one.levels] == [64 * 1024, MIB, 2 * GIB]
    assert passport.level_names(one) == ["level 1", "level 2", "memory"]
    assert one.levels[1].values["copy plain"] == pytest.approx(80e9, rel=0.03)
    assert one.levels[1].values["latency"] == pytest.approx(4e-9, rel=0.03)
    saturated = {scaling.name: scaling.saturates for scaling in passport.scalings}
    assert saturated["arithmetic vector fp32"] == saturated["read"] == 2
    assert not passport.unmeasured and not passport.speeds


def test_memory_saturates_before_arithmetic(tmp_path: Path) -> None:
    passport = _passport(tmp_path / "a.jsonl", Machine(threads=8, memory=60e9))
    saturated = {scaling.name: scaling.saturates for scaling in passport.scalings}
    assert (saturated["read"], saturated["arithmetic vector bf16"]) == (2, 8)


@pytest.mark.parametrize("form", ["terminal", "markdown", "latex"])
def test_every_form_has_every_part(form: str, tmp_path: Path, report: Report) -> None:
    out = report("machine", Machine().write(tmp_path / "a.jsonl"), f"--format={form}")
    assert all(part in out for part in ("Passport of Planted CPU, 2 threads", *PARTS))
    begin = {"terminal": r"^  level 1|^ +1  level 1", "markdown": r"^\| 1 \| level 1", "latex": r"^1 & level 1"}[form]
    assert re.search(begin, out, re.MULTILINE)


def test_balance_points_are_of_the_same_threads(tmp_path: Path, report: Report) -> None:
    out = report("machine", Machine(noise=0).write(tmp_path / "a.jsonl"), "--format=markdown")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("| ")]
    assert ["1", "fp32", "250 GFLOP/s", "1", "2.5", "8.33"] in rows
    assert ["2", "bf16", "1 TFLOP/s", "", "", "25"] in rows


def test_a_part_of_a_passport_says_what_is_missing(tmp_path: Path, report: Report) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(builders.journal_text(builders.header(), builders.line(builders.MATMUL, 10.0)))
    out = report("machine", path)
    assert "not measured: memory, latency, arithmetic, floors, links" in out
    assert "Floors" not in out and "Levels" not in out
    assert re.search(r"matmul fp32 +215 GFLOP/s .* 500 GFLOP/s +42.9 %", out), "against the roof of the run"
    path.write_text(builders.journal_text(builders.header()))
    assert "no cases" in report("machine", path)


def test_bounds_are_the_work_over_the_roofs(tmp_path: Path, report: Report) -> None:
    passport = _passport(tmp_path / "a.jsonl", Machine(noise=0))
    bounds = {(one.step.model, one.step.step, one.step.format): one for one in passport.bounds}
    token = bounds["llama3_1b", "token", "bf16"]
    assert token.roof == "read"
    assert token.seconds == pytest.approx(2.47e9 / 40e9, rel=0.02), "2.47 GB of weights for each token"
    prompt = bounds["llama3_1b", "prompt", "bf16"]
    assert prompt.roof == "bf16"
    assert prompt.rate == pytest.approx(1e12 / (2 * 1.0e9), rel=0.05), "2 FLOPs a parameter, without the embedding"
    step = bounds["small", "training", "fp32"]
    assert step.roof == "fp32"
    flops = 6 * 120.9e6 * 512  # of parameters that multiply a token
    optimizer = 128.6e6 * (4 / 40e9 + 24 / 60e9)
    assert step.seconds == pytest.approx(flops / 500e9 + optimizer, rel=0.05)
    assert bounds["mixtral_8x7b", "token", "bf16"].missing == "needs 93.5 GB"
    out = report("machine", tmp_path / "a.jsonl")
    assert re.search(r"llama3_1b +16\.\d tokens/s \(read\)", out)


def test_energy_is_that_of_a_flop_and_of_a_byte(tmp_path: Path, report: Report) -> None:
    read = f"read/impl:stream/bytes:{GIB}/threads:1"
    said = {"arithmetic/impl:vector/dtype:fp32": {"energy_j": 0.05}, read: {"energy_j": 1.0}}
    out = report("machine", Machine(noise=0, said=said).write(tmp_path / "a.jsonl"), "--format=markdown")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("| ")]
    assert ["vector fp32", "50 W", "100 pJ/FLOP"] in rows, "0.05 J for a millisecond at 500 GFLOP/s"
    assert ["read, memory, 1 thread", "27.9 W", "931 pJ/byte"] in rows, "1 J for 1 GiB at 30 GB/s"
    assert "Energy" not in report("machine", Machine().write(tmp_path / "b.jsonl")), "nothing counts it here"


def test_nothing_is_concluded_from_rows_in_doubt(tmp_path: Path, report: Report) -> None:
    said = {"read": NOISY, "arithmetic/impl:vector/dtype:bf16": NOISY, "send_recv": NOISY}
    machine = Machine(said=said, context={"roof_read": "39e9", "roof_bf16": "1e9"})
    passport = _passport(tmp_path / "a.jsonl", machine)
    assert passport.ceilings["read"].doubt == "noisy (ci 50 %)"
    assert all("read" not in level.values for memory in passport.memory for level in memory.levels)
    assert [one.link for one in passport.links] == [None]
    bounds = {(one.step.model, one.step.step): one for one in passport.bounds}
    assert bounds["llama3_1b", "token"].missing == f"read: {IN_DOUBT}"
    out = report("machine", tmp_path / "a.jsonl", "--format=markdown")
    assert [scaling.saturates for scaling in passport.scalings if scaling.name == "read"] == [None]
    assert "18 of 109 points are in doubt, and in no level" in out
    assert re.search(r"\| matmul bf16 \|.*\| in doubt \|", out)
    assert re.search(r"\| 2 \| fp32 \|.*\| in doubt \|", out), "the balance point"
    assert "no fit: 0 of 5 sizes are not in doubt" in out


def test_a_row_in_doubt_gives_way_to_one_that_is_not(tmp_path: Path) -> None:
    machine = Machine(said={f"read/impl:stream/bytes:{GIB}": NOISY, "matmul/impl:onednn/dtype:fp32/n:1024": NOISY})
    ceilings = _passport(tmp_path / "a.jsonl", machine).ceilings
    assert ceilings["read"].source == f"read/impl:stream/bytes:{GIB // 2}" and not ceilings["read"].doubt
    assert ceilings["matmul fp32"].source.endswith("n:512")


def test_a_row_in_doubt_gives_way_to_the_roof_of_the_run(tmp_path: Path) -> None:
    machine = Machine(said={"read": NOISY, "arithmetic": NOISY}, context={"roof_read": "60e9", "roof_fp32": "400e9"})
    ceilings = _passport(tmp_path / "a.jsonl", machine).ceilings
    assert ceilings["read"].value == 60e9 and not ceilings["read"].doubt
    assert ceilings["fp32"].doubt, "the rows had more"


@pytest.mark.parametrize(("share", "is_in_doubt"), [("4.9", False), ("68.3", True)])
def test_a_roof_beside_other_programs_is_in_doubt(share: str, is_in_doubt: bool, tmp_path: Path) -> None:
    context = {"roof_read": "60e9", "other_load": f"{share} % while the roofs were measured"}
    machine = Machine(said={"read": NOISY}, context=context)
    read = _passport(tmp_path / "a.jsonl", machine).ceilings["read"]
    assert (read.doubt == f"others {share} % while the roofs were measured") == is_in_doubt and read.value == 60e9


def test_a_ceiling_is_not_below_a_row_in_doubt(tmp_path: Path) -> None:
    def update(gb_per_s: float) -> dict[str, Any]:
        name = f"update/impl:stream/bytes:{GIB}/stores:plain"
        return builders.line(name, 1e3 * 2 * GIB / (1e9 * gb_per_s), bytes=2 * GIB, counters={"noisy": 1.0, "ci": 0.2})

    higher = _passport(tmp_path / "a.jsonl", None, update(90)).ceilings["update"]
    assert higher.doubt and higher.value == pytest.approx(90e9, rel=0.01), "72 GB/s at least"
    lower = _passport(tmp_path / "b.jsonl", None, update(70)).ceilings["update"]
    assert not lower.doubt and lower.value == pytest.approx(60e9, rel=0.05), "56 GB/s or more say nothing"


def test_machines_stand_side_by_side(tmp_path: Path, report: Report) -> None:
    base = Machine().write(tmp_path / "a.jsonl")
    lower = {"device": "Other CPU", "roof_fp32": "400e9"}
    other = Machine(memory=80e9, said={"arithmetic": NOISY}, context=lower).write(tmp_path / "b.jsonl")
    out = report("machine", base, other)
    assert "[1] Planted CPU" in out and "[2] Other CPU" in out
    (read,) = [line for line in out.splitlines() if line.lstrip().startswith("read ")]
    found = re.search(r"(\d\.\d\d)x \((\d\.\d\d) … (\d\.\d\d)\)", read)
    assert found and float(found[2]) < float(found[1]) < float(found[3])
    assert float(found[1]) == pytest.approx(2, rel=0.05)
    (fp32,) = [line for line in out.splitlines() if line.lstrip().startswith("fp32 ")]
    assert fp32.endswith(IN_DOUBT)
    for flag in ("--html", "--svg", "--record"):
        assert "these files are of several" in report.refused("machine", base, other, f"{flag}={tmp_path / 'out'}")


def test_files_of_one_machine_are_its_processes(tmp_path: Path, report: Report) -> None:
    paths = [Machine(seed=seed, noise=0.002).write(tmp_path / f"{seed}.jsonl") for seed in range(3)]
    out = report("machine", *paths)
    assert "of 3 processes" in out and "processes differ" not in out
    slow = Machine(noise=0.002, memory=36e9).write(tmp_path / "slow.jsonl")
    far = ((math.inf, 30e9, 130e-9),)
    noisy = Machine(noise=0.002, said={"latency": NOISY}, levels=far).write(tmp_path / "noisy.jsonl")
    out = report("machine", *paths, slow, noisy)
    _, out = out.split("processes differ")
    (read,) = re.findall(r"^ +read +36\S* GB/s +40\S* GB/s +1\S* % +(\S+)", out, re.MULTILINE)
    assert f"{read} each is steady by itself" in out
    (latency,) = [line for line in out.splitlines() if re.match(" +latency .*in doubt in 1 of 5 processes", line)]
    assert "130 ns" in latency
    assert not re.search(r"^ +fp32 ", out, re.MULTILINE)
    assert re.search(r"the other \d+ ceilings of 5 processes agree within 3 %", out)


def test_memory_of_two_speeds_is_told_with_their_shares(tmp_path: Path, report: Report) -> None:
    def line(size: int, rates: list[float]) -> dict[str, Any]:
        samples = [size / rate * (1 + place / 1e3) for place, rate in enumerate(rates)]
        name = f"read/impl:stream/bytes:{size}/threads:4"
        return builders.line(name, 1e3 * samples[0], bytes=size, samples_s=samples, counters={"samples": 16.0})

    one = line(GIB, [80e9] * 10 + [50e9] * 6), line(GIB // 2, [50e9] * 16)
    passport = _passport(tmp_path / "a.jsonl", None, *one)
    (speeds,) = passport.speeds
    assert (speeds.slow, speeds.fast) == pytest.approx((50e9, 80e9), rel=0.02)
    slow, fast = (6 + 8) / 50, 10 / 80
    assert speeds.slow_share == pytest.approx(slow / (slow + fast), rel=0.02), "of the time, not of the samples"
    said = report("machine", tmp_path / "a.jsonl")
    assert re.search(
        r"two speeds: read, 4 threads: 49\.\d GB/s for 69\.\d % of the time, 79\.\d GB/s for 30\.\d %", said
    )


def test_processes_that_differ_by_the_places_of_their_threads(tmp_path: Path, report: Report) -> None:
    paths = []
    for seed, (memory, handover) in enumerate([(30e9, 61.0), (43e9, 264.0), (30e9, 60.0), (43e9, 266.0)]):
        machine = Machine(seed=seed, noise=0.002, memory=memory, said={"read": {"handover_ns": handover}})
        paths.append(machine.write(tmp_path / f"{seed}.jsonl"))
    _, out = report("machine", *paths, "--format=markdown").split("processes differ")
    assert re.search(r"^\| read \|.*\| 30\S* GB/s with threads 60 ns apart, 43\S* GB/s with threads 265 ns", out, re.M)


def test_the_places_of_the_threads_are_counted(tmp_path: Path, report: Report) -> None:
    def line(size: int, handover: float) -> dict[str, Any]:
        name = f"read/impl:stream/bytes:{size}/threads:4"
        return builders.line(name, 1.0, bytes=size, counters={"samples": 16.0, "handover_ns": handover})

    lines = [line(GIB >> place, handover) for place, handover in enumerate([270, 60, 265, 62, 64])]
    _passport(tmp_path / "a.jsonl", None, *lines)
    said = report("machine", tmp_path / "a.jsonl")
    assert "from one thread to the next, a cache line took 62 ns in 3 rows and 268 ns in 2 rows" in " ".join(
        said.split()
    )


def test_a_record_names_no_folder_of_its_machine(tmp_path: Path, report: Report) -> None:
    whole, record = tmp_path / "a.jsonl", tmp_path / "record.jsonl"
    Machine().write(whole)
    header, _, rest = whole.read_text().partition("\n")
    facts = json.loads(header)
    facts["context"]["command_line"] = "/one/two/roofbench --suite=machine --journal=/three/b.jsonl '--axis=read.n=1/2'"
    whole.write_text(f"{json.dumps(facts)}\n{rest}")
    report("machine", whole, f"--record={record}")
    kept = json.loads(record.read_text().partition("\n")[0])["context"]["command_line"]
    assert kept == "roofbench --suite=machine --journal=b.jsonl '--axis=read.n=1/2'"


@pytest.mark.parametrize("threads", [2, 64])
def test_a_record_is_small_and_gives_the_same_passport(threads: int, tmp_path: Path, report: Report) -> None:
    whole = Machine(threads=threads, memory=200e9)
    others = [builders.line(f"gelu/dtype:fp32/elements:{size}", 1.0) for size in range(100)]
    report("machine", whole.write(tmp_path / "a.jsonl", *others), f"--record={tmp_path / 'record.jsonl'}")
    text = (tmp_path / "record.jsonl").read_text()
    assert len(text.encode()) <= MOST_BYTES and "gelu" not in text.partition("\n")[2]
    assert json.loads(text.partition("\n")[0])["context"]["command_line"], "how to repeat it"
    kept, passport = Passport([load(tmp_path / "record.jsonl")]), Passport([load(tmp_path / "a.jsonl")])
    assert {name: one.value for name, one in kept.ceilings.items()} == pytest.approx(
        {name: one.value for name, one in passport.ceilings.items()}, rel=1e-3
    )
    levels, same = ([level for memory in one.memory for level in memory.levels] for one in (passport, kept))
    assert [level.values["read"] for level in same] == pytest.approx(
        [level.values["read"] for level in levels], rel=0.02
    )
    assert record_text(kept) == text


def test_what_does_not_fit_is_no_record(tmp_path: Path, report: Report) -> None:
    regions = [builders.line(f"parallel_region/what:{'a' * 200}{number}", 1.0) for number in range(100)]
    path = Machine().write(tmp_path / "a.jsonl", *regions)
    assert "do not fit into a record of 20000 bytes" in report.refused("machine", path, f"--record={tmp_path / 'b'}")
    assert not (tmp_path / "b").exists()


def test_a_record_keeps_what_is_in_doubt(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    machine = Machine(said={"read": NOISY, "copy": {"samples": 2.0}, "write": {"throttled": 1.0}})
    passport = _passport(tmp_path / "a.jsonl", machine)
    path.write_text(record_text(passport))
    kept = Passport([load(path)])
    assert [kept.ceilings[kind].doubt for kind in ("read", "copy", "write")] == [
        passport.ceilings[kind].doubt for kind in ("read", "copy", "write")
    ]


def test_pictures_and_a_page(tmp_path: Path, report: Report) -> None:
    path = Machine().write(tmp_path / "a.jsonl")
    report("machine", path, f"--svg={tmp_path / 'a.svg'}", f"--html={tmp_path / 'a.html'}")
    svg, html = ((tmp_path / f"a.{kind}").read_text() for kind in ("svg", "html"))
    assert "level 2: 100 GB/s" in svg and "Roofline of Planted CPU" in svg
    assert all(f"<h2>{part}" in html for part in PARTS)
    assert html.count('<svg class="chart wide"') == 4, "roofline, bandwidth, latency, threads"
    assert "<script" not in html and "script-src &#39;none&#39;" in html


def test_googles_json_is_read_as_well(tmp_path: Path, report: Report) -> None:
    rows = [
        builders.row(f"read/impl:stream/bytes:{size}", 1e3 * size / 4e10) | {"bytes/s": 4e10, "bytes": size}
        for size in (256 * MIB, GIB)
    ]
    assert re.search(r"read +40 GB/s", report("machine", builders.write_json(tmp_path / "a.json", rows)))
