# SPDX-License-Identifier: Apache-2.0
"""Malformed results and journals: seeded mutations of valid ones."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import builders
from roofreport.io.load import LIBRARY_FIELDS

NUMBERS: tuple[float | int, ...] = (
    *(0, -0.0, 1, -1, 5e-324, -5e-324, 2.3e-308, 1e-30, 1e15, 1e30, 1e100, -1e100, 1e101, 1e308, -1e308, 1.7e308),
    *(2**31, 2**63, -(2**63), 10**19, 0.1),
)
TEXTS = (
    *("", " ", "a" * 301, "a" * 5000, "\x1b[2J\x1b]0;title\x07", "\u202eabc", "\u2028", "\ud800", "\0", "a\nb\tc\rd"),
    *("<svg onload=alert(1)>", "<svg/><meta http-equiv=refresh content='0;url=//x'>", "</script><script>x</script>"),
    *("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\uff1d1", "[5cm]", "*[5cm]", "\\input{x}", "%s%n", "{0}"),
    *("\N{ZERO WIDTH JOINER}", "\ufffe", "\U0001f468\u200d\U0001f469", "nan", "inf", "1e308", "5e-324", "-1", "0"),
    *("../../x", "a/b:c/d:e", "a//b", "/", ":", "a/:", "a/n:1e308", "a/n:5e-324", "a/n:-1", "a/n:nan", "measured"),
    *("impl", "dtype", "<ref>", "<phase>_mean_ms", "manual_time", "a/manual_time/manual_time"),
)
NAMES = (
    *("=cmd|' /C calc'!A0_flop_util", "[5cm]_mean_ms", "*[1]_params", "\x1b[31m_mem_util", "<svg>_mean_ms", "_mean_ms"),
    *("flop_util", "mem_util", "x_flop_util", "x_mem_util", "roof", "FLOP/s", "bytes/s", "tokens/s", "itl_ms"),
    *("ttft_ms", "model_bytes", "parameters", "_params", "backward_mean_ms", "forward_mean_ms", "stddev_ms", "mean_ms"),
    *("samples", "contract", "schema", "optimized", "roof_read", "roof_", "roof_\x1b", "reference", "name", "run_name"),
)
# Values that the schema accepts, so that they reach the arithmetic and the pages.
_FIGURES = (0, -0.0, 1, -1, 5e-324, -5e-324, 1e-100, 1e-30, 1e15, 1e30, 1e99, 1e100, -1e100, 0.5)
_TIMES = (1e-9, 5e-7, 1.0, 1e9, 1e15)
_SIZES = ("1e308", "5e-324", "-1", "0", "nan", "1", "256", "1e30", "\uff11", "x", "", "1_0")
_PRINTABLE = [text for text in (*NAMES, *TEXTS) if 0 < len(text) <= 200 and text.isprintable()]


def _training(size: str, dtype: str, milliseconds: float, millions: float) -> dict[str, Any]:
    name = f"train_step/impl:eager/size:{size}/context:128/dtype:{dtype}"
    phases = {"forward_mean_ms": 3.0, "forward_stddev_ms": 3.0, "backward_mean_ms": 6.0, "backward_stddev_ms": 6.0}
    counters = {"parameters": millions * 1e6, "head_params": 1e5, "tokens/s": 512.0, "mfu": 0.5, "peak_mem": 2e9}
    return builders.row(name, milliseconds) | phases | counters


def rows() -> list[dict[str, Any]]:
    """Something for every verb: sweeps, implementations, precisions, training, what did not run, repetitions."""
    sweep = [
        builders.row(f"matmul/impl:{impl}/dtype:fp32/n:{n}", (n / 256) ** 3 * time) | {"FLOP/s": 1e11, "bytes/s": 1e9}
        for impl, time in (("eager", 1.0), ("onednn", 0.8))
        for n in (128, 256, 512, 2048)
    ]
    gemvs = [builders.row(f"gemv/impl:native/precision:int8/n:{n}", 1.0) for n in (1024, 4096, 8192, 16384)]
    return [
        *builders.scaled(1.0),
        *sweep,
        *[row | {"bytes/s": 1e11, "roof": 0.5} for row in gemvs],
        *[builders.row("norm/impl:native/d:64", 1.0, repetition, roof=0.4) for repetition in range(3)],
        builders.generation("llama", "bf16", 50.0, 4e9),
        builders.generation("llama", "int4", 125.0, 1e9),
        _training("small", "fp32", 9.0, 100.0),
        _training("medium", "fp32", 80.0, 400.0),
        _training("small", "bf16_autocast", 4.0, 100.0),
        builders.error_row("huge/n:1", "skipped: out of memory: 80 GB"),
        builders.error_row("wrong/n:1", "failed: off by 3"),
    ]


def _contract(chance: random.Random) -> dict[str, Any]:
    axes = [builders.axis("impl", role="impl"), builders.axis("n"), builders.axis("dtype", "fp32")]
    found = builders.contract(builders.family("matmul", *axes, growth={"n": 3.0}), version=chance.choice((1, 1, 1000)))
    found["counters"] = found["counters"][:12]
    if chance.random() < 0.5:
        _mutate(found, chance)
    return found


def _journal(document: dict[str, Any]) -> list[Any]:
    lines: list[Any] = [builders.header()]
    for row in document["benchmarks"]:
        name = row["run_name"].removesuffix("/manual_time")
        line = builders.line(name, row["real_time"] or 1.0, row["repetition_index"])
        line["counters"] = {key: value for key, value in row.items() if isinstance(value, float) and "time" not in key}
        line["phase_samples_s"] = {"forward": [0.001, 0.002, 0.001]}
        if "error_message" in row:
            verdict, _, reason = row["error_message"].partition(": ")
            line = {"name": name, "repetition": 0, "verdict": verdict, "reason": reason}
        lines.append(line)
    return lines


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a document with every one of its keys."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        node = pending.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        found += [(node, key) for key in keys]
        pending += [node[key] for key in keys if isinstance(node[key], (dict, list))]
    return found


def _mutate(value: Any, chance: random.Random) -> None:
    """Replaces, deletes, repeats or adds one member of one container anywhere in it."""
    members = places(value)
    if not members:
        return
    node, key = chance.choice(members)
    old, what = node[key], chance.random()
    if what < 0.1:
        del node[key]
    elif what < 0.3 and isinstance(node, dict):
        node[chance.choice((*NAMES, *TEXTS))] = chance.choice((old, chance.choice(NUMBERS), chance.choice(TEXTS)))
    elif what < 0.3:
        node.insert(chance.randrange(len(node) + 1), copy.deepcopy(old))
    # Mostly the kind that stood there, which goes deeper than the schema.
    elif isinstance(old, (int, float)) and what < 0.8:
        node[key] = chance.choice(NUMBERS)
    elif isinstance(old, str) and what < 0.8:
        node[key] = chance.choice(("", old)) + chance.choice(TEXTS)
    else:
        # Copies of copies of a whole file would be larger than memory.
        small = old if len(str(old)) < 500 else None
        choices: list[Callable[[], Any]] = [
            lambda: chance.choice((*NUMBERS, *TEXTS, None, True, False)),
            lambda: chance.choice(([], {}, [[]], {"": {}}, json.loads("[" * 40 + "]" * 40))),
            lambda: [copy.deepcopy(small) for _ in range(chance.choice((2, 300)))],
            lambda: {f"k{i}": copy.deepcopy(small) for i in range(chance.choice((1, 250)))},
        ]
        node[key] = chance.choice(choices)()


def _name(old: str, chance: random.Random) -> str:
    parts = old.removesuffix("/manual_time").split("/")
    at = chance.randrange(len(parts))
    axis = parts[at].partition(":")[0]
    parts[at] = chance.choice((chance.choice(_PRINTABLE), f"{axis}:{chance.choice(_SIZES)}"))
    return "/".join(parts)[:280]


def _mutate_gently(value: Any, chance: random.Random) -> None:
    """Changes one case or fact to another value that the schema accepts."""
    is_journal = isinstance(value, list)
    context = (value[0] if is_journal else value)["context"]
    row = chance.choice(value[1:] if is_journal else value["benchmarks"])
    counters = row.get("counters", {}) if is_journal else row
    what = chance.random()
    if what < 0.15:
        context[chance.choice((*context, *NAMES))] = chance.choice(TEXTS)
    elif what < 0.3:
        row["name"] = _name(row["name"], chance)
        if not is_journal:
            row["run_name"] = row["name"]
    elif what < 0.45 and row.get("verdict", "measured") == "measured" and "error_message" not in row:
        row["median_s" if is_journal else "real_time"] = chance.choice(_TIMES)
    elif what < 0.6:
        counters[chance.choice([name for name in _PRINTABLE if name not in LIBRARY_FIELDS])] = chance.choice(_FIGURES)
    else:
        own = [key for key in counters if key not in LIBRARY_FIELDS] or ["roof"]
        for key in chance.sample(own, chance.randrange(len(own)) + 1):
            counters[key] = chance.choice(_FIGURES)


def mutant(chance: random.Random) -> bytes:
    """A result or journal with something wrong, mostly."""
    document = builders.document(rows())
    is_journal, has_contract = chance.random() < 0.4, chance.random() < 0.3
    value: Any = _journal(document) if is_journal else document
    if has_contract and is_journal:
        value[0]["contract"] = _contract(chance)
    elif has_contract:
        value["context"]["contract"] = json.dumps(_contract(chance))
    kind, count = chance.random(), chance.choice((1, 1, 2, 5, 30))
    for _ in range(count if kind < 0.9 else 0):
        (_mutate_gently if kind < 0.6 else _mutate)(value, chance)
    readable = chance.random() < 0.5
    lines = value if is_journal else [value]
    text = "".join(json.dumps(line, ensure_ascii=readable) + "\n" for line in lines)
    found = bytearray(text.encode(errors="surrogatepass"))
    for _ in range(chance.choice((1, 3, 20)) if chance.random() < 0.08 else 0):
        at = chance.randrange(len(found) + 1)
        found[at : at + chance.choice((0, 1, 10, 1000))] = chance.choice((b"", chance.randbytes(8), found[:100]))
    return bytes(found)
