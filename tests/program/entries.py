# SPDX-License-Identifier: Apache-2.0
"""The two entries to the harness, which promise the same of a run that is killed, crashes or resumes: a built program,
and `python -m roofbench run` with a file of families."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from built_program import BIN, NO_ROOFS, ROOT

# As the program `planted` (tests/planted), with what can happen to a Python function.
PLANTED = """
    import os, signal, sys, time
    import roofbench

    HOW = ["good", "throws", "wrong", "refuses", "bad_alloc", "segv", "aborts", "killed", "exits", "hangs", "last"]
    SIGNALS = {"segv": signal.SIGSEGV, "aborts": signal.SIGABRT, "killed": signal.SIGKILL}

    @roofbench.family(how=HOW, cache=["warm"])
    def planted(how):
        if how == "throws":
            raise RuntimeError("the kernel broke")
        if how == "refuses":
            raise roofbench.Skip("no kernel for this")
        if how == "bad_alloc":
            raise MemoryError("no memory")
        if how in SIGNALS:
            os.kill(os.getpid(), SIGNALS[how])
        if how == "exits":
            os._exit(7)
        if how == "hangs":
            print("hanging", file=sys.stderr, flush=True)
            time.sleep(3600)
        return roofbench.Case(sum, [1, 2], reference=lambda x: 4 if how == "wrong" else 3)
"""
# Its cases that leave something behind, for the next one to look at.
LEAVING = """
    import os, resource, signal, threading
    import roofbench

    left = []

    def moves():
        os.chdir("/")
        os.umask(0o777)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    def looks():
        os.umask(mask := os.umask(0))
        assert os.getcwd() != "/" and mask != 0o777, "another case's state"
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] != 64, "another case's state"
        assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, []), "another case's state"

    def spin():
        while True:
            pass

    def spins():
        left or left.append(threading.Thread(target=spin, daemon=True).start())

    def forks():
        if left or os.fork():
            left.append(None)
        else:
            os.closerange(0, 3)
            signal.alarm(60)
            signal.pause()
            os._exit(0)

    def pipes():
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
        os.kill(os.getpid(), signal.SIGPIPE)

    HOW = {one.__name__: one for one in (moves, looks, spins, forks, pipes)} | {"last": lambda: None}

    @roofbench.family(how=list(HOW), cache=["warm"])
    def planted(how):
        return roofbench.Case(lambda x: (HOW[how](), sum(x))[1], [1, 2], reference=sum)
"""
COPY = """
    import roofbench

    @roofbench.family(bytes="1024:15360:+1024", cache=["warm"])
    def copy(bytes):
        return roofbench.Case(bytearray, bytes)
"""


@dataclass(frozen=True)
class Entry:
    name: str
    command: tuple[str, ...]
    few: tuple[str, ...]  # flags: few samples, no roofs
    folder: Path

    @property
    def is_python(self) -> bool:
        return self.name == "python"

    def _options(self) -> dict[str, Any]:
        paths = f"{ROOT / 'python/src'}:{ROOT / 'tools'}"
        return {"cwd": self.folder, "env": {**os.environ, "PYTHONPATH": paths}} if self.is_python else {}

    def __call__(self, *flags: str) -> subprocess.CompletedProcess[str]:
        command = [*self.command, *self.few, *flags]
        options = self._options()
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, **options)

    def start(self, *flags: str, **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen([*self.command, *self.few, *flags], **self._options(), **options)


NAMES = ("program", "python")


def entry(name: str, program: str, text: str, folder: Path) -> Entry:
    """Of a built program, or of a file of families with this text in the folder."""
    if name == "program":
        few = ("--threads=1", "--benchmark_min_time=3x", "--warmup_iters=1", *NO_ROOFS)
        return Entry(name, (str(BIN / program),), few, folder)
    file = folder / f"{program}_kernels.py"
    file.write_text(textwrap.dedent(text))
    command = (sys.executable, "-m", "roofbench", "run", str(file))
    return Entry(name, command, ("--max_samples=3", "--max_warmup_time=0.01"), folder)
