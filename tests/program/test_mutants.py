# SPDX-License-Identifier: Apache-2.0
"""Damaged files of every kind that a user may give, each through the entry that reads it: refused in a line, or read,
and never a crash, a hang or a traceback. The kinds that the program reads have a process each; the others run here.

More of the program's kinds, without a process: tests/models/untrusted_checkpoints_test.cc (config.json, weights,
index), tests/models/generation/untrusted_ids_test.cc, tests/results/untrusted_files_test.cc (journals, kept roofs); of
records and journals in the reports: tests/roofreport/test_hostile_results.py.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import strange_folder
import tokens as token_tool
from built_program import QUICKLY
from fork_server import ForkServer
from mutations import places
from nightly_runs.config import EXAMPLE, read
from roofreport.errors import UnusableInputError

_ODD: tuple[Any, ...] = (
    *(0, -1, 1, 2, 4, 7, 16, 2**31, 2**32, 2**53, 2**63, 10**19, -(2**63), 1e308, -1e308, 5e-324, -0.0, 1.5),
    *(True, False, None, "", "x", "8", "\x1b[31m", "\u202e", "F32", "llama", "nan", [], [1, "x"], {}, {"x": 1}),
)


def damaged(text: bytes, chance: random.Random) -> bytes:
    found = bytearray(text)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(found) + 1)
        new = chance.choice((b"", chance.randbytes(1), chance.randbytes(8), b"0", b"-", b",", b"\n", b'"', b"9" * 30))
        found[at : at + chance.choice((0, 1, 1, 9))] = new
        if chance.random() < 0.1:
            del found[at:]
    return bytes(found)


def changed(document: Any, chance: random.Random) -> Any:
    """With one value anywhere in it replaced or removed."""
    node, key = chance.choice(places(document))
    if chance.random() < 0.1:
        del node[key]
    else:
        node[key] = chance.choice(_ODD)
    return document


def mutated(text: bytes, chance: random.Random) -> bytes:
    """Of a file of JSON, mostly a value; of other files bytes."""
    try:
        document = json.loads(text)
    except ValueError:
        return damaged(text, chance)
    return damaged(text, chance) if chance.random() < 0.3 else json.dumps(changed(document, chance)).encode()


def mutated_weights(text: bytes, chance: random.Random) -> bytes:
    """Mostly of the header, whose length stands before it."""
    if chance.random() < 0.3:
        return damaged(text, chance)
    size = int.from_bytes(text[:8], "little")
    header = mutated(text[8 : 8 + size], chance)
    return len(header).to_bytes(8, "little") + header + text[8 + size :]


def mutated_lines(text: bytes, chance: random.Random) -> bytes:
    lines = text.splitlines()
    at = chance.randrange(len(lines))
    lines[at] = mutated(lines[at], chance)
    return b"\n".join(lines) + b"\n" * (chance.random() < 0.9)


class Files:
    """Valid files of each kind, of which one is damaged at a time."""

    def __init__(self, folder: Path, server: ForkServer) -> None:
        self.start = server.run
        self.checkpoint = strange_folder.write(folder / "checkpoint")
        names = {f"{name}.weight": "model.safetensors" for name in strange_folder.TENSORS}
        self.index = self.checkpoint / "model.safetensors.index.json"
        self.index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": names}))
        self.ids = folder / "ids"
        self.ids.write_text("1,2, 3\n4 5\n")
        self.routing = folder / "routing"
        self.routing.write_text("1,2,3,4,5,6,7,8\n")
        self.journal = folder / "run.jsonl"
        self.cache = folder / "cache"  # that of the server
        chosen = ("--benchmark_filter=^copy/impl:stream/.*cache:warm", "--axis=copy.bytes=1024:3072:+1024")
        few = ("--benchmark_min_time=2x", "--warmup_iters=1", "--threads=1", "--check=off")
        self.resume = (f"--journal={self.journal}", "--resume")
        assert self.start(*chosen, *few, "--roofs=off", f"--journal={self.journal}").returncode == 0
        self.with_roofs = (*chosen, *few, "--roofs=reuse")
        assert self.start(*self.with_roofs).returncode == 0

    def roofs(self) -> Path | None:
        """None if the machine was too busy to keep them."""
        found = list((self.cache / "roofbench" / "roofs").glob("*.json"))
        return found[0] if found else None


Mutator = Callable[[bytes, random.Random], bytes]


def kinds_of_program(files: Files) -> dict[str, tuple[Path | None, Mutator, tuple[str, ...]]]:
    """The damaged file, how it is damaged, and the flags that read it."""
    one = ("--benchmark_filter=^complete/", "--axis=complete.precision=fp32", "--axis=complete.new=2", *QUICKLY)
    read_whole = (*one, f"--checkpoint={files.checkpoint}", "--prompt_ids=1,2", "--benchmark_format=json")
    grouped = ("--benchmark_filter=^grouped_mm/impl:eager/", "--axis=grouped_mm.routing=given")
    sizes = ("--axis=grouped_mm.experts=8", "--suite=quick", "--benchmark_list_tests")
    return {
        "config": (files.checkpoint / "config.json", mutated, read_whole),
        "index": (files.index, mutated, read_whole),
        "safetensors": (files.checkpoint / "model.safetensors", mutated_weights, read_whole),
        "ids": (files.ids, mutated, (*read_whole[:-2], f"--prompt_ids={files.ids}", read_whole[-1])),
        "routing": (files.routing, damaged, (*grouped, *sizes, f"--routing={files.routing}")),
        "journal": (files.journal, mutated_lines, (*files.resume, "--benchmark_format=json")),
        "kept roofs": (files.roofs(), mutated, (*files.with_roofs, "--benchmark_format=json")),
    }


def broken_rules(done: subprocess.CompletedProcess[bytes]) -> Iterator[str]:
    if done.returncode not in (0, 1, 2):
        yield "did not end" if done.returncode == -signal.SIGALRM else f"ended with {done.returncode}"
    if done.returncode == 2 and b"roofbench: " not in done.stderr:
        yield "refused without a reason"
    for word in (b"terminate called", b"SIGSEGV", b"SIGABRT", b"lost while none", b"\x1b", b"Traceback"):
        if word in done.stdout + done.stderr:
            yield f"said {word!r}"
    if done.stdout.startswith(b"{"):
        for row in json.loads(done.stdout)["benchmarks"]:
            if "error_message" not in row and not 0 < row["real_time"] < 1e15:
                yield f"has a time of {row['real_time']}"
            if not 0 <= row.get("roof", 0) < 1e3:
                yield f"has a roof of {row['roof']}"


PROGRAM_KINDS = ("config", "index", "safetensors", "ids", "routing", "journal", "kept roofs")


@pytest.mark.parametrize("kind", PROGRAM_KINDS)
@pytest.mark.parametrize(
    "rounds", [pytest.param(3, marks=pytest.mark.slow), pytest.param(2000, marks=pytest.mark.nightly)]
)
def test_the_program_reads_or_refuses(kind: str, rounds: int, tmp_path: Path) -> None:
    with ForkServer(tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")}) as server:
        _read_or_refused(Files(tmp_path, server), kind, rounds)


def _read_or_refused(files: Files, kind: str, rounds: int) -> None:
    path, mutate, flags = kinds_of_program(files)[kind]
    if path is None:
        pytest.skip("the machine is too busy to keep roofs")
    whole = path.read_bytes()
    found = []
    ends: Counter[int] = Counter()
    for number in range(rounds):
        mutant = mutate(whole, random.Random(number))
        path.write_bytes(mutant)
        done = files.start(*flags)
        ends[done.returncode] += 1
        found += [f"{number}: {rule}: {mutant[:300]!r}" for rule in broken_rules(done)]
    assert not found, "\n".join(found)
    assert sum(ends.values()) == rounds


def in_process(work: Callable[[], object]) -> str:
    """What it printed, and refused with."""
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            work()
        except (SystemExit, UnusableInputError) as refused:
            out.write(str(refused))
            assert "\n" not in str(refused), "a refusal is a line"
    return out.getvalue()


def tokenizer_file(folder: Path, kind: str) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: i for i, word in enumerate(["[UNK]", "the", "roof", "is", "high", "t", "h", "e", "th"])}
    models = tokenizers.models
    model = (
        models.WordLevel(words, unk_token="[UNK]")
        if kind == "words"
        else models.BPE(words, [("t", "h"), ("th", "e")], unk_token="[UNK]")
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    file = folder / "tokenizer.json"
    tokenizer.save(str(file))
    return file


@pytest.mark.parametrize("model", ["words", "pairs"])
@pytest.mark.parametrize(
    "rounds", [pytest.param(50, marks=pytest.mark.slow), pytest.param(2000, marks=pytest.mark.nightly)]
)
def test_a_tokenizer_is_read_or_refused(model: str, rounds: int, tmp_path: Path) -> None:
    file = tokenizer_file(tmp_path, model)
    whole = file.read_bytes()
    for number in range(rounds):
        file.write_bytes(mutated(whole, random.Random(number)))
        for arguments in (["encode", str(tmp_path), "the roof"], ["decode", str(tmp_path), "1,2,9"]):
            said = in_process(lambda arguments=arguments: token_tool.main(arguments))  # type: ignore[misc]
            assert "\x1b" not in said, number


@pytest.mark.parametrize(
    "rounds", [pytest.param(200, marks=pytest.mark.slow), pytest.param(5000, marks=pytest.mark.nightly)]
)
def test_a_night_s_settings_are_read_or_refused(rounds: int, tmp_path: Path) -> None:
    file = tmp_path / "night.toml"
    ends: Counter[bool] = Counter()
    for number in range(rounds):
        chance = random.Random(number)
        lines = EXAMPLE.encode().splitlines()
        at = chance.choice([i for i, line in enumerate(lines) if b"=" in line and not line.startswith(b"#")])
        if chance.random() < 0.5:
            lines[at] = lines[at].split(b"=")[0] + b"= " + json.dumps(chance.choice(_ODD)).encode()
        else:
            lines[at] = damaged(lines[at], chance)
        file.write_bytes(b"\n".join(lines))
        try:
            config = read(file)
        except UnusableInputError as refused:
            ends[False] += 1
            assert str(refused) and "\x1b" not in str(refused) and "\n" not in str(refused), number
        else:
            ends[True] += 1
            assert config.keep_nights >= 1 and config.suite_processes >= 1 and config.suite_attempts >= 1, number
            assert config.suite_command and config.store, number
    assert ends[True] and ends[False]
