# SPDX-License-Identifier: Apache-2.0
"""Errors of a command: one line that begins with its name, and an exit status. Signals that ask it to end: what it
started is ended, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from roofreport.errors import UnusableInputError
from roofreport.files import reason
from roofreport.project_folder import missing_package
from roofreport.terminal import say
from roofreport.text import printable

UNUSABLE = 2
_LONGEST_REASON = 4000
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class Signaled(KeyboardInterrupt):
    """By a scheduler or a closed terminal, as by Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _signaled(number: int, _frame: FrameType | None) -> None:
    raise Signaled(number)


def _end_in_order() -> None:
    """Python would end at once, and leave running what it started. What the caller ignores (nohup) stays ignored."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _signaled)


_Handler = Callable[[int, FrameType | None], None]


@contextmanager
def _handling(handler: _Handler) -> Iterator[None]:
    """Signals that ask to end go to `handler` within it. What the caller ignores (nohup) stays ignored."""
    before = {
        number: signal.signal(number, handler)
        for number in _ENDING
        if threading.current_thread() is threading.main_thread() and signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def deferred() -> Iterator[Callable[[], None]]:
    """Within it, signals that ask to end wait for the given function: a process that is just being started would be
    left."""
    arrived: list[int] = []
    with ExitStack() as waiting:
        waiting.enter_context(_handling(lambda number, _: arrived.append(number)))

        def release() -> None:
            waiting.close()
            while arrived:
                signal.raise_signal(arrived.pop())

        try:
            yield release
        finally:
            release()


@contextmanager
def forwarding(received: list[int]) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Within it, signals that ask to end go to the program that the given function starts, and to `received`: it ends
    in order, with what it has, and is waited for."""
    process: subprocess.Popen[bytes] | None = None

    def start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        nonlocal process
        # A new session: Ctrl-C reaches it once, from us.
        process = subprocess.Popen(command, start_new_session=True, **options)
        if received:
            process.send_signal(received[0])
        return process

    def forward(number: int, _: FrameType | None) -> None:
        received.append(number)
        if process is not None:
            process.send_signal(number)

    with _handling(forward):
        yield start


def status_of(command: Sequence[str]) -> int:
    """Runs a program on this terminal, and gives it the signals that ask to end. Its exit status, 128 + n after a
    signal; raises Signaled when it has ended after one of ours."""
    received: list[int] = []
    with forwarding(received) as start:
        status = start(command).wait()
    if received:
        raise Signaled(received[0])
    return 128 - status if status < 0 else status


def ended(program: str, work: Callable[[], int], unusable: int = UNUSABLE) -> int:
    """The exit status of `work`, or of the error that ended it: `unusable` for unusable input."""
    _end_in_order()
    try:
        if _is_folder_deleted():
            raise UnusableInputError("the working folder has been deleted: change to one that exists (cd)")
        status = work()
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except UnusableInputError as error:
        _refuse(program, str(error))
        return unusable
    except ModuleNotFoundError as error:  # what a verb alone needs is imported when it runs
        if (error.name or "").startswith(("roofreport", "nightly_runs")):
            raise
        _refuse(program, missing_package(error))
        return unusable
    except BrokenPipeError:
        # The reader (head, a pager) has had enough.
        _drop_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        # Unexpected errors, and a full standard output.
        _drop_output()
        _refuse(program, f"{error.filename or 'standard output'}: {reason(error)}")
        return unusable
    except KeyboardInterrupt as interrupt:
        return 128 + (interrupt.number if isinstance(interrupt, Signaled) else signal.SIGINT)


def _is_folder_deleted() -> bool:
    """Relative paths have no meaning then, and libraries end the process."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _refuse(program: str, why: str) -> None:
    say(f"{program}: {printable(why, _LONGEST_REASON)}")


def _drop_output() -> None:
    """Python would complain when it flushes at its end."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
