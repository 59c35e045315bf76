# SPDX-License-Identifier: Apache-2.0
"""Malformed results and journals: seeded mutations of valid ones, for the fuzzer."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import builders
from roofreport.io.load import LIBRARY_FIELDS as _LIBRARY

# Replacements for a number; the texts go into the file verbatim.
NUMBERS: tuple[float | int, ...] = (
    *(0, -0.0, 1, -1, 5e-324, -5e-324, 2.3e-308, 1e-30, 1e15, 1e30, 1e100, -1e100, 1e101, 1e308, -1e308, 1.7e308),
    *(2**31, 2**63, -(2**63), 10**19, 0.1),
)
RAW_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5000, "0x10", "1_000", "01", "--1", "1e")
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
    *(
        "flop_util",
        "mem_util",
        "x_flop_util",
        "x_mem_util",
        "roof",
        "FLOP/s",
        "bytes/s",
        "tokens/s",
        "itl_ms",
        "ttft_ms",
    ),
    *("model_bytes", "parameters", "_params", "backward_mean_ms", "forward_mean_ms", "stddev_ms", "mean_ms", "samples"),
    *("contract", "schema", "optimized", "roof_read", "roof_", "roof_\x1b", "reference", "name", "run_name", "skipped"),
)
_STEPS = {
    f"{phase}_{figure}_ms": value
    for phase, value in (("forward", 3.0), ("backward", 6.0))
    for figure in ("mean", "stddev")
}


def _training(size: str, dtype: str, milliseconds: float, millions: float) -> dict[str, Any]:
    name = f"train_step/impl:eager/size:{size}/context:128/dtype:{dtype}"
    counters = {"parameters": millions * 1e6, "head_params": 1e5, "tokens/s": 512.0, "mfu": 0.5, "peak_mem": 2e9}
    return builders.row(name, milliseconds) | _STEPS | counters


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
        *[_training(size, "fp32", ms, n) for size, ms, n in (("small", 9.0, 100.0), ("medium", 80.0, 400.0))],
        _training("small", "bf16_autocast", 4.0, 100.0),
        builders.error_row("huge/n:1", "skipped: out of memory: 80 GB"),
        builders.error_row("wrong/n:1", "failed: off by 3"),
    ]


def _contract() -> dict[str, Any]:
    axes = [builders.axis("impl", role="impl"), builders.axis("n"), builders.axis("dtype", "fp32")]
    found = builders.contract(builders.family("matmul", *axes, growth={"n": 3.0}))
    found["counters"] = found["counters"][:12]
    return found


def document(generator: random.Random) -> dict[str, Any]:
    found = builders.document(rows())
    if generator.random() < 0.3:
        contract = _contract() | {"version": generator.choice((1, 1, 1000))}
        if generator.random() < 0.5:
            mutate(contract, generator)
        found["context"]["contract"] = json.dumps(contract)
    return found


def journal(generator: random.Random) -> list[Any]:
    fields = ("real_time", "repetition_index", "run_name")
    lines: list[Any] = [builders.header()]
    if generator.random() < 0.3:
        lines[0]["contract"] = _contract()
    for row in rows():
        time, repetition, name = (row[field] for field in fields)
        line = builders.line(name.removesuffix("/manual_time"), time or 1.0, repetition)
        line["counters"] = {key: value for key, value in row.items() if isinstance(value, float) and "time" not in key}
        line["phase_samples_s"] = {"forward": [0.001, 0.002, 0.001]}
        if "error_message" in row:
            verdict, _, reason = row["error_message"].partition(": ")
            line = {"name": line["name"], "repetition": 0, "verdict": verdict, "reason": reason}
        lines.append(line)
    return lines


def _nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container in the document and a key of it."""
    pending = [value]
    while pending:
        node = pending.pop()
        for key, child in list(node.items() if isinstance(node, dict) else enumerate(node)):
            yield node, key
            if isinstance(child, (dict, list)):
                pending.append(child)


def _deep(levels: int, generator: random.Random) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if generator.random() < 0.5 else {"a": value}
    return value


def _value(old: Any, generator: random.Random) -> Any:
    # Copies of copies of a whole file would be larger than memory, as would one list that is in many places.
    small = old if len(str(old)) < 500 else None
    choices: list[Callable[[], Any]] = [
        lambda: generator.choice(NUMBERS),
        lambda: generator.choice(TEXTS),
        lambda: generator.choice([None, True, False, [], {}, [[]], {"": {}}]),
        lambda: _deep(generator.choice((1, 31, 40)), generator),
        lambda: [copy.deepcopy(small) for _ in range(generator.choice((0, 2, 300)))],
        lambda: {f"k{i}": copy.deepcopy(small) for i in range(generator.choice((1, 250)))},
    ]
    # Mostly the kind that stood there, which goes deeper than the schema.
    if isinstance(old, (int, float)) and generator.random() < 0.7:
        return generator.choice(NUMBERS)
    if isinstance(old, str) and generator.random() < 0.7:
        text = generator.choice(TEXTS)
        return generator.choice((text, text + old, old + text))
    return generator.choice(choices)()


def mutate(value: Any, generator: random.Random) -> None:
    places = list(_nodes(value))
    if not places:
        return
    node, key = generator.choice(places)
    what = generator.random()
    if what < 0.6:
        node[key] = _value(node[key], generator)
    elif what < 0.7:
        del node[key]
    elif what < 0.8 and isinstance(node, list):
        node.insert(generator.randrange(len(node) + 1), copy.deepcopy(node[key]))
    elif isinstance(node, dict):
        name = generator.choice((*NAMES, *TEXTS))
        node[name] = generator.choice((node[key], generator.choice(NUMBERS), generator.choice(TEXTS)))


# Values that the schema accepts, so that they reach the arithmetic and the pages.
_FIGURES = (0, -0.0, 1, -1, 5e-324, -5e-324, 1e-100, 1e-30, 1e15, 1e30, 1e99, 1e100, -1e100, 0.5)
_TIMES = (1e-9, 5e-7, 1.0, 1e9, 1e15)
_SIZES = ("1e308", "5e-324", "-1", "0", "nan", "1", "256", "1e30", "\uff11", "x", "", "1_0")


def _printable(texts: Sequence[str]) -> list[str]:
    return [text for text in texts if 0 < len(text) <= 200 and text.isprintable()]


def _name(old: str, generator: random.Random) -> str:
    parts = old.removesuffix("/manual_time").split("/")
    at = generator.randrange(len(parts))
    axis = parts[at].partition(":")[0]
    parts[at] = generator.choice((generator.choice(_printable(TEXTS)), f"{axis}:{generator.choice(_SIZES)}"))
    return "/".join(parts)[:280]


def _mutate_gently(value: Any, generator: random.Random) -> None:
    """One case or fact has another value, of the kind that belongs there."""
    is_journal = isinstance(value, list)
    context = (value[0] if is_journal else value)["context"]
    if generator.random() < 0.15:
        context[generator.choice((*context, *NAMES))] = generator.choice(TEXTS)
        return
    row = generator.choice(value[1:] if is_journal else value["benchmarks"])
    counters = row.get("counters", {}) if is_journal else row
    what = generator.random()
    if what < 0.2:
        for field in ("name",) if is_journal else ("name", "run_name"):
            row[field] = _name(row[field], generator)
    elif what < 0.35 and row.get("verdict", "measured") == "measured" and "error_message" not in row:
        row["median_s" if is_journal else "real_time"] = generator.choice(_TIMES)
    elif what < 0.5:
        names = [name for name in _printable((*NAMES, *TEXTS)) if name not in _LIBRARY]
        counters[generator.choice(names)] = generator.choice(_FIGURES)
    else:
        own = [key for key in counters if key not in _LIBRARY] or ["roof"]
        for key in generator.sample(own, generator.randrange(len(own)) + 1):
            counters[key] = generator.choice(_FIGURES)


def _written(value: Any, generator: random.Random) -> str:
    if generator.random() < 0.5:
        return json.dumps(value, ensure_ascii=generator.random() < 0.5)
    return json.dumps(value, indent=generator.choice((None, 1)))


def _changed_text(text: str, generator: random.Random) -> str:
    """Text that JSON libraries do not write: an invalid number, a duplicate key, a raw control character, depth."""
    what = generator.randrange(5)
    at = generator.randrange(len(text))
    if what == 0:
        colon = text.find(": ", at)
        end = min((text.find(sign, colon) for sign in ",}\n" if text.find(sign, colon) > 0), default=len(text))
        raw = generator.choice(RAW_NUMBERS)
        return text if colon < 0 else f"{text[: colon + 2]}{raw}{text[end:]}"
    if what == 1:
        quote = text.find('{"', at)
        return text if quote < 0 else f'{text[: quote + 1]}"twice": 1, "twice": 2, {text[quote + 1 :]}'
    if what == 2:
        return text[:at] + generator.choice("\x1b\x00\x07\x7f\n\r\t\u2028\ud800") + text[at:]
    if what == 3:
        bracket = generator.choice("[{")
        depth = generator.choice((33, 1000, 300_000))
        return text[:at] + (bracket if bracket == "[" else '{"a":') * depth + text[at:]
    return text[:at] * 2 + text[at:]


def _changed_bytes(data: bytes, generator: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(generator.choice((1, 1, 3, 20))):
        at = generator.randrange(len(found) or 1)
        what = generator.randrange(4)
        if what == 0:
            found[at : at + 1] = bytes([generator.randrange(256)])
        elif what == 1:
            del found[at : at + generator.choice((1, 10, 1000, len(found)))]
        elif what == 2:
            found[at:at] = bytes(generator.randrange(256) for _ in range(generator.choice((1, 8))))
        else:
            found[at:at] = found[: generator.choice((1, 100, 5000))]
    return bytes(found)


def mutant(generator: random.Random) -> bytes:
    """A result or journal with something wrong; one in thirty has nothing wrong."""
    is_journal = generator.random() < 0.4
    value: Any = journal(generator) if is_journal else document(generator)
    whole = generator.random() < 1 / 30
    if not whole and generator.random() < 0.6:
        for _ in range(generator.choice((1, 3, 10, 40))):
            _mutate_gently(value, generator)
    elif not whole and generator.random() < 0.8:
        for _ in range(generator.choice((1, 1, 1, 2, 5, 30))):
            mutate(value, generator)
    if isinstance(value, list) and is_journal:
        text = "".join(_written(line, generator).replace("\n", " ") + "\n" for line in value)
    else:
        text = _written(value, generator)
    if not whole and text and generator.random() < 0.1:
        text = _changed_text(text, generator)
    data = text.encode(errors="surrogatepass")
    return _changed_bytes(data, generator) if not whole and data and generator.random() < 0.08 else data
