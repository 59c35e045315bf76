# SPDX-License-Identifier: Apache-2.0
"""Who is fooled by what: runs the corpus by all harnesses, and writes the table of docs/honesty.md.

    PYTHONPATH=python/src:tools .venv/bin/python tests/cheats/honesty.py [runs]
    PYTHONPATH=python/src:tools .venv/bin/python tests/cheats/honesty.py twins [runs]

The second form runs the honest twins alone by both entries, and writes how many were refused.

A cell is `caught`, what the cheat gains over its honest twin, or `sometimes` with that gain where runs differ. It takes
minutes, and the gains need a quiet machine; a test asks whether cells still say who is fooled.
"""

from __future__ import annotations

import dataclasses
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from corpus import CHEATS, Cheat
from generate_docs import replaced
from harnesses import HARNESSES, Harness, RefusedError, claimed_seconds, honest_seconds

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "honesty.md"
PROGRAM = ROOT / "build" / "release" / "bin" / "cheats"
CPP = "C++, cold"
COLUMNS = (*(harness.name for harness in HARNESSES), CPP)
# Whose outcome follows the speed of the machine, or the moment: their cells say so, whatever the last runs gave.
# In C++, kept results that are found by the time of steps are among them, and those that are found in as many single
# steps as there is time for: tests/run asks for those with a clock of its own. In Python, the sum of a function's
# operands may be another one before each call, cold caches may take longer than a rhythm, and few elements of a sort
# may differ by more than its tolerance.
UNSTEADY = {
    *((name, column) for name in ("by_a_sum", "by_content") for column in COLUMNS[-3:]),
    *((name, CPP) for name in ("by_some_elements", "waits_most_of_the_time", "in_a_buffer", "after_thirty")),
    *((name, CPP) for name in ("every_second", "at_random", "in_a_thread")),
    *(("by_rhythm", column) for column in COLUMNS[-2:]),
    *(("whatever_the_order", column) for column in COLUMNS[-3:]),
}

_GAIN = 1.2  # times the speed of the honest twin: less is none
_QUICKLY = ("--max_time=0.05", "--max_warmup_time=0.02", "--roofs=off", "--threads=1", "--slow_precisions")


@dataclasses.dataclass
class Outcomes:
    """Of a cheat in a harness, run by run."""

    gains: list[float] = dataclasses.field(default_factory=list)  # over the twin, where it was believed
    refused: int = 0

    def cell(self, *, unsteady: bool) -> str:
        if not self.gains:
            return "sometimes" if unsteady else "caught"
        gain = statistics.median(self.gains)
        shown = "no gain" if gain < _GAIN else f"{gain:.2g}x" if gain < 10 else f"{float(f'{gain:.1g}'):.0f}x"
        return f"sometimes {shown}" if self.refused or unsteady else f"**{shown}**" if gain >= _GAIN else shown


def run(harness: Harness, cheat: Cheat, outcomes: Outcomes) -> str:
    """Adds an outcome, and returns why the cheat was refused or ""."""
    honest = honest_seconds(harness, cheat)
    try:
        outcomes.gains.append(honest / claimed_seconds(harness, cheat))
    except RefusedError as error:
        outcomes.refused += 1
        return str(error)
    return ""


def program_rows(*, cache: str = "cold", how: str = ".*") -> dict[tuple[str, str], Mapping[str, object]]:
    """The rows of the program of cheats, by name of the cheat, and whether it is the twin ("yes") or not ("no")."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "cheats.jsonl"
        flags = [f"--journal={journal}", f"--benchmark_filter=how:({how})/.*cache:{cache}", *_QUICKLY]
        subprocess.run([PROGRAM, *flags], capture_output=True, check=False, timeout=600)
        rows = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    return {(row["axes"]["how"], row["axes"]["honest"]): row for row in rows if "axes" in row}


def table(cells: Mapping[tuple[str, str], str]) -> list[str]:
    lines = [f"| cheat | {' | '.join(COLUMNS)} |", f"| --- |{' --- |' * len(COLUMNS)}"]
    kind = ""
    for cheat in CHEATS:
        if cheat.kind != kind:
            kind = cheat.kind
            lines.append(f"| *{kind}* |{' |' * len(COLUMNS)}")
        row = " | ".join(cells.get((cheat.name, column), "") for column in COLUMNS)
        lines.append(f"| `{cheat.name}`: {cheat.what} | {row} |")
    return [re.sub(r" +\|", " |", line) for line in lines]


def cells_of(page: Path) -> dict[tuple[str, str], str]:
    """The cells of the table on the page."""
    found: dict[tuple[str, str], str] = {}
    for line in page.read_text().splitlines():
        name, *texts = (cell.strip(" *") for cell in line.strip("|").split("|"))
        if match := re.match(r"`(\w+)`: ", name):
            found |= {(match[1], column): text for column, text in zip(COLUMNS, texts, strict=True)}
    return found


def refused_twins(harness: Harness) -> list[str]:
    refused = []
    for cheat in CHEATS:
        try:
            honest_seconds(harness, cheat)
        except RefusedError as error:
            refused.append(f"{cheat.name}: {error}")
    return refused


def write_twins(runs: int) -> None:
    """Of the entries, with cold and warm caches; names those that were refused on the way."""
    counts = {"`roofbench.measure`": 0, "C++": 0}
    refused = []
    for number in range(runs):
        for harness in HARNESSES[-2:]:
            refused += refused_twins(harness)
            counts["`roofbench.measure`"] += len(CHEATS)
        for cache in ("cold", "warm"):
            twins = {name: row for (name, honest), row in program_rows(cache=cache).items() if honest == "yes"}
            refused += [f"{name}: {row.get('reason')}" for name, row in twins.items() if row["verdict"] != "measured"]
            counts["C++"] += len(twins)
        print(f"{number + 1} of {runs}: {len(refused)} refused", *refused, sep="\n  ", flush=True)
    of = " and ".join(f"{count:,} by {entry}" for entry, count in counts.items())
    text = f"Of {runs} runs of each honest twin with cold and warm caches, {of}, {len(refused) or 'none'} failed."
    PAGE.write_text(replaced(PAGE.read_text(), "twins", [text]))


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["twins"]:
        write_twins(int(arguments[1]) if len(arguments) > 1 else 20)
        return
    runs = int(arguments[0]) if arguments else 5
    found: dict[tuple[str, str], Outcomes] = {}
    for _ in range(runs):
        for cheat in CHEATS:
            for harness in HARNESSES:
                run(harness, cheat, found.setdefault((cheat.name, harness.name), Outcomes()))
        rows = program_rows()
        for name in {name for name, _ in rows}:
            outcomes = found.setdefault((name, CPP), Outcomes())
            honest, claimed = (rows[name, twin].get("median_s") for twin in ("yes", "no"))
            assert isinstance(honest, float), rows[name, "yes"]
            if rows[name, "no"]["verdict"] == "measured" and isinstance(claimed, float):
                outcomes.gains.append(honest / claimed)
            else:
                outcomes.refused += 1
    cells = {key: outcomes.cell(unsteady=key in UNSTEADY) for key, outcomes in found.items()}
    PAGE.write_text(replaced(PAGE.read_text(), "honesty", table(cells)))


if __name__ == "__main__":
    main(sys.argv[1:])
