# SPDX-License-Identifier: Apache-2.0
"""The logic of tools/peers, with stand-ins for all engines: no peer is installed or run."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import peer_runs.__main__ as program
import pytest
import torch
from peer_runs import collectives, gloo_ranks, pinned, serving, serving_process, training, turns
from peer_runs.checkpoint import SHAPES, prompt_of
from peer_runs.figures import Ratio, Row, ahead, ratio, table
from peer_runs.peer_table import PEERS, Peer
from peer_runs.servers import gguf_file
from peer_runs.turns import FailedError, Task
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]
OURS = {"bf16": [10.0, 20.0, 30.0], "int8": [8.0, 8.0, 8.0], "int4": [1.0, 1.0, 1.0]}
STEP = "train_step/impl:native/size:small/context:128/dtype:fp32"

ROOFBENCH = """#!{python}
import json, sys
flags = dict(flag[2:].split("=", 1) for flag in sys.argv[1:] if "=" in flag)
lines = [
    {{"context": {{"roofbench_revision": "abc", "torch_version": "2.11.0", "allocator": "tuned"}}}},
    {{"verdict": "{verdict}", "reason": "no memory", "median_s": 0.25}},
]
open(flags["journal"], "w").write("".join(json.dumps(line) + "\\n" for line in lines[: {lines}]))
open("{log}", "w").write(json.dumps(sys.argv[1:]))
"""
FACTS = {"revision": "abc", "torch": "2.11.0", "allocator": "tuned"}


def roofbench(folder: Path, verdict: str = "measured", lines: int = 2) -> Path:
    """A program that writes such a journal, and its flags to flags.json."""
    path = folder / "roofbench"
    path.write_text(ROOFBENCH.format(python=sys.executable, verdict=verdict, lines=lines, log=folder / "flags.json"))
    path.chmod(0o755)
    return path


def flags_in(folder: Path) -> set[str]:
    return set(json.loads((folder / "flags.json").read_text()))


def task(folder: Path, verb: str = "decode") -> Task:
    return Task(verb, "tiny_llama", 2, turns.SIZES[verb][1], 7, "tuned", folder / "roofbench", folder / "cache")


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Peers that take 1.5 of our time, CTranslate2 half of it; OpenVINO's int8 fails in the second round."""
    taken: list[str] = []

    def ours(bits: str, given: Task) -> tuple[float, dict[str, str]]:
        taken.append(f"{bits} ours")
        return OURS[bits][taken.count(f"{bits} ours") - 1], {"revision": "abc"}

    def peer(row: Peer, bits: str, given: Task) -> tuple[float, dict[str, str]]:
        taken.append(f"{bits} {row.name}")
        turn = taken.count(f"{bits} {row.name}") - 1
        if (row.name, bits, turn) == ("openvino", "int8", 1):
            raise FailedError("exit status 1: \x1b[31mno memory")
        return OURS[bits][turn] * (0.5 if row.name == "ctranslate2" else 1.5), {row.packages[0]: "1.2"}

    monkeypatch.setattr(turns, "run_ours", ours)
    monkeypatch.setattr(turns, "run_peer", peer)
    monkeypatch.setattr(turns, "make_checkpoint", lambda given: None)
    monkeypatch.setattr(turns, "convert", lambda row, bits, given: None)
    return taken


def test_a_failed_peer_is_reported_and_drops_out(
    order: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    given = ["prefill", "--rounds=3", "--bits=int8", "--peers=openvino,ctranslate2", "--threads=2", "--samples=4"]
    assert program.main([*given, "--prompt=2048", f"--json={out}"]) == serving.EXIT_FAILED
    assert order == ["int8 ours", "int8 openvino", "int8 ctranslate2"] * 2 + ["int8 ours", "int8 ctranslate2"]
    shown = capsys.readouterr().out
    assert "prefill of llama3_1b, prompt 2048: 2 threads, tuned allocator, 3 rounds, 4 samples a process" in shown
    assert re.search(r"int8 +openvino +12.00 +1.50 +1.50 to 1.50 +failed: exit status 1: .*no memory", shown)
    assert re.search(r"int8 +ctranslate2 +4.00 +0.50 +0.50 to 0.50 +ctranslate2 1.2; compute int8", shown)
    assert "int8: the best peer, ctranslate2, takes 0.50 of roofbench's time, 0.50 to 0.50 by rounds" in shown
    assert "roofbench is ahead in 0 of 3" in shown
    assert "\x1b" not in shown
    rows = {row["name"]: row for row in json.loads(out.read_text())["rows"]}
    assert rows["openvino"]["ms"] == [12.0, None, None]
    assert rows["ctranslate2"]["ms"] == [4.0, 4.0, 4.0]


def test_resume_adds_rounds_to_those_of_a_file(order: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    given = ["decode", "--bits=bf16", "--peers=transformers", f"--json={out}"]
    assert program.main([*given, "--rounds=1"]) == 0
    assert program.main([given[0], "--bits=bf16,int4", *given[2:], "--rounds=2", "--resume"]) == 0
    stored = {(row["name"], row["bits"]): row["ms"] for row in json.loads(out.read_text())["rows"]}
    assert stored["transformers", "bf16"] == [15.0, 30.0, 45.0]
    assert stored["roofbench", "int4"] == [None, 1.0, 1.0]
    with pytest.raises(SystemExit, match="other settings"):
        program.main([*given, "--resume", "--threads=77"])
    out.write_text("{}")
    with pytest.raises(SystemExit, match="--resume: "):
        program.main([*given, "--resume"])


def test_best_adds_rounds_of_the_best_peers_only(order: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    given = ["decode", "--rounds=1", "--best=2", "--bits=int8,bf16", "--peers=openvino,ctranslate2", f"--json={out}"]
    assert program.main(given) == 0
    first = ["int8 ours", "int8 openvino", "int8 ctranslate2", "bf16 ours", "bf16 openvino"]
    assert order == first + 2 * [side for side in first if side != "int8 openvino"]
    stored = {(row["name"], row["bits"]): row["ms"] for row in json.loads(out.read_text())["rows"]}
    assert stored["openvino", "int8"] == [12.0, None, None]
    assert stored["ctranslate2", "int8"] == [4.0, 4.0, 4.0]


def test_convert_takes_no_turn(
    order: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def convert(row: Peer, bits: str, given: Task) -> None:
        made.append(f"{bits} {row.name} {row.form(bits)}")
        if bits == "int8":
            raise FailedError("no disk")

    monkeypatch.setattr(turns, "convert", convert)
    assert program.main(["decode", "--convert", "--peers=llama.cpp,llama.cpp-K", "--bits=bf16,int4"]) == 0
    assert made == ["bf16 llama.cpp BF16", "int4 llama.cpp Q4_0", "int4 llama.cpp-K Q4_K_M"]
    assert program.main(["decode", "--convert", "--peers=llama.cpp", "--bits=int8"]) == serving.EXIT_FAILED
    assert "int8 llama.cpp: no disk" in capsys.readouterr().err
    assert order == []


def test_a_ratio_uses_the_rounds_that_both_have() -> None:
    ours = Row(turns.OURS, "bf16", {}, ms=[10.0, 20.0, 40.0, 99.0])
    theirs = Row("them", "bf16", {}, ms=[20.0, 20.0, 20.0, None])
    assert ratio(theirs, ours) == Ratio(1.0, 0.5, 2.0, won=1, rounds=3)
    assert ratio(Row("none", "bf16", {}, ms=[None] * 4), ours) is None
    slower = Row("slower", "bf16", {}, ms=[30.0, 60.0, 120.0, None])
    line = "bf16: the best peer, {}, takes {} of roofbench's time, {} by rounds; roofbench is ahead in {} of 3"
    assert ahead([ours, slower], "bf16") == line.format("slower", "3.00", "3.00 to 3.00", 3)
    assert ahead([ours, slower, theirs], "bf16") == line.format("them", "1.00", "0.50 to 2.00", 1)
    assert ahead([ours], "bf16") == "bf16: no peer to compare with"
    int8 = Row(turns.OURS, "int8", {}, ms=[1.0])
    shown = [line.split()[:2] for line in table([ours, int8, slower])[1:]]
    assert shown == [["bf16", "roofbench"], ["bf16", "slower"], ["int8", "roofbench"]]


def test_a_peer_gets_its_form_and_its_last_line_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command: list[str] = []

    def output_of(given: list[object], more: dict[str, str]) -> str:
        command.extend(map(str, given))
        assert more == turns.TUNED | {"OMP_NUM_THREADS": "2"}
        # onnxruntime and torch.compile print other lines first.
        return 'AUTOTUNE linear_unary(1x2048, 8192x2048)\n  _mkl_linear 0.1 ms 100.0%\n{"ms": 43.25}\n'

    monkeypatch.setattr(turns, "output_of", output_of)
    monkeypatch.setattr(turns, "versions", lambda packages: dict.fromkeys(packages, "1"))
    peer = next(row for row in PEERS if row.name == "llama.cpp")
    found = turns.run_peer(peer, "int8", task(tmp_path, "prefill"))
    assert found == (43.25, {"llama-cpp-python": "1", "gguf": "1"})
    assert {"--form=Q8_0", "--size=512", "--samples=7", "--module=llama_cpp_server"} <= set(command)
    assert str(tmp_path / "cache" / "tiny_llama" / "llama.cpp-int8") in command


@pytest.mark.parametrize(
    ("verb", "size", "samples", "room"),
    [
        ("prefill", 511, 3, 512),
        ("prefill", 512, 3, 640),
        ("decode", 128, 30, 256),
        ("decode", 128, 127, 256),
        ("decode", 128, 128, 384),
    ],
)
def test_positions_cover_all_tokens_of_a_turn(verb: str, size: int, samples: int, room: int) -> None:
    assert serving_process.positions(verb, size, samples) == room


def test_weights_are_read_as_stored(tmp_path: Path) -> None:
    weights = {"b": torch.arange(6, dtype=torch.bfloat16).view(2, 3), "a": torch.ones(4, dtype=torch.bfloat16)}
    save_file(weights, tmp_path / "bf16.safetensors")
    found = dict(gguf_file.tensors(tmp_path / "bf16.safetensors"))
    assert set(found) == {"a", "b"}
    for name, words in found.items():
        assert words.tolist() == weights[name].view(torch.uint16).tolist()
    save_file({"c": torch.ones(2)}, tmp_path / "fp32.safetensors")
    with pytest.raises(SystemExit, match="c is F32, not BF16"):
        list(gguf_file.tensors(tmp_path / "fp32.safetensors"))


def test_names_and_order_of_rows_are_those_of_llama_cpp() -> None:
    assert gguf_file.name_of("model.layers.12.self_attn.q_proj.weight") == "blk.12.attn_q.weight"
    assert gguf_file.name_of("model.layers.0.post_attention_layernorm.weight") == "blk.0.ffn_norm.weight"
    assert gguf_file.name_of("model.embed_tokens.weight") == "token_embd.weight"
    rows = np.arange(8, dtype=np.uint16)[:, None]  # two heads of four
    assert gguf_file.pairs_together(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize(
    ("written", "compiler"),
    [
        (b"\0GCC: (Debian 12.2.0-14+deb12u1) 12.2.0\0", "GCC 12.2.0"),
        (b"\0GCC: (Debian 12.2.0-14) 12.2.0\0Debian clang version 14.0.6\0", "clang 14.0.6"),
        (None, "an unknown compiler"),
    ],
    ids=["gcc", "clang", "none"],
)
def test_the_compiler_of_a_peer_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: bytes | None, compiler: str
) -> None:
    (tmp_path / "llama_cpp_python-0.3.36.dist-info").mkdir()
    (tmp_path / "llama_cpp_python-0.3.36.dist-info/METADATA").write_text("Name: llama-cpp-python\nVersion: 0.3.36\n")
    if written:
        library = tmp_path / "llama_cpp/lib/libggml-cpu.so"
        library.parent.mkdir(parents=True)
        library.write_bytes(written)
    monkeypatch.syspath_prepend(tmp_path)
    assert turns.versions(["llama-cpp-python"]) == {"llama-cpp-python": f"0.3.36 by {compiler}"}


def test_a_missing_package_is_named_with_its_installation(tmp_path: Path) -> None:
    peer = Peer("x", "x", ("bf16",), ("no-such-package-here",))
    for does in (turns.convert, turns.run_peer):
        with pytest.raises(FailedError, match=r"no-such-package-here is not installed: .* -r tools/requirements-peers"):
            does(peer, "bf16", task(tmp_path))


def test_roofbench_serves_the_checkpoint_in_the_same_precision(tmp_path: Path) -> None:
    roofbench(tmp_path)
    given = task(tmp_path, "prefill")
    assert turns.run_ours("int8", given) == (250.0, FACTS)
    expected = {
        "--benchmark_filter=^prefill/model:checkpoint/precision:int8/activations:int8/prompt:512$",
        f"--checkpoint={given.checkpoint}",
        *("--threads=2", "--allocator=tuned", "--benchmark_min_time=7x"),
        *("--axis=prefill.impl=native", "--axis=prefill.precision=int8", "--axis=prefill.activations=int8"),
    }
    assert expected <= flags_in(tmp_path)
    for verb, bits in (("prefill", "bf16"), ("decode", "int8")):  # activations in 16 bits
        assert turns.our_settings(verb, bits) == {"impl": "native"}
    given.program.unlink()
    with pytest.raises(FailedError, match="No such file"):
        turns.run_ours("int8", given)


@pytest.mark.parametrize("allocator", turns.ALLOCATORS)
def test_training_asks_both_sides_for_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, allocator: str) -> None:
    given = training.Settings(roofbench(tmp_path), threads=3, samples=None, allocator=allocator)
    assert training.run_ours(STEP, given) == (0.25, FACTS)
    numbers = f"--benchmark_min_time={training.SAMPLES['train_step']}x", f"--warmup_iters={turns.WARMUPS}"
    axes = {f"--axis=train_step.{axis}" for axis in ("impl=native", "size=small", "context=128", "dtype=fp32")}
    expected = {f"--benchmark_filter=^{STEP}$", "--threads=3", f"--allocator={allocator}", *numbers, *axes}
    assert expected <= flags_in(tmp_path)

    command: list[str] = []

    def output_of(asked: list[object], _: object) -> str:
        command.extend(map(str, asked))
        return json.dumps({"seconds": [0.5, 0.1, 0.7], "settings": {"torch": "2"}})

    monkeypatch.setattr(training, "output_of", output_of)
    assert training.run_peer(STEP, given) == (0.5, {"torch": "2"})
    assert command[2:] == [STEP, allocator, str(turns.WARMUPS), str(training.SAMPLES["train_step"]), "3"]


@pytest.mark.parametrize(("verdict", "lines", "reason"), [("skipped", 2, "no memory"), ("measured", 1, "no such case")])
def test_an_unmeasured_case_is_an_error(tmp_path: Path, verdict: str, lines: int, reason: str) -> None:
    given = training.Settings(roofbench(tmp_path, verdict, lines), threads=3, samples=None)
    with pytest.raises(FailedError, match=reason):
        training.run_ours(STEP, given)
    with pytest.raises(FailedError, match=reason):
        turns.run_ours("int8", task(tmp_path))
    with pytest.raises(SystemExit, match=r"tools/peers: train_step/.*: roofbench did not") as ended:
        training.main([STEP.replace("native", "\x1b]0;y"), f"--program={given.program}"])
    assert "\x1b" not in str(ended.value)


def test_training_alternates_and_compares_medians(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order = ""
    medians = {"a": [1.0, 2.0, 3.0, 4.0], "b": [4.0, 4.0, 4.0, 2.0]}

    def side(name: str) -> Callable[[str, training.Settings], tuple[float, dict[str, str]]]:
        def run(case: str, given: training.Settings) -> tuple[float, dict[str, str]]:
            nonlocal order
            order += name
            return medians[name].pop(0), {"side": name}

        return run

    monkeypatch.setattr(training, "run_ours", side("a"))
    monkeypatch.setattr(training, "run_peer", side("b"))
    training.compare(STEP, rounds=4, settings=training.Settings(Path("unused"), threads=2, samples=7))
    assert order == "abbaabba"
    out = capsys.readouterr().out
    assert "2 threads, tuned allocator, 4 processes a side, 7 steps each" in out
    assert "2500.000 ms" in out
    assert "4000.000 ms" in out
    assert "0.62     (0.25 to 2.00 by pairs)" in out


def test_more_ranks_than_processors_have_a_thread_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = collectives.Settings(roofbench(tmp_path), ranks=4, dtype="fp32", samples=7)
    monkeypatch.setattr(collectives.Settings, "processors", 2)
    monkeypatch.setattr(collectives, "pinned", lambda ranks: [])
    collectives.run_ours("broadcast", 1024, given)
    assert "--threads=1" in flags_in(tmp_path)


@pytest.mark.parametrize(
    ("ranks", "shares"), [(1, [[0, 1, 5]]), (2, [[0], [1]]), (3, [[0], [1], [5]]), (4, [[0], [1], [5], [0]])]
)
def test_each_rank_has_processors_of_its_own(ranks: int, shares: list[list[int]]) -> None:
    assert [pinned.processors_of(rank, ranks, [0, 1, 5]) for rank in range(ranks)] == shares


def test_a_pinned_command_runs_on_its_processors_alone() -> None:
    asked = [sys.executable, pinned.__file__, sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"]
    local = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    expected = set(pinned.processors_of(1, 2, sorted(os.sched_getaffinity(0))))
    assert turns.output_of(asked, local).strip() == str(expected)


@pytest.mark.parametrize("allocator", turns.ALLOCATORS)
def test_collectives_ask_both_sides_for_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, allocator: str
) -> None:
    given = collectives.Settings(roofbench(tmp_path), ranks=4, dtype="bf16", samples=7, allocator=allocator)
    monkeypatch.setattr(collectives.Settings, "processors", 13)
    started = [str(part) for part in collectives.pinned(4)]
    assert started[-2:] == ["--nproc_per_node=4", pinned.__file__]
    with monkeypatch.context() as patched:
        noting = ["/bin/sh", "-c", f'touch {tmp_path}/started && exec "$@"', "sh"]
        patched.setattr(collectives, "pinned", {4: noting}.__getitem__)
        assert collectives.run_ours("broadcast", 1024, given) == (0.25, FACTS)
    assert (tmp_path / "started").exists()
    case = "broadcast/impl:gloo/ranks:4/dtype:bf16/bytes:1024"
    axes = {f"--axis=broadcast.{axis}" for axis in ("ranks=4", "dtype=bf16", "bytes=1024")}
    shared = {"--threads=3", f"--allocator={allocator}"}
    assert axes | shared | {f"--benchmark_filter=^{case}$", "--benchmark_min_time=7x"} <= flags_in(tmp_path)

    command: list[str] = []

    def output_of(asked: list[object], more: dict[str, str]) -> str:
        command.extend(map(str, asked))
        tuned = turns.RETAINED if allocator == "tuned" else {}
        assert "hugetlb" not in str(tuned), "roofbench leaves small tensors on small pages"
        assert more == tuned | {"OMP_NUM_THREADS": "3", "GLOO_SOCKET_IFNAME": "lo"}
        return "talk of torchrun\n" + json.dumps({"seconds": [0.5, 0.1, 0.7], "settings": {"torch": "2"}})

    monkeypatch.setattr(collectives, "output_of", output_of)
    assert collectives.run_peer("broadcast", 1024, given) == (0.5, {"torch": "2", "allocator": allocator})
    assert command[: len(started)] == started
    assert command[-5:] == ["broadcast", "bf16", "1024", str(turns.WARMUPS), "7"]


def test_collectives_compare_medians_of_turns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    medians = {"ours": [1.0, 2.0], "theirs": [4.0, 2.0]}
    monkeypatch.setattr(collectives, "run_ours", lambda *_: (medians["ours"].pop(0), FACTS))
    monkeypatch.setattr(collectives, "run_peer", lambda *_: (medians["theirs"].pop(0), {"torch": "2.11.0+cu130"}))
    collectives.main(["all_reduce", "--bytes", "64", "--rounds=2", "--allocator=system"])
    first, _, row, *facts = capsys.readouterr().out.splitlines()
    settings = r"each pinned to processors, threads a rank \d+, fp32, system allocator, warm caches"
    assert re.match(f"ranks 2, {settings}; 2 groups of processes a side", first)
    assert [fact.split() for fact in facts] == [
        ["roofbench", "revision", "abc,", "torch", "2.11.0,", "allocator", "tuned"],
        ["torch", "torch", "2.11.0+cu130"],
    ]
    assert row.split() == ["all_reduce", "64", "1500.000", "3000.000", "0.50", "0.25", "to", "1.00"]
    with pytest.raises(SystemExit):
        collectives.main(["reduce"])


def test_samples_of_torch_distributed_last_a_hundred_meetings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    broadcasts: list[float] = []

    def takes(seconds: float) -> None:
        nonlocal now
        now += seconds

    def broadcast(*_: object) -> None:
        # The first one is slow.
        takes(1 / 1024 if broadcasts else 1.0)
        broadcasts.append(now)

    distributed = {
        "init_process_group": lambda *_: None,
        "destroy_process_group": lambda: None,
        "get_rank": lambda: 0,
        "get_world_size": lambda: 2,
        "barrier": lambda: takes(4 / 1024),
        "all_reduce": lambda *_: None,
        "broadcast": broadcast,
    }
    for name, function in distributed.items():
        monkeypatch.setattr(torch.distributed, name, function)
    monkeypatch.setattr("peer_runs.gloo_ranks.time.perf_counter", lambda: now)
    gloo_ranks.main("broadcast", "fp32", size=64, warmups=2, samples=3)
    seconds = json.loads(capsys.readouterr().out)["seconds"]
    assert seconds == [1 / 1024] * 3
    warmups, trials, steps = 2, 1 + 400, 400
    assert len(broadcasts) == warmups + trials + 3 * steps


def test_a_process_that_fails_is_reported_by_its_last_line() -> None:
    talk = "import sys; print('one', file=sys.stderr); print('two', file=sys.stderr); sys.exit(3)"
    with pytest.raises(FailedError, match=r"^exit status 3: two$"):
        turns.output_of([sys.executable, "-c", talk], {})


def test_an_interrupted_form_is_made_again(tmp_path: Path) -> None:
    script = "import sys, pathlib; pathlib.Path(sys.argv[1]).mkdir(); sys.exit({})"
    form = tmp_path / "cache" / "form"
    with pytest.raises(FailedError):
        turns.make(form, [sys.executable, "-c", script.format(1)])
    assert not form.exists()
    turns.make(form, [sys.executable, "-c", script.format(0)])
    assert form.is_dir()
    turns.make(form, ["/no/such/program"])  # it exists already


class Clock:
    """A server whose n-th prompt or token takes n seconds."""

    def __init__(self) -> None:
        self.now, self.steps, self.prompts = 0.0, 0, set[int]()

    def perf_counter(self) -> float:
        return self.now

    def prefill(self, prompt: list[int]) -> None:
        self.prompts.add(len(prompt))
        self.steps += 1
        self.now += self.steps

    def decode(self, prompt: list[int], tokens: int, done: Callable[[], object]) -> None:
        for _ in range(tokens):
            self.prefill(prompt)
            done()


@pytest.mark.parametrize(("verb", "median", "prompt"), [("prefill", 3000.0, 128), ("decode", 7000.0, 124)])
def test_warm_up_is_not_counted(monkeypatch: pytest.MonkeyPatch, verb: str, median: float, prompt: int) -> None:
    server = Clock()
    monkeypatch.setattr(serving_process, "time", server)
    assert serving_process.measured(server, verb, vocab=96, size=128, samples=3) == median
    assert server.prompts == {prompt}


def test_shapes_are_those_of_our_models() -> None:
    source = (ROOT / "lib/workload/models/decoder.cc").read_text()
    for name, constant in (("tinyllama_1b", "kTinyLlama"), ("llama3_1b", "kLlama32Of1b"), ("tiny_llama", "kTiny")):
        found = re.search(rf"Transformer {constant} = {{([^}}]*)}}", source)
        assert found
        fields = dict(re.findall(r"\.(\w+) = (\w+)", found[1]))
        shape = SHAPES[name]
        assert shape.tied_head == (fields.pop("tied_head", "false") == "true")
        assert {field: str(getattr(shape, field)) for field in fields} == fields
        assert re.search(rf'{{"{name}", "[^"]*", Dense\({constant}\), {shape.rope_base:.0f},', source)
    whole, quarter = SHAPES["llama3_1b"], SHAPES["llama3_1b_4th"]
    assert (4 * quarter.layers, 4 * quarter.vocab) == (whole.layers, whole.vocab)


def test_every_peer_has_its_module_and_pinned_packages() -> None:
    pinned = "".join(
        (ROOT / f"tools/requirements-{part}.txt").read_text() for part in ("torch", "peers", "peers-built")
    )
    for peer in PEERS:
        text = (ROOT / f"tools/peer_runs/servers/{peer.module}.py").read_text()
        assert re.search(r"^(def load\(|load = )", text, re.MULTILINE)
        assert peer.converts == ("def convert(" in text)
        for package in peer.packages:
            assert f"\n{package}==" in pinned
    ids = prompt_of(96, 512)
    assert len(ids) == 512
    assert min(ids) >= 3
    assert max(ids) < 96


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["decode", "--peers=other"], "'other' is none of transformers"),
        (["prefill", "--bits=int2"], "'int2' is none of bf16"),
        (["decode", "--resume"], "--resume needs --json"),
        (["decode", "--rounds=0"], "0 is less than 1"),
        (["decode", "--best=0"], "0 is less than 1"),
        (["decode", "--prompt=9"], "unrecognized arguments: --prompt=9"),
        (["train", "matmul/n:64"], "expected a case of train_step or mlp"),
        (["train", STEP.replace("fp32", "bf16")], "has dtype fp32 or bf16_autocast alone"),
        (["train", STEP.replace("small", "xl")], "has size small or medium alone"),
        (["train", f"{STEP}/pass:inference"], "has the default pass alone"),
        (["train", STEP.replace("/context:128", "")], "name context as well"),
        (["train", "--rounds=0"], "0 is less than 1"),
    ],
)
def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture[str], given: list[str], reason: str) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(given)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def test_an_unknown_verb_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["bake\x1b"]) == program.EXIT_UNUSABLE
    assert "unknown verb 'bake\\x1b'" in capsys.readouterr().err
