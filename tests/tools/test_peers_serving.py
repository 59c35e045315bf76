# SPDX-License-Identifier: Apache-2.0
"""The logic of tools/peers decode and prefill, with made-up sides: no peer is installed or run."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import peer_runs.__main__ as program
import pytest
import torch
from peer_runs import serving, serving_process, turns
from peer_runs.checkpoint import SHAPES, prompt_of
from peer_runs.figures import Ratio, Row, ahead, ratio, table
from peer_runs.peer_table import PEERS, Peer
from peer_runs.servers import gguf_file
from peer_runs.turns import FailedError, Task
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]
OURS = {"bf16": [10.0, 20.0, 30.0], "int8": [8.0, 8.0, 8.0], "int4": [1.0, 1.0, 1.0]}

FAKE = """#!{python}
import json, sys
flags = dict(flag[2:].split("=", 1) for flag in sys.argv[1:] if "=" in flag)
lines = [
    {{"context": {{"roofbench_revision": "abc", "torch_version": "2.11.0"}}}},
    {{"verdict": "{verdict}", "reason": "no memory", "median_s": 0.25}},
]
open(flags["journal"], "w").write("".join(json.dumps(line) + "\\n" for line in lines))
open("{log}", "w").write(json.dumps(sys.argv[1:]))
"""


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
            raise FailedError("ended with 1: \x1b[31mno memory")
        return OURS[bits][turn] * (0.5 if row.name == "ctranslate2" else 1.5), {row.packages[0]: "1.2"}

    monkeypatch.setattr(turns, "run_ours", ours)
    monkeypatch.setattr(turns, "run_peer", peer)
    monkeypatch.setattr(turns, "make_checkpoint", lambda given: None)
    monkeypatch.setattr(turns, "convert", lambda row, bits, given: None)
    return taken


def test_sides_take_turns_by_rounds(order: list[str]) -> None:
    assert program.main(["decode", "--rounds=2", "--bits=bf16", "--peers=transformers,openvino"]) == 0
    assert order == ["bf16 ours", "bf16 transformers", "bf16 openvino"] * 2


def test_a_peer_that_fails_says_why_and_the_others_go_on(
    order: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    given = [
        "prefill",
        "--rounds=3",
        "--bits=int8",
        "--peers=openvino,ctranslate2",
        "--threads=2",
        "--samples=4",
        f"--json={out}",
    ]
    assert program.main(given) == serving.EXIT_FAILED
    assert order == ["int8 ours", "int8 openvino", "int8 ctranslate2"] * 2 + ["int8 ours", "int8 ctranslate2"]
    said = capsys.readouterr().out
    assert "prefill of llama3_1b, prompt 512: 2 threads, tuned allocator, 3 rounds, 4 samples a process" in said
    assert re.search(r"int8 +openvino +12.00 +1.50 +1.50 to 1.50 +failed: ended with 1: .*no memory", said)
    assert re.search(r"int8 +ctranslate2 +4.00 +0.50 +0.50 to 0.50 +ctranslate2 1.2; compute int8", said)
    assert "int8: the best peer, ctranslate2, takes 0.50 of roofbench's time, 0.50 to 0.50 by rounds" in said
    assert "roofbench is ahead in 0 of 3" in said
    assert "\x1b" not in said
    rows = {row["name"]: row for row in json.loads(out.read_text())["rows"]}
    assert rows["openvino"]["ms"] == [12.0, None, None]
    assert rows["ctranslate2"]["ms"] == [4.0, 4.0, 4.0]


def test_rounds_are_added_to_those_of_a_file(order: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    given = ["decode", "--bits=bf16", "--peers=transformers", f"--json={out}"]
    assert program.main([*given, "--rounds=1"]) == 0
    more = [given[0], "--bits=bf16,int4", *given[2:], "--rounds=2", "--resume"]
    assert program.main(more) == 0
    stored = {(row["name"], row["bits"]): row["ms"] for row in json.loads(out.read_text())["rows"]}
    assert stored["transformers", "bf16"] == [15.0, 30.0, 45.0]
    assert stored["roofbench", "int4"] == [None, 1.0, 1.0]
    with pytest.raises(SystemExit, match="other settings"):
        program.main([*given, "--resume", "--threads=77"])
    out.write_text("{}")
    with pytest.raises(SystemExit, match="--resume: "):
        program.main([*given, "--resume"])


def test_a_ratio_is_of_the_rounds_that_both_have() -> None:
    ours = Row(turns.OURS, "bf16", {}, ms=[10.0, 20.0, 40.0, 99.0])
    theirs = Row("them", "bf16", {}, ms=[20.0, 20.0, 20.0, None])
    assert ratio(theirs, ours) == Ratio(1.0, 0.5, 2.0, won=1, rounds=3)
    assert ratio(Row("none", "bf16", {}, ms=[None] * 4), ours) is None
    slower = Row("slower", "bf16", {}, ms=[30.0, 60.0, 120.0, None])
    said = "bf16: the best peer, {}, takes {} of roofbench's time, {} by rounds; roofbench is ahead in {} of 3"
    assert ahead([ours, slower], "bf16") == said.format("slower", "3.00", "3.00 to 3.00", 3)
    assert ahead([ours, slower, theirs], "bf16") == said.format("them", "1.00", "0.50 to 2.00", 1)
    assert ahead([ours], "bf16") == "bf16: nobody to compare with"


def test_the_table_keeps_precisions_together() -> None:
    rows = [Row(turns.OURS, bits, {}, ms=[1.0]) for bits in ("int8", "bf16")]
    rows.append(Row("late", "int8", {}, ms=[2.0]))
    assert [line.split()[:2] for line in table(rows)[1:]] == [
        ["int8", "roofbench"],
        ["int8", "late"],
        ["bf16", "roofbench"],
    ]


def test_more_rounds_are_of_the_best_alone(order: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    given = ["decode", "--rounds=1", "--best=2", "--bits=int8,bf16", "--peers=openvino,ctranslate2", f"--json={out}"]
    assert program.main(given) == 0
    assert order == ["int8 ours", "int8 openvino", "int8 ctranslate2", "bf16 ours", "bf16 openvino"] + 2 * [
        "int8 ours",
        "int8 ctranslate2",
        "bf16 ours",
        "bf16 openvino",
    ]
    stored = {(row["name"], row["bits"]): row["ms"] for row in json.loads(out.read_text())["rows"]}
    assert stored["openvino", "int8"] == [12.0, None, None]
    assert stored["ctranslate2", "int8"] == [4.0, 4.0, 4.0]


def test_what_peers_read_is_made_without_a_turn(
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


def test_a_peer_is_told_its_form_and_its_last_line_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def output_of(command: list[object], more: dict[str, str]) -> str:
        asked.extend(map(str, command))
        assert more == turns.TUNED | {"OMP_NUM_THREADS": "2"}
        # As onnxruntime and torch.compile talk before it.
        return 'AUTOTUNE linear_unary(1x2048, 8192x2048)\n  _mkl_linear 0.1 ms 100.0%\n{"ms": 43.25}\n'

    monkeypatch.setattr(turns, "output_of", output_of)
    monkeypatch.setattr(turns, "versions", lambda packages: dict.fromkeys(packages, "1"))
    peer = next(row for row in PEERS if row.name == "llama.cpp")
    found = turns.run_peer(peer, "int8", task(tmp_path, "prefill"))
    assert found == (43.25, {"llama-cpp-python": "1", "gguf": "1"})
    assert {"--form=Q8_0", "--size=512", "--samples=7", "--module=llama_cpp_server"} <= set(asked)
    assert str(tmp_path / "cache" / "tiny_llama" / "llama.cpp-int8") in asked


def test_a_length_is_of_all_sides_and_of_the_file(order: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["prefill", "--prompt=2048", "--rounds=1", "--bits=bf16", "--peers=transformers"]) == 0
    assert "prefill of llama3_1b, prompt 2048:" in capsys.readouterr().out


def test_room_is_for_what_a_turn_reads_and_writes() -> None:
    assert serving_process.positions("prefill", 511, 3) == 512
    assert serving_process.positions("prefill", 512, 3) == 640
    assert serving_process.positions("decode", 128, 30) == 256
    assert serving_process.positions("decode", 128, 127) == 256
    assert serving_process.positions("decode", 128, 128) == 384


def test_weights_are_read_as_they_are_stored(tmp_path: Path) -> None:
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


def test_a_package_that_is_not_there_is_named_with_what_installs_it(tmp_path: Path) -> None:
    peer = Peer("x", "x", ("bf16",), ("no-such-package-here",), True)
    for does in (turns.convert, turns.run_peer):
        with pytest.raises(FailedError, match=r"no-such-package-here is not installed: .* -r tools/requirements-peers"):
            does(peer, "bf16", task(tmp_path))


def test_ours_reads_the_checkpoint_in_the_same_precision(tmp_path: Path) -> None:
    given = task(tmp_path, "prefill")
    fake = {"python": sys.executable, "log": tmp_path / "flags.json"}
    given.program.write_text(FAKE.format(verdict="measured", **fake))
    given.program.chmod(0o755)
    assert turns.run_ours("int8", given) == (250.0, {"revision": "abc", "torch": "2.11.0"})
    flags = json.loads((tmp_path / "flags.json").read_text())
    assert "--benchmark_filter=^prefill/model:checkpoint/precision:int8/activations:int8/prompt:512$" in flags
    assert {f"--checkpoint={given.checkpoint}", "--threads=2", "--allocator=tuned"} <= set(flags)
    assert {"--axis=prefill.precision=int8", "--axis=prefill.activations=int8", "--benchmark_min_time=7x"} <= set(flags)
    given.program.write_text(FAKE.format(verdict="skipped", **fake))
    with pytest.raises(FailedError, match="no memory"):
        turns.run_ours("int8", given)
    given.program.unlink()
    with pytest.raises(FailedError, match="No such file"):
        turns.run_ours("int8", given)


def test_a_process_that_fails_says_its_last_line() -> None:
    talk = "import sys; print('one', file=sys.stderr); print('two', file=sys.stderr); sys.exit(3)"
    with pytest.raises(FailedError, match=r"^ended with 3: two$"):
        turns.output_of([sys.executable, "-c", talk], {})


def test_a_form_that_broke_off_is_made_again(tmp_path: Path) -> None:
    script = "import sys, pathlib; pathlib.Path(sys.argv[1]).mkdir(); sys.exit({})"
    form = tmp_path / "cache" / "form"
    with pytest.raises(FailedError):
        turns.made(form, [sys.executable, "-c", script.format(1)])
    assert not form.exists()
    turns.made(form, [sys.executable, "-c", script.format(0)])
    assert form.is_dir()
    turns.made(form, ["/no/such/program"])  # it is there


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

    def decode(self, prompt: list[int], tokens: int) -> list[float]:
        stamps = []
        for _ in range(tokens):
            self.prefill(prompt)
            stamps.append(self.now)
        return stamps


@pytest.mark.parametrize(("verb", "median", "prompt"), [("prefill", 3000.0, 128), ("decode", 7000.0, 124)])
def test_warm_up_is_not_counted(monkeypatch: pytest.MonkeyPatch, verb: str, median: float, prompt: int) -> None:
    server = Clock()
    monkeypatch.setattr(serving_process, "time", server)
    assert serving_process.measured(server, verb, vocab=96, size=128, samples=3) == median
    assert server.prompts == {prompt}


def test_shapes_are_those_of_our_models() -> None:
    source = (ROOT / "lib/workload/models/decoder_presets.cc").read_text()
    for name, constant in (("tinyllama_1b", "kTinyLlama"), ("llama3_1b", "kLlama32Of1b"), ("tiny_llama", "kTiny")):
        found = re.search(rf"Transformer {constant} = {{([^}}]*)}}", source)
        assert found
        fields = dict(re.findall(r"\.(\w+) = (\w+)", found[1]))
        shape = SHAPES[name]
        assert shape.tied_head == (fields.pop("tied_head", "false") == "true")
        assert {field: str(getattr(shape, field)) for field in fields} == fields
        assert f'{{"{name}", Dense({constant}), {shape.rope_base:.0f},' in source
    whole, quarter = SHAPES["llama3_1b"], SHAPES["llama3_1b_4th"]
    assert (4 * quarter.layers, 4 * quarter.vocab) == (whole.layers, whole.vocab)


def test_every_peer_has_its_module_and_pinned_packages() -> None:
    pinned = "".join(
        (ROOT / f"tools/requirements-{part}.txt").read_text() for part in ("torch", "peers", "peers-built")
    )
    for peer in PEERS:
        text = (ROOT / f"tools/peer_runs/servers/{peer.module}.py").read_text()
        assert "def load(" in text
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
        (["decode", "--peers=nobody"], "'nobody' is none of transformers"),
        (["prefill", "--bits=int2"], "'int2' is none of bf16"),
        (["decode", "--resume"], "--resume needs --json"),
        (["decode", "--rounds=0"], "0 is less than 1"),
        (["decode", "--best=0"], "0 is less than 1"),
        (["decode", "--prompt=9"], "unrecognized arguments: --prompt=9"),
    ],
)
def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture[str], given: list[str], reason: str) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(given)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def test_a_verb_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["bake\x1b"]) == program.EXIT_UNUSABLE
    assert "bake" in (said := capsys.readouterr().err)
    assert "\x1b" not in said


@pytest.mark.parametrize(("verb", "bits"), [("prefill", "bf16"), ("decode", "int8")])
def test_our_activations_stay_in_16_bits_elsewhere(verb: str, bits: str) -> None:
    assert turns.our_settings(verb, bits) == {"impl": "native"}
