# SPDX-License-Identifier: Apache-2.0
"""One process of a peer: makes a form of a checkpoint, or measures one turn and prints {"ms": …} as its last line."""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import itertools

from peer_runs import checkpoint
from peer_runs.servers import Server

WARMUPS = {"decode": 4, "prefill": 1}
STEP = 128


def positions(verb: str, size: int, samples: int) -> int:
    """As many as a turn has, rounded up: what some peers set aside once, and attend to from the first token on."""
    tokens = size + (samples + 1 if verb == "decode" else 1)
    return -(-tokens // STEP) * STEP


def measured(server: Server, verb: str, vocab: int, size: int, samples: int) -> float:
    """Median milliseconds of a token at this depth, or of a prompt of this length."""
    warmups = WARMUPS[verb]
    if verb == "prefill":
        prompt = checkpoint.prompt_of(vocab, size)
        stamps = [time.perf_counter()]
        for _ in range(warmups + samples):
            server.prefill(prompt)
            stamps.append(time.perf_counter())
        seconds = [after - before for before, after in itertools.pairwise(stamps)][warmups:]
    else:
        # The first token has no stamp before it.
        prompt = checkpoint.prompt_of(vocab, size - warmups)
        stamps = server.decode(prompt, warmups + 1 + samples)
        if len(stamps) != warmups + 1 + samples:
            raise SystemExit(f"it ended after {len(stamps)} tokens")
        seconds = [after - before for before, after in itertools.pairwise(stamps)][warmups:]
    return 1e3 * statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["checkpoint", "convert", "decode", "prefill"])
    parser.add_argument("folder", type=Path, help="that is made, or read")
    parser.add_argument("--model", default="")
    parser.add_argument("--module", default="")
    parser.add_argument("--form", default="")
    parser.add_argument("--checkpoint", type=Path)
    for number in ("threads", "size", "samples"):
        parser.add_argument(f"--{number}", type=int, default=1)
    given = parser.parse_args()
    if given.action == "checkpoint":
        checkpoint.make(given.model, given.folder)
        return
    server = importlib.import_module(f"peer_runs.servers.{given.module}")
    if given.action == "convert":
        server.convert(given.checkpoint, given.form, given.folder)
        return
    vocab = checkpoint.SHAPES[given.model].vocab
    loaded = server.load(given.folder, given.form, given.threads, positions(given.action, given.size, given.samples))
    print(json.dumps({"ms": measured(loaded, given.action, vocab, given.size, given.samples)}))


if __name__ == "__main__":
    main()
