# SPDX-License-Identifier: Apache-2.0
"""decode and prefill beside what others serve models with: turns in fresh processes, interleaved by rounds."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from roofreport.terminal import show, tell
from roofreport.text import printable

from peer_runs import turns
from peer_runs.checkpoint import SHAPES
from peer_runs.figures import Row, ahead, best_peer, table
from peer_runs.peer_table import PEERS
from peer_runs.turns import OURS, SAMPLES, SIZES, FailedError, Task

VERBS = tuple(SIZES)
ROOT = Path(__file__).resolve().parents[2]
BITS = ("bf16", "int8", "int4")
ALLOCATORS = ("tuned", "system")
EXIT_FAILED, EXIT_UNUSABLE = 1, 2

Turn = Callable[[Task], tuple[float, dict[str, str]]]


@dataclasses.dataclass
class Side:
    """Who takes turns, and what it does before the first."""

    row: Row
    prepare: Callable[[Task], None]
    turn: Turn


def sides(verb: str, peers: list[str], bits: list[str]) -> list[Side]:
    """By precision: ours, then those that offer it."""
    found = []
    for precision in bits:
        ours = Row(OURS, precision, turns.our_settings(verb, precision))
        found.append(Side(ours, lambda task: None, partial(turns.run_ours, precision)))
        for peer in PEERS:
            if peer.name in peers and precision in peer.bits:
                row = Row(peer.name, precision, peer.settings_in(precision))
                convert, run = partial(turns.convert, peer, precision), partial(turns.run_peer, peer, precision)
                found.append(Side(row, convert, run))
    return found


def facts_of(task: Task) -> dict[str, str | int]:
    names = ("verb", "model", "threads", "samples", "allocator")
    return {name: getattr(task, name) for name in names} | {SIZES[task.verb][0]: task.size}


def attempt(side: Side, does: Callable[[], None]) -> bool:
    try:
        does()
    except FailedError as error:
        side.row.error = str(error)
        tell(f"tools/peers: {side.row.bits} {side.row.name}: {printable(side.row.error, 400)}")
    return not side.row.error


def of_the_best(found: list[Side]) -> list[Side]:
    """Of each precision ours and the best peer."""
    rows = [side.row for side in found]
    best = [best_peer(rows, bits) for bits in dict.fromkeys(row.bits for row in rows)]
    names = {(pair[0].bits, name) for pair in best if pair for name in (OURS, pair[0].name)}
    return [side for side in found if (side.row.bits, side.row.name) in names]


def prepare(found: list[Side], task: Task) -> None:
    for side in found:
        attempt(side, partial(side.prepare, task))


def take_turns(found: list[Side], rounds: int, task: Task, done: Callable[[], None]) -> None:
    """A B C … A B C …, so that a machine that slows down slows all. Who failed does not take part any more."""

    def take(side: Side) -> None:
        side.row.ms[-1], side.row.versions = side.turn(task)

    for number in range(rounds):
        for side in found:
            side.row.ms.append(None)
        for side in found:
            if not side.row.error and attempt(side, partial(take, side)):
                tell(f"round {number + 1}: {side.row.bits} {side.row.name} {side.row.ms[-1]:.2f} ms")
        done()


def earlier(path: Path, task: Task, rows: list[Row]) -> list[Row]:
    """Rows of a file that this goes on with: figures are added to those of `rows`; the others come back."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        kept = [Row(**row) for row in stored["rows"]]
        rounds = max(len(row.ms) for row in kept)
        if {name: stored[name] for name in facts_of(task)} != facts_of(task):
            raise ValueError("it was measured with other settings")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"tools/peers: --resume: {printable(str(path))}: {printable(str(error))}") from error
    by_key = {(row.name, row.bits): row for row in kept}
    for row in rows:
        row.ms = by_key.pop((row.name, row.bits), Row("", "", {}, ms=[None] * rounds)).ms
    return list(by_key.values())


def names(offered: tuple[str, ...]) -> Callable[[str], list[str]]:
    def of(text: str) -> list[str]:
        for name in text.split(","):
            if name not in offered:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(offered)}")
        return text.split(",")

    return of


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def arguments_of(verb: str, given: list[str]) -> argparse.Namespace:
    peers = tuple(peer.name for peer in PEERS)
    parser = argparse.ArgumentParser(prog=f"tools/peers {verb}", description=__doc__, allow_abbrev=False)
    parser.add_argument("--model", choices=SHAPES, default="llama3_1b", help="random weights of this shape")
    parser.add_argument("--peers", type=names(peers), default=list(peers), help=",".join(peers))
    parser.add_argument("--bits", type=names(BITS), default=list(BITS), help=",".join(BITS))
    parser.add_argument("--rounds", type=count, default=5, help="in each of which every side has a process")
    parser.add_argument(
        "--best", type=count, metavar="ROUNDS", help="more, of ours and the best peer of each precision"
    )
    parser.add_argument("--convert", action="store_true", help="only make the checkpoint and what peers make of it")
    parser.add_argument("--samples", type=count, default=SAMPLES[verb], help="timed tokens or prompts a process")
    axis, size = SIZES[verb]
    tokens = {"depth": "in the cache before the timed ones", "prompt": "of a prompt"}[axis]
    parser.add_argument(f"--{axis}", dest="size", type=count, default=size, metavar="TOKENS", help=tokens)
    parser.add_argument("--threads", type=count, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--allocator", choices=ALLOCATORS, default=ALLOCATORS[0], help="of all sides")
    parser.add_argument("--json", type=Path, metavar="FILE", help="written after every round")
    parser.add_argument("--resume", action="store_true", help="add the rounds to those in the file of --json")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "release" / "bin" / "roofbench")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "peers-models", help="for the converted models")
    arguments = parser.parse_args(given)
    if arguments.resume and not arguments.json:
        parser.error("--resume needs --json=FILE")
    return arguments


def main(verb: str, given: list[str]) -> int:
    chosen = arguments_of(verb, given)
    numbers = (chosen.threads, chosen.size, chosen.samples)
    task = Task(verb, chosen.model, *numbers, chosen.allocator, chosen.program, chosen.cache.resolve())
    found = sides(verb, chosen.peers, chosen.bits)
    rows = [side.row for side in found]
    if chosen.resume:
        rows = rows + earlier(chosen.json, task, rows)
    try:
        turns.make_checkpoint(task)
    except FailedError as error:
        tell(f"tools/peers: no checkpoint of {task.model}: {printable(str(error), 400)}")
        return EXIT_UNUSABLE

    def done() -> None:
        rounds = max(len(row.ms) for row in rows)
        for row in rows:
            row.ms += [None] * (rounds - len(row.ms))
        if chosen.json:
            result: dict[str, object] = {
                "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
            }
            result |= facts_of(task) | {"rows": [dataclasses.asdict(row) for row in rows]}
            chosen.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

    prepare(found, task)
    if chosen.convert:
        return EXIT_FAILED if any(row.error for row in rows) else 0
    take_turns(found, chosen.rounds, task, done)
    if chosen.best:
        take_turns(of_the_best(found), chosen.best, task, done)
    show(
        f"{verb} of {task.model}, {SIZES[verb][0]} {task.size}: {task.threads} threads, {task.allocator} allocator, "
        f"{len(rows[0].ms)} rounds, {task.samples} samples a process"
    )
    for line in [*table(rows), *(ahead(rows, bits) for bits in dict.fromkeys(row.bits for row in rows))]:
        show(line)
    return EXIT_FAILED if any(row.error for row in rows) else 0
