# SPDX-License-Identifier: Apache-2.0
"""The programs that the checks run, watched while they run, and ended in time."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

GRACE = 30.0  # seconds for an orderly end
POLL = 1.0  # seconds between looks at what a program has reached
TIMED_OUT = 124  # as of timeout(1)


class OutOfTimeError(Exception):
    """The call is out of time; the next one continues the step."""


def run(
    command: Sequence[str | Path],
    timeout: float,
    deadline: float = float("inf"),
    watch: Callable[[str], None] = lambda _output: None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Both streams in stdout. Calls `watch` with the output so far from time to time, and at the end. Exit status 124
    on time-out; OutOfTimeError at the deadline of the call.
    """
    until = min(time.monotonic() + timeout, deadline)
    words = [str(part) for part in command]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    output = bytearray()
    ended = False
    try:
        ended = _read(process, output, until, watch)
    finally:
        if not ended:
            process.send_signal(signal.SIGINT)  # it writes its results
            if not _read(process, output, time.monotonic() + GRACE, watch):
                process.kill()
                _read(process, output, time.monotonic() + POLL, watch)
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
    text = _text(output)
    watch(text)
    if ended:
        return subprocess.CompletedProcess(words, process.returncode, text)
    if deadline <= until:
        raise OutOfTimeError(text)
    return subprocess.CompletedProcess(words, TIMED_OUT, f"{text}\ntimed out after {timeout:.0f} s")


def _text(output: bytes | bytearray) -> str:
    # A program that is killed may leave half a character.
    return output.decode("utf-8", errors="replace")


def _read(process: subprocess.Popen[bytes], output: bytearray, until: float, watch: Callable[[str], None]) -> bool:
    """Adds the output of a program up to its end; false if that does not come in time."""
    assert process.stdout is not None
    looked = time.monotonic()
    while (now := time.monotonic()) < until:
        if now - looked >= POLL:
            watch(_text(output))
            looked = now
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, min(POLL, until - now)))
        if ready:
            more = os.read(process.stdout.fileno(), 1 << 16)
            if not more:
                return True
            output += more
    return False


@contextlib.contextmanager
def meanwhile(command: Sequence[str], lines: list[str]) -> Iterator[None]:
    """Runs a program that prints readings, without end, and adds its lines at the end of the block. OSError if there is
    no such program.
    """
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.kill()
            process.wait()
            printed.seek(0)
            lines += _text(printed.read()).splitlines()
