# SPDX-License-Identifier: Apache-2.0
"""Measures a function: checked before and after the samples, timed by the sampler of the program."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import itertools
import json
import math
import numbers
import secrets
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from roofbench import _check, _core, _exchanges, _render
from roofbench._arrays import (
    Array,
    are_in_order,
    array_of,
    different,
    fresh_values,
    have_repeats,
    is_module,
    is_tensor,
    same_bits,
    walk,
)
from roofbench._check import CallResults, LazyError, Value, Watch, results_of, shares, value_of
from roofbench._exchanges import Exchange, Exchanges
from roofbench._machine import machine
from roofbench._result import Result
from roofbench._state import State
from roofbench.work import Work, not_counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    from roofbench._arrays import np

_CHECKED = 2  # sets of fresh values that results are checked with
_SLOW_REFERENCE = 1.0  # seconds: from here on it is computed for one set of fresh values, not two
_TURNS = 5  # of calls with two sets of values, to find calls that are skipped at random; fewer if they take this long:
_TURN_SECONDS = 0.2
_TURN_CALLS = 5  # of calls with other values, and of those with the same, in each turn, of which this is their time:
_TURN_CALL_SECONDS = 0.02
_ALL_TURNS_SECONDS = 3  # for `inputs=` that takes long
_LEARNS = "something is kept, if only by the processor, which learns branches"
_SCALED_BLOCKS = 16  # of an array
_SLOWER = 1.5  # with other values than with the same: they do not do the same work
_MOST_LOOKS = 8  # results of timed calls that are kept to be compared, unless
_LOOKED_BYTES = 256 << 20  # have been copied; compared for as long as the turns, and a share of the samples' time:
_LOOKING_SHARE = 0.1
_RENEWING_SHARE = 0.3  # of the time of samples in which all values are written anew, where elements change no places
_MANY_TIMES = 64  # the elements of an array that says nothing of the precision of another
_FEW = 16  # numbers in a list that are a shape, or other parameters
_SHARING_WORK = 10_000  # that numpy does to find an element of two arrays
_MANY_FAULTS = 8  # of a call: one of 2 MiB took up to 2.5 ms, where a hypervisor provides memory when it is touched


class CaseError(Exception):
    """Why a measurement does not count."""


class DependsOnValuesError(CaseError):
    """Calls are faster where they find the values of the call before: the samples say nothing."""


@dataclasses.dataclass(frozen=True)
class Options:
    """How to measure; the keywords of `measure`."""

    work: Work | _core.Cost | None = None
    reference: Callable[..., Any] | None = None
    cache: Literal["cold", "warm"] = "cold"
    name: str = ""
    axes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerance: _check.Tolerances = None
    reduction: float | None = None
    mutates: Sequence[int] = ()
    grads: bool = True
    inputs: Callable[[int], Sequence[Any]] | None = None
    seed: int | None = None
    max_time: float = 0.4
    max_wall: float = 4.0
    max_warmup_time: float | None = None
    max_samples: int | None = None
    roofs: bool = True
    interrupted: Callable[[], bool] | None = None

    def cost(self) -> _core.Cost | None:
        if self.work is None or isinstance(self.work, _core.Cost):
            return self.work
        if not isinstance(self.work, Work):
            raise TypeError(f"work={self.work!r}: expected roofbench.Work(flops=…, …) or a formula of roofbench.work")
        return self.work.cost()

    def sampling(self) -> _core.SampleOptions:
        fields: dict[str, Any] = {name: getattr(self, name) for name in ("max_time", "max_wall", "max_warmup_time")}
        if self.max_samples is not None:
            fields |= {"max_samples": self.max_samples, "min_samples": min(10, self.max_samples)}
        if not self.roofs or self.work is None:
            fields["roof_share"] = 0.0
        return _core.SampleOptions(**{name: value for name, value in fields.items() if value is not None})


# A single call, taken as the samples are: a function cannot distinguish its checks from its samples.
_ONE: dict[str, Any] = {"warmup_iters": 0, "exact_samples": True, "max_samples": 1, "min_samples": 1, "roof_share": 0.0}


class Sampled(NamedTuple):
    """The samples of a function."""

    line: Mapping[str, Any]  # of a journal, without the case: samples, counters, noise, roof
    impossible: str  # why the calls cannot have done their work; "": they can
    page_faults: float  # of a call
    raised: BaseException | None  # after the first chunk of samples; all finished chunks are here
    last_result: Any
    exchanged: Sequence[Exchange]  # that the last call found


class Subject:
    """A function with its arguments. Its memory is written: fresh values take the place of the originals until
    `restore`.
    """

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], options: Options) -> None:
        if not callable(function):
            raise TypeError(f"expected a function, not one of type {type(function).__name__}")
        if options.cache not in ("cold", "warm"):
            raise ValueError(f"cache={options.cache!r}: expected 'cold' or 'warm'")
        if not isinstance(options.mutates, Sequence):
            raise TypeError(f"mutates={options.mutates!r}: expected a list of numbers of arguments, as mutates=[0]")
        if any(not 0 <= index < len(arguments) for index in options.mutates):
            there = _render.counted(len(arguments), "argument")
            raise ValueError(f"mutates={list(options.mutates)}: the call has {there}, of which the first is number 0")
        for limit in ("max_time", "max_wall", "max_warmup_time", "max_samples"):
            value = getattr(options, limit)
            if value is not None and not (isinstance(value, int | float) and value > 0):
                raise ValueError(f"{limit}={value!r}: expected a number above 0")
        _check.check_tolerances(options.tolerance)
        for one, what in ((function, "the function"), (options.reference, "the reference")):
            _check_arguments(one, what, arguments)
        self.function = function
        self.options = options
        self.name = _name(function, options)
        self.axes = {**options.axes, "cache": options.cache}
        self.seed = secrets.randbits(31) if options.seed is None else options.seed
        self.first_call: float | None = None
        self.checked = False
        self.sampled: Sampled | None = None
        self.sampling_seconds = 0.0
        self.notes: list[str] = []
        self._arguments = arguments
        by_argument = [walk(argument, f"argument {index}") for index, argument in enumerate(arguments)]
        self._arrays = [array for arrays in by_argument for array in arrays]
        self._mutated = [array for index in options.mutates for array in by_argument[index]]
        captured = walk(function, "the function", into_functions=True)
        operands = [*self._arrays, *captured]
        self._operands = {array.memory() for array in operands if array.data.size}
        leaves = [array.owner for array in operands if is_tensor(array.owner) and array.owner.requires_grad]
        self._leaves = leaves if options.grads else []  # tensors that autograd gives gradients
        self._originals = [array.read() for array in self._arrays]
        self._values = list(self._originals)  # that the arrays hold before a call
        plain = [array for index, one in enumerate(by_argument) if index not in options.mutates for array in one]
        self._renewed, self._keys = _renewable(plain, arguments)
        others = [array for array in self._renewed if array not in self._keys]
        self._replaced = [array for array in others if array.is_floating or _may_be_replaced(array.data)]
        fixed = [] if options.inputs else _unchanging(plain, self._renewed, self._keys, arguments)
        fixed += _seeds(function, arguments)
        if fixed:
            self.notes.append(_finds_the_same(fixed))
        if options.inputs:
            self.notes.append("calls find the values that inputs= makes alone: it may make the results with them")
        cost = options.cost()
        if cost is not None and (missing := not_counted(cost)):
            self.notes.append(f"work: not counted: {', '.join(missing)}")
        if cost is not None and not leaves:
            self.notes += _other_dtype(cost, self._arrays if cost.bytes_updated else plain, captured)
        self._overlap = _overlap(self._arrays)
        self._watch = Watch(options.reference)
        self._state = State(function, self._arrays)
        self._makes_arrays = False
        self._gently = False  # how fresh values differ from the originals
        self._exchanges = Exchanges()  # between samples
        self._turns: Callable[[], None] | None = None  # writes the values that the next call finds
        self._numbers = itertools.count(_CHECKED + 1)  # of sets of values for timed calls, where none do
        self._looks: list[_Look] = []
        self._looked_bytes = 0
        self._looking_seconds = self._renewing_seconds = 0.0
        self._sets: dict[int, list[NDArray[Any]]] = {}  # of the checks, by number
        self._expected: dict[int, _Expected] = {}  # by the number of the set of values; 0: the originals

    # Values.

    def _write(self, values: Sequence[NDArray[Any]]) -> None:
        self._values = list(values)
        for array, content in zip(self._arrays, self._values, strict=True):
            if array.is_writable:
                array.data[...] = content
        if self._overlap:  # the last one written is what all of them hold
            self._values = [array.read() for array in self._arrays]

    def restore(self) -> None:
        self._write(self._originals)

    def finish(self) -> None:
        """Restores what the calls changed, and notes what they changed of their own accord."""
        self.restore()
        if changed := self._state.settle():
            self.notes.append(changed)

    def _set(self, number: int) -> list[NDArray[Any]]:
        """The values of a set: the same number gives the same values."""
        if number == 0 or not (self._renewed or self.options.inputs):
            return self._originals
        if number not in self._sets:
            self._sets[number] = self._made(number)
        return self._sets[number]

    def _made(self, number: int) -> list[NDArray[Any]]:
        if self.options.inputs is not None:
            made = list(self.options.inputs(self.seed + number))
            given = [array.read() for index, item in enumerate(made) for array in walk(item, f"input {index}")]
            if [one.shape for one in given] != [array.data.shape for array in self._arrays]:
                raise ValueError(f"inputs({self.seed + number}) does not give arrays of the arguments' shapes")
            return given
        generator = np.random.default_rng([self.seed, number])
        return [
            fresh_values(array, original, generator, self._gently, replaces=array in self._replaced)
            if array in self._renewed
            else original
            for array, original in zip(self._arrays, self._originals, strict=True)
        ]

    # Checks.

    def expect(self) -> None:
        """Computes what the calls should give, before the function runs for the first time. Raises CaseError."""
        if fake := self._watch.clocks_before():
            raise CaseError(fake)
        restored = [f"{array.where} (restored)" for array in self._mutated if array.data.size > 1]
        if self.options.reference is None:
            self.notes += [_finds_the_same(restored)] if restored else []
            self.notes.append("not checked: no reference")
            return
        begin = time.monotonic()
        self._write(self._originals)  # another subject may have written into the same arrays
        first = self._native()
        self._expected[0] = self._expectation(first)
        if restored and (time.monotonic() - begin > _SLOW_REFERENCE or not self._are_outputs(first)):
            self.notes.append(_finds_the_same(restored))
        results, allowed = self._expected[0].exact.results, self._expected[0].allowed
        self.notes += _check.unseen(results, allowed)
        if floats := [array for array in self._arrays if array.is_floating]:
            self.notes += _check.passing_parts(results, allowed, max(floats, key=lambda array: array.data.size))
        slow = time.monotonic() - begin > _SLOW_REFERENCE
        native = self._suited(self._set(1))
        if native is None and self._keys:
            self._renewed = [array for array in self._renewed if array not in self._keys]
            self._sets.clear()
            native = self._suited(self._set(1))
        if native is None:
            self._gently = True
            self._sets.clear()
            native = self._suited(self._set(1))
        if native is None:
            self.notes.append("no fresh values: the reference takes no others; pass inputs=")
            self._renewed = []
        else:
            self._expected[1] = self._expectation(native)
            if not slow:
                self._write(self._set(2))
                self._expected[2] = self._expectation(self._native())
            self._exchanges = self._exchangeable()
        self.restore()
        self.checked = any(expected.exact.says_something() for expected in self._expected.values())
        if not self.checked:
            self.notes.append("checked nothing: the reference gives NaN and infinities only")

    def _are_outputs(self, native: CallResults) -> bool:
        """Whether the reference gives the same whatever is in the arguments that a call may change."""
        if any(array.data.dtype.kind not in "biufc" for array in self._mutated):
            return False
        pairs = zip(self._arrays, self._originals, strict=True)
        self._write([different(array, one) if array in self._mutated else one for array, one in pairs])
        try:
            again = self._native()
        except CaseError:  # it does not take these, such as indices
            return False
        outputs = ([*one.results, *one.mutated, *one.grads] for one in (native, again))
        first, second = ([value.content for value in values] for values in outputs)
        return first == second

    def _referred(self, double: bool) -> CallResults:
        """The results of the reference for the values that the arrays hold."""
        assert self.options.reference is not None
        return _check.computed(self.options.reference, self._arguments, self.options.mutates, self._leaves, double)

    def _suited(self, values: Sequence[NDArray[Any]]) -> CallResults | None:
        """Results of the reference for values, which then are those of the arrays; None if it does not take them, or
        gives new infinities or NaNs."""
        self._write(values)
        try:
            native = self._referred(double=False)
        except Exception:
            return None
        usual = self._expected[0].native.is_finite()
        suits = all(now or not before for now, before in zip(native.is_finite(), usual, strict=True))
        return native if suits else None

    def _exchangeable(self) -> Exchanges:
        """What the reference takes, before each timed call."""
        if not self._renewed or self._gently or self._overlap or self.options.inputs is not None:
            return Exchanges()
        floats = [array for array in self._replaced if array.is_floating]
        others = [array for array in self._renewed if array not in self._keys]
        for free, replaced in ((self._renewed, self._replaced), (self._renewed, floats), (others, floats)):
            some = _exchanges.of(self._arrays, self._set(1), free, replaced, self.seed)
            if some and self._suited(some.values(self._originals, some.trial())) is not None:
                return some
        return Exchanges()

    def _native(self) -> CallResults:
        try:
            return self._referred(double=False)
        except LazyError as error:
            raise CaseError(f"the reference: {error}") from error
        except Exception as error:
            raise CaseError(f"the reference raised {_text(error)}") from error

    def _expectation(self, native: CallResults) -> _Expected:
        """For the values that the arrays hold."""
        try:
            exact = self._referred(double=True)
        except Exception:
            exact = native
            self.notes.append("the reference does not take double precision")
        # A factor in a short type does not make the others less precise.
        floats = [array for array in self._arrays if array.is_floating]
        least = max((array.data.size for array in floats), default=0) / _MANY_TIMES
        dtypes = [array.dtype for array in floats if array.data.size >= least]
        dtypes += [value.dtype for value in native.results]
        allowed = _check.tolerance(dtypes, self._reduction(native.results), self.options.tolerance)
        return _Expected(exact, native, allowed)

    def _reduction(self, results: Sequence[Value]) -> float:
        """Terms of the longest sum, where it is not given: no dimension, and no work for a result, allows more."""
        if self.options.reduction is not None:
            return self.options.reduction
        elements = max(1, *(math.prod(value.shape) for value in results), 1)
        longest = max((size for array in self._arrays for size in array.data.shape), default=1)
        inputs = sum(array.data.size for array in self._arrays)
        cost = self.options.cost()
        by_work = cost.total_flops / (2 * elements) if cost is not None else 0
        return float(max(longest, inputs / elements, by_work, 1))

    def _verify(self, returned: Any, expect: Callable[[], _Expected | None], seconds: float = math.inf) -> None:
        """Raises CaseError unless a call that just ended gave what it should, and nothing else changed. `seconds` are
        those since the watch last looked at threads."""
        try:
            results = results_of(returned)
        except TypeError as error:
            why = "" if isinstance(error, LazyError) else "the result cannot be read: "
            raise CaseError(f"{why}{error}") from error
        self._makes_arrays = any(isinstance(result, Array) for result in results)
        self._state.returned(results)
        held = self._held(results)
        if why := _check.served(itertools.chain(*held)):
            raise CaseError(why)
        try:
            given = _given(held)
        except LazyError as error:
            raise CaseError(str(error)) from error
        working = self._watch.working_thread(seconds)
        time.sleep(0.001)  # other threads may run
        if not given.is_still_in(self._held(results)):
            raise CaseError("the result changed after the call had returned: its work was not timed")
        if working:
            raise CaseError(working)
        if changed := self._changed_argument(self._values):
            raise CaseError(changed)
        if (expected := expect()) is not None:
            self._compare(given, results, expected)
        if changed := self._watch.changed():
            raise CaseError(changed)

    def _changed_argument(self, before: Sequence[NDArray[Any]]) -> str:
        for array, content in zip(self._arrays, before, strict=True):
            if array not in self._mutated and not same_bits(array.data, content):
                return f"the function changed {array.where}; if it should, declare mutates="
        return ""

    def _compare(self, given: CallResults, results: Sequence[Array | Value], expected: _Expected) -> None:
        if why := _check.difference(given, expected.exact, expected.native, expected.allowed):
            raise CaseError(why)
        for value, reference in zip(given.results, expected.native.results, strict=False):
            if _says_less(value, reference):
                self.notes.append(f"{value.place} is {value.dtype}, the reference gives {reference.dtype}")
        kept = [] if expected.exact.is_alias else [array for array in self._arrays if array not in self._mutated]
        for result, array in itertools.product(results, kept):
            if isinstance(result, Array) and shares(result, array):
                raise CaseError(f"{result.where} is memory of {array.where}, where the reference makes a new array")

    def _held(self, results: Sequence[Array | Value]) -> tuple[Sequence[Array | Value], ...]:
        """Outputs of a call: results, changed arguments and gradients."""
        grads = [leaf.grad for leaf in self._leaves if leaf.grad is not None]
        return results, self._mutated, [array_of(grad, "gradient") for grad in grads]

    # Calls.

    def _prepare(self, last_result: Any) -> list[tuple[int, int]]:
        """Before each call, untimed: inputs that it changes are restored, and gradients of the last one dropped.
        Returns the memory to evict: the operands, and the last results, whose memory the next ones get."""
        if self._renews:
            self._renew()
        if self._turns is not None:
            self._turns()
        memory = self._operands if self._evicts else set()
        if self._evicts and last_result is not None:
            with contextlib.suppress(TypeError):  # `judge` says so
                held = itertools.chain(*self._held(results_of(last_result)))
                memory = memory | {one.memory() for one in held if isinstance(one, Array) and one.data.size}
        for array, content in zip(self._arrays, self._values, strict=True) if self._mutated else ():
            if array in self._mutated:
                array.data[...] = content
        for leaf in self._leaves:
            leaf.grad = None
        return list(memory)

    def _renew(self) -> None:
        """Before a timed call: new values."""
        begin = time.monotonic()
        if self._renewing_seconds <= _RENEWING_SHARE * (begin - self._began):
            self._write(self._made(next(self._numbers)))
            self._renewing_seconds += time.monotonic() - begin

    def _look(self, last_result: Any, exchanged: Sequence[Exchange]) -> None:
        """Between timed calls: keeps what the last one gave, to be compared after the samples."""
        try:
            held = self._held(results_of(last_result))
        except TypeError:  # `judge` says so
            return
        arrays = [one for one in itertools.chain(self._arrays, *held) if isinstance(one, Array)]
        self._looked_bytes += sum(array.data.nbytes for array in arrays)
        if self._looks and self._looked_bytes > _LOOKED_BYTES:
            return
        values = self._exchanges.values(self._values, exchanged)
        try:
            given, wrong = _given(held), ""
        except LazyError as error:
            given, wrong = CallResults([], [], []), str(error)
        if len(self._looks) == _MOST_LOOKS:
            del self._looks[secrets.randbelow(_MOST_LOOKS)]
        self._looks.append(_Look(values, given, wrong or self._changed_argument(values)))

    def _sample(self, *, exchanges_few: bool = False, **fields: Any) -> Sampled:
        """The only way to the function. Raises CaseError if it raises before there are samples."""
        single = "exact_samples" in fields
        turns = self._turns is not None
        self._renews = bool(self._renewed) and 1 in self._expected and not (single or turns or self._exchanges)
        self._evicts = single or (self.options.cache == "cold" and bool(self._operands or self._makes_arrays))
        writes = turns or self._renews or bool(self._mutated)
        exchanges = Exchanges() if turns or (single and not exchanges_few) else self._exchanges
        places, _spares = (exchanges.without_spares() if exchanges_few else exchanges).places(self._arrays)
        try:
            line, *others = machine().sample(
                self.function,
                self._arguments,
                cost=None if single else self.options.cost(),
                cold=self.options.cache == "cold",
                options=_core.SampleOptions(**fields) if fields else self.options.sampling(),
                before_step=self._prepare if writes or self._evicts or self._leaves else None,
                interrupted=self.options.interrupted,
                exchanged=places,
                looked=None if single or not self._expected else self._look,
            )
        except Exception as error:
            raise CaseError(f"the function raised {_text(error)}") from error
        return Sampled(json.loads(line), *others)

    def call(self, number: int, *, exchanges_few: bool = False) -> float:
        """One checked call with the values of a set; its seconds. Where few of them change places, keys by a part of
        the content find most often what they know. Raises CaseError."""
        self._write(self._set(number))
        self._watch.before_call()
        measured = self._sample(exchanges_few=exchanges_few, **_ONE)
        (seconds,) = measured.line["samples_s"]
        if self.first_call is None:
            self.first_call = seconds
        self._values = self._exchanges.values(self._values, measured.exchanged)
        self._verify(
            measured.last_result,
            lambda: self._expected_now(always=True) if exchanges_few else self._expected.get(number),
            seconds,
        )
        return float(seconds)

    def calibrate(self) -> None:
        cost = self.options.cost()
        if cost is not None and self.options.roofs:
            machine().calibrate(cost)

    def prepare(self) -> None:
        """The expected results and the first calls. Raises CaseError."""
        self.expect()
        self.call(0)
        if self._renewed:
            self.call(1)

    def samples(self) -> Sampled:
        """Takes the samples, with the original values but for what changes from sample to sample. `judge` says whether
        they count."""
        self._write(self._originals)
        self._state.mark()
        self._compiled = _check.recompilations()
        self._looks.clear()
        self._looked_bytes, self._renewing_seconds = 0, 0.0
        self._began = time.monotonic()
        sampled = self._sample()
        self.sampling_seconds += time.monotonic() - self._began
        self.sampled = sampled._replace(last_result=None)  # whose memory is that of later calls
        return sampled

    def judge(self, measured: Sampled) -> None:
        """Raises CaseError if the samples do not count."""
        if measured.raised is not None:
            raise CaseError(f"the function raised {_text(measured.raised)}")
        compiled = _check.recompilations() - self._compiled
        self._values = self._exchanges.values(self._values, measured.exchanged)
        self._verify(measured.last_result, self._expected_now)
        self._compare_looks()
        if compiled:
            frames = _render.counted(compiled, "more frame")
            raise CaseError(f"torch.compile compiled {frames} during the samples, which are void")
        if measured.impossible:
            raise CaseError(measured.impossible)

    def _expected_now(self, *, always: bool = False) -> _Expected | None:
        """For the values of a timed call, while there is time for that, or `always`."""
        if not self._expected:
            return None
        if all(one is other for one, other in zip(self._values, self._originals, strict=True)):
            return self._expected[0]
        begin = time.monotonic()
        if not always and self._looking_seconds > _TURN_SECONDS + _LOOKING_SHARE * self.sampling_seconds:
            return None
        self._write(self._values)
        try:
            return self._expectation(self._native())
        except CaseError:  # the reference does not take these
            return None
        finally:
            if not always:
                self._looking_seconds += time.monotonic() - begin

    def _compare_looks(self) -> None:
        """Raises CaseError if a timed call that was looked at gave something else than it should."""
        if wrong := next((look.wrong for look in self._looks if look.wrong), ""):
            raise CaseError(wrong)
        for look in self._looks:
            self._values = list(look.values)
            if (expected := self._expected_now()) is None:
                continue
            if why := _check.difference(look.given, expected.exact, expected.native, expected.allowed):
                raise CaseError(f"{why}, in a timed call")

    def judged_samples(self) -> None:
        self.judge(self.samples())

    def check_after(self) -> None:
        """Calls with fresh values in the same memory, some of them twice. Raises CaseError, or DependsOnValuesError."""
        if not self._renewed:
            return
        begin = time.monotonic()
        seconds = []
        for turn in range(_TURNS):
            seconds += [self.call(number) for number in (2, 1)]
            if self._exchanges and 2 in self._expected:  # the reference is not slow
                self.call(0, exchanges_few=True)
            if turn and time.monotonic() - begin > _TURN_SECONDS:
                break
        # Of `inputs=` that takes long, most timed calls found the same: so these may be kept as well.
        fastest = max(seconds) if self.options.inputs else min(seconds)
        if self.sampled and fastest > _SLOWER * self.sampled.line["median_s"]:
            self._compare_turns(self.sampled.line["median_s"])

    def _compare_turns(self, median: float) -> None:
        """Raises DependsOnValuesError if no call that finds other values everywhere is as fast as one that finds the
        same, or as the samples."""
        if self._suited(self._turned()) is None:
            return
        calls = max(2, min(_TURN_CALLS, int(_TURN_CALL_SECONDS / median)))
        fields = {**_ONE, "warmup_iters": 2, "max_samples": calls, "min_samples": calls}

        def take_back() -> None:  # either way the same memory is written
            self._turn()
            self._write(self._originals)

        def take(turns: Callable[[], None]) -> list[float]:
            self._turns = turns
            try:
                measured = self._sample(**fields)
            finally:
                self._turns = None
            self._verify(measured.last_result, self._expected_now)
            return list(measured.line["samples_s"])

        new: list[float] = []
        same: list[float] = []
        begin = time.monotonic()
        for _ in range(_TURNS):
            if same and time.monotonic() - begin > _ALL_TURNS_SECONDS:
                break
            new += take(self._turn)
            if min(new) < _SLOWER * median:
                return
            same += take(take_back)
            if min(new) < _SLOWER * min(same):
                return
        if min(new) > _SLOWER * (usual := sorted(same)[len(same) // 4]):  # others may do their work by chance
            times = (
                f"{_core.human_time(min(new))} with other values and {_core.human_time(usual)} with those of the first"
            )
            raise DependsOnValuesError(f"a call takes at least {times}: {_LEARNS}")

    def measure_anew(self, why: DependsOnValuesError) -> None:
        """Samples of calls that find other values everywhere. Raises CaseError."""
        self.notes.append(f"{why}; measured with other values for each call")
        self._turns = self._turn
        self.judged_samples()

    def _turn(self) -> None:
        self._write(self._turned())

    def _turned(self) -> list[NDArray[Any]]:
        """The originals in other places, and blocks of floating-point numbers scaled, each by another factor: the
        result of what turned or scaled as a whole follows from that of the originals. Or those of `inputs=`, or as near
        to the originals as the reference needs."""
        if self.options.inputs is not None or not self._exchanges:
            return self._made(next(self._numbers))
        made, generator = list(self._originals), np.random.default_rng()
        for index in {part.array for part in self._exchanges.parts}:
            flat = self._originals[index].reshape(-1)
            turned = np.roll(flat, int(generator.integers(1, max(2, flat.size)))).reshape(made[index].shape)
            made[index] = fresh_values(self._arrays[index], turned, generator, gently=True, replaces=False)
            if made[index].dtype.kind == "f":
                for block in np.array_split(made[index].reshape(-1), _SCALED_BLOCKS):
                    block *= generator.uniform(0.6, 1)
        return made

    def result(self, failure: str = "") -> Result:
        line = self.sampled.line if self.sampled else {}
        notes = dict.fromkeys(self.notes)
        if self.sampled and self.sampled.page_faults >= _MANY_FAULTS:
            faults = f"{self.sampled.page_faults:.0f} page faults a call"
            notes[f"{faults}: it takes new memory, which is timed as well"] = None
        kinds = tuple((array.where, array.data.dtype.str, array.data.shape) for array in self._arrays)
        subject = (_identity(self.function), kinds, repr(self.options.cost()))
        return Result(
            self.name, failure, line, self.axes, self.first_call, self.checked, tuple(notes), self.seed, subject
        )


@dataclasses.dataclass(frozen=True)
class _Expected:
    """The expected outputs of a call."""

    exact: CallResults
    native: CallResults  # in the precision of the arguments
    allowed: _check.Tolerance


@dataclasses.dataclass(frozen=True)
class _Look:
    """At a timed call."""

    values: Sequence[NDArray[Any]]  # that it found
    given: CallResults
    wrong: str  # what it changed and should not, or why its result cannot be read; or ""


def _given(held: Sequence[Sequence[Array | Value]]) -> CallResults:
    """What is there now. Raises LazyError where it cannot be read."""
    results, mutated, grads = ([value_of(one) for one in group] for group in held)
    return CallResults(results, mutated, grads, overlapping=_check.overlapping(held[0]))


def _says_less(result: Value, reference: Value) -> bool:
    """Whether numbers are of another kind: whole for floating-point ones, or the other way round in fewer bytes."""
    is_narrower = len(result.content) < len(reference.content)
    return result.is_whole != reference.is_whole and (result.is_whole or is_narrower)


def _text(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _identity(function: Any) -> Hashable:
    """The same of a function that a loop defines again, with equal numbers in its closure and its defaults."""
    held = [getattr(function, "__self__", None)]
    if isinstance(function, functools.partial):
        code: Hashable = functools.partial
        held += [function.func, *function.args, *function.keywords.values()]
    elif (code := getattr(function, "__code__", None)) is not None:
        held += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        with contextlib.suppress(ValueError):  # of an empty cell
            held += [cell.cell_contents for cell in function.__closure__ or ()]
    elif held[0] is not None:
        code = function.__name__
    else:
        return id(function)
    return code, tuple(repr(one) if isinstance(one, (numbers.Number, str)) else id(one) for one in held)


def _name(function: Any, options: Options) -> str:
    if options.name:
        return options.name
    eager = getattr(function, "_orig_mod", function)  # of a module of torch.compile
    name = getattr(eager, "__name__", "") or type(eager).__name__
    name = name.strip("<>").replace(" ", "_")
    if eager is not function or hasattr(function, "_torchdynamo_orig_callable"):
        name += "_compiled"
    return f"{name}/cache:warm" if options.cache == "warm" else name


def _check_arguments(function: Any, what: str, arguments: tuple[Any, ...]) -> None:
    """Raises TypeError where a call cannot begin."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # there is none, or it is unknown
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        given = f"{what} cannot be called with the {len(arguments)} given arguments"
        raise TypeError(f"{given}: {error}; they follow the function, as in measure(function, x)") from None


def _other_dtype(cost: _core.Cost, arguments: Sequence[Array], captured: Sequence[Array]) -> list[str]:
    """A note if `work` reads two, four or eight times the bytes of the operands, or that part of them."""
    read = cost.bytes_read + cost.bytes_updated
    size = sum(array.data.nbytes for array in arguments)
    # Arrays that the function closes over may be operands or memory for its result.
    sizes = size, size + sum(array.data.nbytes for array in captured)
    if not read or not size or any(max(read / one, one / read) not in (2, 4, 8) for one in sizes):
        return []
    return [f"work reads {read / size:g} times the bytes of the arrays: is it of their dtype?"]


def _held_by_modules(arguments: Sequence[Any]) -> set[int]:
    """The identities of their parameters and buffers."""
    return {id(array.owner) for one in arguments if is_module(one) for array in walk(one, "")}


def _renewable(arrays: Sequence[Array], arguments: Sequence[Any]) -> tuple[list[Array], list[Array]]:
    """The arrays that take fresh values, and those among them whose values only change places: not the state of
    modules; whole numbers of 32 bits or more beside others may be indices or lengths, and change places unless they are
    in order.
    """
    held = _held_by_modules(arguments)
    free = [array for array in arrays if array.is_writable and array.data.size and id(array.owner) not in held]
    usual = [
        array for array in free if array.is_floating or (array.data.dtype.kind in "iu" and array.data.itemsize < 4)
    ]
    if not usual:
        return free, []
    whole = [array for array in free if array not in usual and array.data.dtype.kind in "iu"]
    keys = [array for array in whole if not are_in_order(array.data)]
    return usual + keys, keys


def _unchanging(
    arrays: Sequence[Array], renewed: Sequence[Array], keys: Sequence[Array], arguments: Sequence[Any]
) -> list[str]:
    """The arguments of which a function may keep something without a call that finds other values; with the reasons."""
    held = _held_by_modules(arguments)
    kept = [one for one in arrays if one not in renewed and one.data.size > 1 and id(one.owner) not in held]
    found = []
    for array in kept:
        why = "cannot be written" if not array.is_writable else "bools" if array.data.dtype.kind == "b" else "in order"
        found.append(f"{array.where} ({why})")
    found += [f"{array.where} (in another order)" for array in keys]
    if not renewed:
        found += [f"argument {index} (a module)" for index, one in enumerate(arguments) if is_module(one)]
    for index, one in enumerate(arguments):
        if isinstance(one, (list, tuple)) and len(one) > _FEW and all(isinstance(item, (int, float)) for item in one):
            found.append(f"argument {index} (a {type(one).__name__})")
    return found


def _finds_the_same(arguments: Sequence[str]) -> str:
    return f"every call finds the same values in {', '.join(arguments)}"


def _seeds(function: Callable[..., Any], arguments: Sequence[Any]) -> list[str]:
    """Those of which a function may keep what it made, such as a mask."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # there is none, or it is unknown
        return []
    return [
        f"argument {index} (a seed)"
        for index, (name, one) in enumerate(zip(names, arguments, strict=False))
        if "seed" in name and isinstance(one, (int, float, str, bytes))
    ]


def _may_be_replaced(numbers: NDArray[Any]) -> bool:
    """Whole numbers by others of them: not offsets, and not a permutation."""
    return not are_in_order(numbers) and have_repeats(numbers)


def _overlap(arrays: Sequence[Array]) -> bool:
    """Whether arrays share memory: an argument given twice, or two views of an array. Not those whose elements take
    turns, as the halves of each row."""
    some = sorted((array for array in arrays if array.data.size), key=Array.memory)
    ends = itertools.accumulate((sum(array.memory()) for array in some), max)
    for (before, end), array in zip(enumerate(ends, 1), some[1:], strict=False):
        # numpy's types know none and all of it.
        meets = (np.may_share_memory(other.data, array.data, _SHARING_WORK) for other in some[:before])  # type: ignore[arg-type]
        if end > array.memory()[0] and any(meets):
            return True
    return False


def measure(
    function: Callable[..., Any],
    *args: Any,
    work: Work | _core.Cost | None = None,
    reference: Callable[..., Any] | None = None,
    cache: Literal["cold", "warm"] = "cold",
    name: str = "",
    axes: Mapping[str, str] | None = None,
    tolerance: _check.Tolerances = None,
    reduction: float | None = None,
    mutates: Sequence[int] = (),
    grads: bool = True,
    inputs: Callable[[int], Sequence[Any]] | None = None,
    seed: int | None = None,
    max_time: float = 0.4,
    max_wall: float = 4.0,
    max_warmup_time: float | None = None,
    max_samples: int | None = None,
    roofs: bool = True,
    interrupted: Callable[[], bool] | None = None,
) -> Result:
    """Measures `function(*args)`.

    work: what a call computes and moves (`Work`, `roofbench.work`); without it no roof is claimed.
    reference: computes the same from the same arguments; it gets private copies in double precision.
    cache: "cold" evicts all arrays and the last result before each call, untimed; "warm" leaves them where the last
        call left them.
    tolerance: largest relative deviation of an element, of which the root mean square of all may be half (a quarter of
        the reference's at most), and which is never below the rounding of the type; by default it follows from the
        dtypes, from `reduction`, the number of terms of the longest sum, and from the rounding of the reference itself.
        One for each output, [1e-3, None], or by the number of the output, {1: 2}: None is the default. Whole numbers
        must be equal, or differ by so many at most. If the reference gives the value before rounding, they must be that
        value rounded, and near a tie either neighbor.
    mutates: numbers of the arguments that a call may change; they are restored before each call, untimed.
    grads: gradients of leaf tensors are results, and are dropped before each call, untimed.
    inputs: gives arguments for a seed, where other values of the same kind as the given ones would not do.
    max_time, max_wall: seconds of samples, and of samples, warm-up and roof probes together. Checks come on top of
        them; where they alone take longer than max_wall, the result says so.
    roofs: whether roofs are measured; without them, the result has no share.

    A wrong, skipped, kept or unfinished result gives a failed Result with the reason, not an exception. TypeError and
    ValueError are for arguments that cannot be measured.
    """
    options = Options(
        work, reference, cache, name, axes or {}, tolerance, reduction, mutates, grads, inputs, seed, max_time,
        max_wall, max_warmup_time, max_samples, roofs, interrupted,
    )  # fmt: skip
    case = Subject(function, args, options)
    case.calibrate()
    begin = time.monotonic()
    why = ""
    try:
        case.prepare()
        case.judged_samples()
        try:
            case.check_after()
        except DependsOnValuesError as found:
            case.measure_anew(found)
    except CaseError as failure:
        why = str(failure)
    finally:
        case.finish()
    checks = time.monotonic() - begin - case.sampling_seconds
    if checks > max_wall:
        case.notes.append(f"the checks alone took {checks:.3g} s, longer than max_wall={max_wall:g}")
    return case.result(why)
