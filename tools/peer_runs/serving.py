# SPDX-License-Identifier: Apache-2.0
"""Compares roofbench with serving engines, in fresh processes that alternate by rounds."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from roofreport import files
from roofreport.terminal import say, show
from roofreport.text import printable

from peer_runs import turns
from peer_runs.checkpoint import SHAPES
from peer_runs.figures import Row, ahead, best_peer, table
from peer_runs.peer_table import PEERS
from peer_runs.turns import ALLOCATORS, OURS, SAMPLES, SIZES, FailedError, Task, count

VERBS = tuple(SIZES)
ROOT = Path(__file__).resolve().parents[2]
BITS = ("bf16", "int8", "int4")
EXIT_FAILED, EXIT_UNUSABLE = 1, 2


@dataclasses.dataclass
class Side:
    """An engine in one precision, its preparation and its turn."""

    row: Row
    prepare: Callable[[Task], None]
    turn: Callable[[Task], tuple[float, dict[str, str]]]


def sides(verb: str, peers: list[str], bits: list[str]) -> list[Side]:
    """For each precision ours, then the peers that offer it."""
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
        say(f"tools/peers: {side.row.bits} {side.row.name}: {printable(side.row.error, 400)}")
    return not side.row.error


def of_the_best(found: list[Side]) -> list[Side]:
    """Ours and the best peer of each precision."""
    rows = [side.row for side in found]
    best = [best_peer(rows, bits) for bits in dict.fromkeys(row.bits for row in rows)]
    names = {(pair[0].bits, name) for pair in best if pair for name in (OURS, pair[0].name)}
    return [side for side in found if (side.row.bits, side.row.name) in names]


def take_turns(found: list[Side], rounds: int, task: Task, done: Callable[[], None]) -> None:
    """A B C … A B C …, so that a slowdown of the machine affects all. A side that fails drops out."""

    def take(side: Side) -> None:
        side.row.ms[-1], side.row.versions = side.turn(task)

    for number in range(rounds):
        for side in found:
            side.row.ms.append(None)
        for side in found:
            if not side.row.error and attempt(side, partial(take, side)):
                say(f"round {number + 1}: {side.row.bits} {side.row.name} {side.row.ms[-1]:.2f} ms")
        done()


def earlier(path: Path, task: Task, rows: list[Row]) -> list[Row]:
    """Reads the file of --resume: moves its figures to `rows`, and returns its other rows."""
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


def write(path: Path, task: Task, rows: list[Row]) -> None:
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    result = {"date": date, **facts_of(task), "rows": [dataclasses.asdict(row) for row in rows]}
    files.write_text(path, json.dumps(result, indent=1) + "\n")


def names(offered: tuple[str, ...]) -> Callable[[str], list[str]]:
    """A type of arguments."""

    def of(text: str) -> list[str]:
        for name in text.split(","):
            if name not in offered:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(offered)}")
        return text.split(",")

    return of


def arguments_of(verb: str, given: list[str]) -> argparse.Namespace:
    peers = tuple(peer.name for peer in PEERS)
    parser = argparse.ArgumentParser(prog=f"tools/peers {verb}", description=__doc__, allow_abbrev=False)
    parser.add_argument("--model", choices=SHAPES, default="llama3_1b", help="shape of the random weights")
    parser.add_argument("--peers", type=names(peers), default=list(peers), help=",".join(peers))
    parser.add_argument("--bits", type=names(BITS), default=list(BITS), help=",".join(BITS))
    parser.add_argument("--rounds", type=count, default=5, help="one process of each side per round")
    parser.add_argument("--best", type=count, metavar="ROUNDS", help="more rounds of ours and the best peers")
    parser.add_argument("--convert", action="store_true", help="create and convert the checkpoint, measure nothing")
    parser.add_argument("--samples", type=count, default=SAMPLES[verb], help="timed tokens or prompts per process")
    axis, size = SIZES[verb]
    tokens = {"depth": "in the cache before the timed ones", "prompt": "of the prompt"}[axis]
    parser.add_argument(f"--{axis}", dest="size", type=count, default=size, metavar="TOKENS", help=tokens)
    parser.add_argument("--threads", type=count, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--allocator", choices=ALLOCATORS, default=ALLOCATORS[0], help="of all sides")
    parser.add_argument("--json", type=Path, metavar="FILE", help="result file, written after every round")
    parser.add_argument("--resume", action="store_true", help="add the rounds to those in the file of --json")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "release" / "bin" / "roofbench")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "peers-models", help="of converted models")
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
        say(f"tools/peers: cannot create a checkpoint of {task.model}: {printable(str(error), 400)}")
        return EXIT_UNUSABLE

    def done() -> None:
        rounds = max(len(row.ms) for row in rows)
        for row in rows:
            row.ms += [None] * (rounds - len(row.ms))
        if chosen.json:
            write(chosen.json, task, rows)

    for side in found:
        attempt(side, partial(side.prepare, task))
    if not chosen.convert:
        take_turns(found, chosen.rounds, task, done)
        if chosen.best:
            take_turns(of_the_best(found), chosen.best, task, done)
        show(
            f"{verb} of {task.model}, {SIZES[verb][0]} {task.size}: {task.threads} threads, {task.allocator} "
            f"allocator, {len(rows[0].ms)} rounds, {task.samples} samples a process"
        )
        for line in [*table(rows), *(ahead(rows, bits) for bits in dict.fromkeys(row.bits for row in rows))]:
            show(line)
    return EXIT_FAILED if any(row.error for row in rows) else 0
