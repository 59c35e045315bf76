# SPDX-License-Identifier: Apache-2.0
"""The command line of tools/peers."""

from __future__ import annotations

import sys

from roofreport.exit_status import ended
from roofreport.terminal import say, show
from roofreport.text import printable

from peer_runs import collectives, serving, training

EXIT_UNUSABLE = 2
STEPS = {"train": training.main, "collectives": collectives.main}
USAGE = """usage: tools/peers train|decode|prefill|collectives [--help]

  train        training steps in roofbench and PyTorch eager, alternating in fresh processes
  decode       one more token, in roofbench and in other serving engines
  prefill      a prompt, in the same engines
  collectives  collectives over Gloo, in roofbench and torch.distributed"""


def main(arguments: list[str]) -> int:
    verb, *rest = arguments or [""]
    if verb in ("-h", "--help"):
        show(USAGE)
        return 0
    if verb in STEPS:
        STEPS[verb](rest)
        return 0
    if verb in serving.VERBS:
        return serving.main(verb, rest)
    say(f"tools/peers: unknown verb '{printable(verb)}'; expected train, decode, prefill or collectives")
    return EXIT_UNUSABLE


if __name__ == "__main__":
    sys.exit(ended("tools/peers", lambda: main(sys.argv[1:]), EXIT_UNUSABLE))
