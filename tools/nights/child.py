# SPDX-License-Identifier: Apache-2.0
"""A step's command: what it says goes to the terminal and into a log, and a signal to us is one to it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from roofreport.place import root
from roofreport.terminal import tell
from roofreport.text import printable

NOT_STARTED = 127
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class EndedError(Exception):
    """A signal ended the night; the number of it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


def run(command: Sequence[str], log: Path) -> int:
    """Its exit status, 128 + n after a signal. Raises EndedError once it has ended after a signal to us."""
    received: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def forward(number: int, _: FrameType | None) -> None:
        received.append(number)
        if process is not None:
            process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        with log.open("ab", buffering=0) as file:
            try:
                # A session of its own: Ctrl-C reaches it once, from us.
                process = subprocess.Popen(
                    command,
                    cwd=root(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                why = f"{printable(command[0])} cannot be started: {error.strerror}"
                file.write(why.encode() + b"\n")
                tell(why)
                return NOT_STARTED
            if received:
                process.send_signal(received[0])
            assert process.stdout is not None
            for line in process.stdout:
                with suppress(OSError):  # a full disk is no reason to end what measures
                    file.write(line)
                tell(line.decode(errors="backslashreplace").rstrip("\n"))
            status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        raise EndedError(received[0])
    return 128 - status if status < 0 else status
