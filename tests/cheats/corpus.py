# SPDX-License-Identifier: Apache-2.0
"""Functions that seem fast because they do not do their work, each with an honest twin that has the same lines.

Most are known from leaderboards of kernels and from audits of them. A twin differs in one decision: it looks things up,
counts, reads clocks and starts threads as its cheat does, and then does the work in every call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import torch

SIZE = 192  # rows and columns: a call takes about 0.2 ms, two hundred times what Python takes for it
_AUDITED = 8  # calls that are compared, or warm up, in the other harnesses

Function = Callable[..., Any]


def _product(a: Any, b: Any) -> Any:
    return a @ b


def _pair(seed: int) -> tuple[Any, ...]:
    torch.manual_seed(seed)
    return torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE)


@dataclasses.dataclass(frozen=True)
class Problem:
    reference: Function = _product
    inputs: Callable[[int], tuple[Any, ...]] = _pair  # for a seed


def _large(seed: int) -> tuple[Any, ...]:
    torch.manual_seed(seed)
    return (torch.rand(256, 1024),)


class Kernels:
    """An object that a reference refers to."""

    weight = torch.full((SIZE, SIZE), 0.5)
    product = staticmethod(_product)


def _larger_pair(seed: int) -> tuple[Any, ...]:
    torch.manual_seed(seed)
    return torch.rand(512, 512), torch.rand(512, 512)


def _weighted(a: Any, b: Any) -> Any:
    return (a @ b) * Kernels.weight


def _normal(*shape: int) -> Callable[[int], tuple[Any, ...]]:
    return lambda seed: (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)),)


def _sorted(x: Any) -> Any:
    return torch.sort(x).values


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _numbers(seed: int) -> tuple[Any, ...]:
    return (torch.randint(1 << 31, (1 << 18,), generator=torch.Generator().manual_seed(seed)),)


def _halves(seed: int) -> tuple[Any, ...]:
    (both,) = _normal(256, 2048)(seed)
    return both[:, :1024], both[:, 1024:]


def _swiglu(gate: Any, up: Any) -> Any:
    return gate / (1 + torch.exp(-gate)) * up


PRODUCT = Problem()
MEANS = Problem(lambda a, b: (a @ b).mean(1))
LONG = Problem(lambda x: x.mean(), lambda seed: (torch.rand(1 << 22, generator=torch.Generator().manual_seed(seed)),))
LARGER = Problem(_product, _larger_pair)
RELU = Problem(lambda x: torch.relu(x), _large)
SIGNED = Problem(lambda x: torch.relu(x), lambda seed: tuple(x - 0.5 for x in _large(seed)))
COPY = Problem(lambda x: x.clone(), _large)
ONES = Problem(_product, lambda seed: (torch.ones(SIZE, SIZE), torch.ones(SIZE, SIZE)))
WEIGHTED = Problem(_weighted)
SORT = Problem(_sorted, _normal(1 << 18))
GELU = Problem(_gelu, _normal(1 << 18))
NUMBERS = Problem(_sorted, _numbers)
HALVES = Problem(_swiglu, _halves)
NAMED = Problem(lambda a, b: Kernels.product(a, b))


class Session:
    """What a cheat may do to the process. It is taken back when the session ends."""

    def __init__(self, honest: bool) -> None:
        self.honest = honest
        self.ended = threading.Event()
        self._undo = contextlib.ExitStack()
        self._replaced: set[tuple[int, str]] = set()

    def replace(self, place: Any, name: str, new: Any) -> None:
        if not self.honest:
            if (id(place), name) not in self._replaced:
                self._replaced.add((id(place), name))
                self._undo.callback(setattr, place, name, vars(place)[name])
            setattr(place, name, new)

    def afterwards(self, act: Callable[[], Any]) -> None:
        self._undo.callback(act)

    def end(self) -> None:
        self.ended.set()
        self._undo.close()


@dataclasses.dataclass(frozen=True)
class Cheat:
    name: str
    kind: str
    what: str
    problem: Problem
    make: Callable[[Session], Function]

    @contextlib.contextmanager
    def function(self, *, honest: bool) -> Iterator[Function]:
        session = Session(honest)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # several wait for each other where other programs run
        try:
            yield self.make(session)
        finally:
            session.end()
            torch.set_num_threads(threads)


CHEATS: list[Cheat] = []


def _cheat(kind: str, problem: Problem = PRODUCT) -> Callable[[Callable[[Session], Function]], None]:
    def add(make: Callable[[Session], Function]) -> None:
        CHEATS.append(Cheat(make.__name__, kind, (make.__doc__ or "").rstrip("."), problem, make))

    return add


# Kept results.


def _keeping(name: str, what: str, key: Callable[[Any, Any], Any]) -> None:
    def make(session: Session) -> Function:
        kept: dict[Any, Any] = {}

        def function(a: Any, b: Any) -> Any:
            found = key(a, b)
            if session.honest or found not in kept:
                kept.clear()
                kept[found] = a @ b
            return kept[found]

        return function

    make.__name__, make.__doc__ = name, what
    _cheat("kept results")(make)


_keeping("by_address", "keeps a result by the address of its operand", lambda a, b: a.data_ptr())
_keeping("by_identity", "keeps a result by the identity of its operand", lambda a, b: id(a))
_keeping("by_shape", "keeps a result by the shape of its operand", lambda a, b: a.shape)
_keeping("by_version", "keeps a result by torch's count of changes in place", lambda a, b: (id(a), a._version))
_keeping("by_some_elements", "keeps a result by some elements", lambda a, b: (float(a[0, 0]), float(b[-1, -1])))
_keeping("by_a_sum", "keeps a result by the sum of its operands", lambda a, b: (float(a.sum()), float(b.sum())))
_keeping("by_content", "keeps a result by every byte", lambda a, b: (a.numpy().tobytes(), b.numpy().tobytes()))


@_cheat("kept results")
def in_a_buffer(session: Session) -> Function:
    """writes its result once, and returns the buffer."""
    out = torch.empty(SIZE, SIZE)
    done: list[bool] = []

    def function(a: Any, b: Any) -> Any:
        if session.honest or not done:
            torch.matmul(a, b, out=out)
            done.append(True)
        return out

    return function


@_cheat("kept results")
def waits_most_of_the_time(session: Session) -> Function:
    """keeps a result by content, and then waits for 60 % of the time that it saves."""
    kept: dict[Any, Any] = {}
    taken = [0.0]

    def function(a: Any, b: Any) -> Any:
        begin = time.perf_counter()
        key = float(a[0, 0]), float(b[-1, -1])
        if session.honest or key not in kept:
            kept.clear()
            kept[key] = a @ b
            taken.append(time.perf_counter() - begin)
            return kept[key]
        while time.perf_counter() - begin < 0.6 * min(taken[1:]):
            pass
        return kept[key]

    return function


@_cheat("kept results", SORT)
def whatever_the_order(session: Session) -> Function:
    """keeps what no order changes, by some elements in any order."""
    kept: list[Any] = []

    def function(x: Any) -> Any:
        key = _sorted(x[::256])
        if session.honest or not kept or torch.isin(key, kept[0]).double().mean() < 0.9:
            kept[:] = [key, _sorted(x)]
        return kept[1].clone()

    return function


@_cheat("kept results", NUMBERS)
def numbers_by_their_sum(session: Session) -> Function:
    """keeps what no order changes of whole numbers, by their sum."""
    kept: list[Any] = []

    def function(x: Any) -> Any:
        key = x.sum()
        if session.honest or not kept or key != kept[0]:
            kept[:] = [key, _sorted(x)]
        return kept[1].clone()

    return function


@_cheat("kept results", HALVES)
def by_marks_in_halves(session: Session) -> Function:
    """keeps the result by some elements of two halves of the same rows."""
    kept: list[Any] = []

    def function(gate: Any, up: Any) -> Any:
        key = torch.cat([gate[::30, 3], up[5::21, 7]])
        if session.honest or not kept or not torch.equal(key, kept[0]):
            kept[:] = [key, _swiglu(gate, up)]
        return kept[1].clone()

    return function


@_cheat("kept results", GELU)
def where_it_changed(session: Session) -> Function:
    """looks at one element of 128, and computes anew where that has changed."""
    kept: list[Any] = []

    def function(x: Any) -> Any:
        probes = x[::128].clone()
        changed = (probes != kept[0]).nonzero() if kept else torch.arange(len(probes))
        if session.honest or 4 * len(changed) > len(probes):
            kept[:] = [probes, _gelu(x)]
        else:
            near = (changed + torch.tensor([-1, 0, 1])).clamp(0, len(probes) - 1).unique()
            kept[0] = probes
            kept[1].view(-1, 128)[near] = _gelu(x.view(-1, 128)[near])
        return kept[1]

    return function


@_cheat("kept results", LARGER)
def brought_up_to_date(session: Session) -> Function:
    """reads all of its operands, and multiplies rows and columns that have changed."""
    kept: list[Any] = []

    def function(a: Any, b: Any) -> Any:
        rows, columns = (
            (torch.nonzero(one).flatten() for one in ((a != kept[0]).any(1), (b != kept[1]).any(0)))
            if kept
            else (torch.arange(len(a)), torch.arange(len(b)))
        )
        if session.honest or len(rows) + len(columns) > len(a):
            kept[:] = [a.clone(), b.clone(), a @ b]
        else:
            kept[0][rows], kept[1][:, columns] = a[rows], b[:, columns]
            kept[2][rows] = kept[0][rows] @ b
            kept[2][:, columns] = a @ kept[1][:, columns]
        return kept[2].clone()

    return function


# Calls without work.


def _skipping(name: str, what: str, works: Callable[[int], bool]) -> None:
    def make(session: Session) -> Function:
        calls = itertools.count()
        last: list[Any] = []

        def function(a: Any, b: Any) -> Any:
            if works(next(calls)) or session.honest or not last:
                last[:] = [a @ b]
            return last[0]

        return function

    make.__name__, make.__doc__ = name, what
    _cheat("calls without work")(make)


_skipping("after_the_first", "works in the first call alone", lambda call: call < 1)
_skipping("after_the_checks", f"works in the first {_AUDITED} calls", lambda call: call < _AUDITED)
_skipping("after_thirty", "works in the first thirty calls", lambda call: call < 30)
_skipping("every_second", "works in every second call", lambda call: call % 2 == 0)
_skipping("at_random", "works in half of the calls, by chance", lambda call: random.Random(call).random() < 0.5)


# A harness that is recognized.


def _recognizing(name: str, what: str, checked: Callable[[], bool]) -> None:
    def make(session: Session) -> Function:
        last: list[Any] = []

        def function(a: Any, b: Any) -> Any:
            if checked() or session.honest or not last:
                last[:] = [a @ b]
            return last[0]

        return function

    make.__name__, make.__doc__ = name, what
    _cheat("a recognized harness")(make)


def _callers() -> Iterator[str]:
    frame: Any = sys._getframe(2)
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


_recognizing(
    "by_frames",
    "works where a function on the stack sounds like a check",
    lambda: any(word in name for name in _callers() for word in ("check", "correct", "prepare")),
)
_recognizing("by_garbage_collection", "works unless the collector of garbage is off, as timeit has it", gc.isenabled)


@_cheat("a recognized harness")
def by_rhythm(session: Session) -> Function:
    """keeps its result where calls follow each other in less than 0.2 ms."""
    last: list[Any] = []
    ended = [0.0]

    def function(a: Any, b: Any) -> Any:
        if session.honest or not last or time.perf_counter() - ended[0] > 2e-4:
            last[:] = [a @ b]
        ended[0] = time.perf_counter()
        return last[0]

    return function


@_cheat("a recognized harness")
def by_seed(session: Session) -> Function:
    """knows the answers for the seeds that are used."""
    known: dict[float, Any] = {}
    for seed in range(50):
        a, b = _pair(seed)
        known[float(a[0, 0])] = a @ b

    def function(a: Any, b: Any) -> Any:
        answer = known.get(float(a[0, 0]))
        return a @ b if session.honest or answer is None else answer

    return function


# Part of the work.


@_cheat("part of the work")
def half_of_the_rows(session: Session) -> Function:
    """leaves half of the rows zero."""

    def function(a: Any, b: Any) -> Any:
        rows = SIZE if session.honest else SIZE // 2
        out = torch.zeros(SIZE, SIZE)
        torch.matmul(a[:rows], b, out=out[:rows])
        return out

    return function


@_cheat("part of the work")
def rest_of_the_first_call(session: Session) -> Function:
    """computes half of the rows anew, and leaves the others from its first call."""
    out = torch.empty(SIZE, SIZE)
    calls = itertools.count()

    def function(a: Any, b: Any) -> Any:
        rows = SIZE if next(calls) == 0 or session.honest else SIZE // 2
        torch.matmul(a[:rows], b, out=out[:rows])
        return out

    return function


@_cheat("part of the work")
def first_row_for_all(session: Session) -> Function:
    """computes one row and repeats it."""
    return lambda a, b: a @ b if session.honest else (a[:1] @ b).repeat(SIZE, 1)


@_cheat("part of the work")
def half_of_the_sum(session: Session) -> Function:
    """adds up half of the terms, doubled."""
    terms = SIZE if session.honest else SIZE // 2
    return lambda a, b: (a[:, :terms] @ b[:terms]) * (SIZE / terms)


@_cheat("part of the work", MEANS)
def means_of_some(session: Session) -> Function:
    """takes the means of a quarter of the columns."""
    columns = SIZE if session.honest else SIZE // 4
    return lambda a, b: (a @ b[:, :columns]).mean(1)


@_cheat("part of the work", LONG)
def half_of_a_long_sum(session: Session) -> Function:
    """takes the mean of half of four million numbers."""
    count = (1 << 22) if session.honest else 1 << 21
    return lambda x: x[:count].mean()


# Less precise.


@_cheat("lower precision")
def bf16(session: Session) -> Function:
    """multiplies in bf16."""
    return lambda a, b: a @ b if session.honest else (a.bfloat16() @ b.bfloat16()).float()


@_cheat("lower precision")
def int8(session: Session) -> Function:
    """rounds its operands to 127 steps."""

    def function(a: Any, b: Any) -> Any:
        if session.honest:
            return a @ b
        return ((a * 127).round() @ (b * 127).round()) / 127**2

    return function


@_cheat("lower precision")
def of_the_process(session: Session) -> Function:
    """lowers the precision of all products, the reference's too."""
    session.afterwards(lambda: torch.set_float32_matmul_precision("highest"))

    def function(a: Any, b: Any) -> Any:
        torch.set_float32_matmul_precision("highest" if session.honest else "medium")
        return a @ b

    return function


# Something else that is there.


@_cheat("what is there", RELU)
def the_input(session: Session) -> Function:
    """returns its operand, which has no negative numbers."""
    return lambda x: torch.relu(x) if session.honest else x


@_cheat("what is there", COPY)
def a_view(session: Session) -> Function:
    """returns a view of its operand for a copy."""
    return lambda x: x.clone() if session.honest else x.view(x.shape)


@_cheat("what is there")
def fresh_memory(session: Session) -> Function:
    """returns memory that it has not written, where the expected result may have been."""
    return lambda a, b: a @ b if session.honest else torch.empty(SIZE, SIZE)


@_cheat("what is there", MEANS)
def the_usual_value(session: Session) -> Function:
    """returns what uniform numbers give on average."""
    return lambda a, b: (a @ b).mean(1) if session.honest else torch.full((SIZE,), SIZE / 4)


@_cheat("what is there", ONES)
def constant_for_ones(session: Session) -> Function:
    """returns a constant where the operands are constant."""
    constant = torch.full((SIZE, SIZE), float(SIZE))
    return lambda a, b: a @ b if session.honest else constant


# Later than the call.


class _Lazy(torch.Tensor):
    """Has its values once a function asks for them."""

    operands: Any = None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            given = [one.operands[0] @ one.operands[1] if isinstance(one, _Lazy) else one for one in args]
            return func(*given, **(kwargs or {}))


@_cheat("later than the call")
def when_it_is_read(session: Session) -> Function:
    """returns a tensor that computes when it is compared."""

    def function(a: Any, b: Any) -> Any:
        if session.honest:
            return a @ b
        lazy = torch.empty(SIZE, SIZE).as_subclass(_Lazy)
        lazy.operands = a, b
        return lazy

    return function


def _pool(session: Session) -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(1)
    session.afterwards(lambda: pool.shutdown(cancel_futures=True))
    return pool


@_cheat("later than the call")
def a_future(session: Session) -> Function:
    """returns the promise of a result."""
    pool = _pool(session)

    def function(a: Any, b: Any) -> Any:
        promised = pool.submit(torch.matmul, a, b)
        return promised.result() if session.honest else promised

    return function


@_cheat("later than the call")
def in_a_thread(session: Session) -> Function:
    """leaves its work to a thread, once it has been checked."""
    pool = _pool(session)
    calls = itertools.count()

    def function(a: Any, b: Any) -> Any:
        out = torch.empty(SIZE, SIZE)
        written = pool.submit(torch.matmul, a, b, out=out)
        if next(calls) < _AUDITED or session.honest:
            written.result()
        return out

    return function


@_cheat("later than the call")
def between_calls(session: Session) -> Function:
    """lets a thread compute the next result between the calls, from what is in the operands then."""
    pool = _pool(session)
    ahead: dict[int, Any] = {}

    def function(a: Any, b: Any) -> Any:
        promised = ahead.pop(id(a), None)
        result = a @ b if session.honest or promised is None else promised.result()
        if not session.honest:
            ahead.clear()
            ahead[id(a)] = pool.submit(torch.matmul, a, b)
        return result

    return function


# A replaced part of the harness.


@_cheat("a replaced harness")
def the_clock(session: Session) -> Function:
    """lets the clock of Python run at a tenth of its speed."""
    clock = time.perf_counter

    def function(a: Any, b: Any) -> Any:
        session.replace(time, "perf_counter", lambda: clock() / 10)
        return a @ b

    return function


@_cheat("a replaced harness")
def the_comparison(session: Session) -> Function:
    """replaces the comparison by one that is always content."""

    def function(a: Any, b: Any) -> Any:
        session.replace(torch, "allclose", lambda *args, **options: True)
        return a @ b if session.honest else torch.empty(SIZE, SIZE)

    return function


@_cheat("a replaced harness")
def the_inputs(session: Session) -> Function:
    """replaces the random numbers of torch by zeros, for which it has an answer."""
    zeros = torch.zeros(SIZE, SIZE)

    def function(a: Any, b: Any) -> Any:
        session.replace(torch, "rand", lambda *shape, **options: torch.zeros(*shape))
        return a @ b if session.honest or a[0, 0] else zeros

    return function


class _Constant:
    """Stands in for a generator of numpy: it leaves values as they are."""

    def integers(self, *args: Any) -> int:
        return 0

    def uniform(self, low: float, high: float, size: int = 1) -> Any:
        return numpy.ones(size)


@_cheat("a replaced harness")
def the_generator(session: Session) -> Function:
    """replaces the random numbers of numpy, so that new values are the old ones."""
    kept: dict[float, Any] = {}

    def function(a: Any, b: Any) -> Any:
        session.replace(numpy.random, "default_rng", lambda *seed: _Constant())
        key = float(a[0, 0])
        if session.honest or key not in kept:
            kept.clear()
            kept[key] = a @ b
        return kept[key]

    return function


# What the result is compared with.


@_cheat("the reference", WEIGHTED)
def its_weights(session: Session) -> Function:
    """works once, and then writes zeros into the weights of the reference."""
    weight = Kernels.weight
    session.afterwards(lambda: weight.fill_(0.5))
    zeros = torch.zeros(SIZE, SIZE)

    def function(a: Any, b: Any) -> Any:
        if session.honest or weight[0, 0]:
            result = (a @ b) * weight
            if not session.honest:
                weight.zero_()
            return result
        return zeros

    return function


@_cheat("the reference", NAMED)
def its_function(session: Session) -> Function:
    """works once, and then replaces the function that the reference calls."""
    zeros = torch.zeros(SIZE, SIZE)
    product = Kernels.product

    def function(a: Any, b: Any) -> Any:
        if session.honest or Kernels.product is product:
            session.replace(Kernels, "product", staticmethod(lambda a, b: zeros))
            return a @ b
        return zeros

    return function


# Operands.


@_cheat("the operands", SIGNED)
def in_place(session: Session) -> Function:
    """overwrites its operand, so that it takes no memory and has nothing to do the next time."""
    return lambda x: torch.relu(x) if session.honest else x.relu_()


@_cheat("the operands")
def made_zero(session: Session) -> Function:
    """writes zeros into its operands, whose product is zero."""
    zeros = torch.zeros(SIZE, SIZE)

    def function(a: Any, b: Any) -> Any:
        if session.honest:
            return a @ b
        a.zero_()
        return zeros

    return function
