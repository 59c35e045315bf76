# SPDX-License-Identifier: Apache-2.0
"""A program that answers like roofbench, in no time: abba's tests run it in fresh processes.

--times=name:ms,… are its cases; --factor slows all of them, --slow=name one; --noise is what processes deviate by.
--memory is what the memory of processes deviates by: their times follow it, their shares of the roof do not.
--described makes it a program that knows --describe.
--doubtful=counter sets that counter in every row.
--fail=name, --skip=name give errors, --crash ends with a signal; with --in_run=N in the Nth process alone.
--crash_with=name ends so in a process that has the case, in the middle of its result.
--profile=FOLDER writes the profile of a product; --no_profile ignores that.
Every run draws other noise: a counter lies in --seed.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import shlex
import signal
import sys
from pathlib import Path

import builders


def main() -> int:
    flags = dict(argument.removeprefix("--").partition("=")[::2] for argument in sys.argv[1:])
    times = {name: float(time) for name, _, time in (case.rpartition(":") for case in flags["times"].split(","))}
    chosen = [name for name in times if re.search(flags.get("benchmark_filter", ""), f"{name}/manual_time")]
    if "benchmark_list_tests" in flags:
        print("\n".join(f"{name}/manual_time" for name in chosen))
        return 0
    if "describe" in flags:
        if "described" not in flags:
            return 2  # as a program that is too old to
        print((builders.ROOT / "tools/roofreport/contract.json").read_text())
        return 0
    counter = Path(flags["seed"])
    run = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(run + 1))
    in_this_run = run == int(flags.get("in_run", run))
    if "crash" in flags and run > 3 and in_this_run:
        os.kill(os.getpid(), signal.SIGSEGV)
    if flags.get("crash_with") in chosen:
        Path(flags["benchmark_out"]).write_text('{"context": {')
        os.kill(os.getpid(), signal.SIGSEGV)
    generator = random.Random(run)
    rows = []
    memory = math.exp(generator.gauss(0, float(flags.get("memory", 0))))
    if "profile" in flags and "no_profile" not in flags:
        folder = Path(flags["profile"])
        folder.mkdir()
        for name in chosen:
            profile = builders.profile(name, times[name] * float(flags.get("factor", 1)))
            (folder / f"{name.replace('/', '+')}.json").write_text(json.dumps(profile))
    for name in chosen:
        factor = float(flags.get("factor", 1)) * (1.3 if flags.get("slow") == name else 1.0)
        noise = math.exp(generator.gauss(0, float(flags.get("noise", 0.01))))
        rows.append(builders.row(name, times[name] * factor * noise * memory, roof=0.5 / (factor * noise)))
        rows[-1] |= {flags["doubtful"]: 1.0} if "doubtful" in flags else {}
        for kind in ("fail", "skip"):
            if flags.get(kind) == name and in_this_run:
                rows[-1] = builders.error_row(name, f"{kind}ed: so told".replace("skiped", "skipped"))
    builders.write_json(Path(flags["benchmark_out"]), rows, device=flags.get("device", "Test CPU"))
    return 1 if "fail" in flags and in_this_run else 0


def script(path: Path, times: str, runs: Path, before: str = "", flags: str = "") -> str:
    """An executable at `path` that runs this program with the cases `times` and the counter `runs`."""
    here = Path(__file__)
    command = [sys.executable, "-S", str(here), f"--times={times}", f"--seed={runs}"]
    environment = f"PYTHONPATH={shlex.quote(str(here.parent))}"
    path.write_text(f'#!/bin/sh\n{before}\n{environment} exec {shlex.join(command)} {flags} "$@" $more\n')
    path.chmod(0o755)
    return str(path)


if __name__ == "__main__":
    sys.exit(main())
