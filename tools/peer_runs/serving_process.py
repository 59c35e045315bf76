# SPDX-License-Identifier: Apache-2.0
"""One process of a peer: creates or converts a checkpoint, or measures one turn and prints {"ms": …} as the last line."""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peer_runs import checkpoint
from peer_runs.servers import Server

WARMUPS = {"decode": 4, "prefill": 1}
STEP = 128


def positions(verb: str, size: int, samples: int) -> int:
    """The tokens of a turn, rounded up: some peers allocate, and attend to, all of them from the first token on."""
    tokens = size + (samples + 1 if verb == "decode" else 1)
    return -(-tokens // STEP) * STEP


def measured(server: Server, verb: str, vocab: int, size: int, samples: int) -> float:
    """Median milliseconds of a token at this depth, or of a prompt of this length."""
    warmups = WARMUPS[verb]
    stamps: list[float] = []

    def stamp() -> None:
        stamps.append(time.perf_counter())

    if verb == "prefill":
        prompt = checkpoint.prompt_of(vocab, size)
        stamp()
        for _ in range(warmups + samples):
            server.prefill(prompt)
            stamp()
    else:
        # The first token only starts the clock.
        server.decode(checkpoint.prompt_of(vocab, size - warmups), warmups + 1 + samples, stamp)
    if len(stamps) != warmups + 1 + samples:
        raise SystemExit(f"it ended after {len(stamps)} tokens")
    seconds = [after - before for before, after in itertools.pairwise(stamps)][warmups:]
    return 1e3 * statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["checkpoint", "convert", "decode", "prefill"])
    parser.add_argument("folder", type=Path, help="to create or to read")
    for name in ("model", "module", "form"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--checkpoint", type=Path)
    for name in ("threads", "size", "samples"):
        parser.add_argument(f"--{name}", type=int, default=1)
    given = parser.parse_args()
    if given.action == "checkpoint":
        checkpoint.make(given.model, given.folder)
        return
    module = importlib.import_module(f"peer_runs.servers.{given.module}")
    if given.action == "convert":
        module.convert(given.checkpoint, given.form, given.folder)
        return
    vocab = checkpoint.SHAPES[given.model].vocab
    room = positions(given.action, given.size, given.samples)
    server = module.load(given.folder, given.form, given.threads, room)
    print(json.dumps({"ms": measured(server, given.action, vocab, given.size, given.samples)}))


if __name__ == "__main__":
    main()
