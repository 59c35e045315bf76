# SPDX-License-Identifier: Apache-2.0
"""The corpus of cheats by the entries of roofbench and by other harnesses: docs/honesty.md says who is fooled.

With each change, what is caught has to be caught, and no honest twin. By night a cell that becomes wrong is red, also
where a cheat is caught that was not: then tests/cheats/honesty.py writes the page anew. Cells that say `sometimes` are
not asserted, and no gain is.
"""

from __future__ import annotations

import honesty
import pytest
from corpus import CHEATS, Cheat
from harnesses import HARNESSES, Harness, RefusedError, honest_seconds

_CELLS = honesty.cells_of(honesty.PAGE)
_ENTRY = HARNESSES[-1]


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name)
def test_what_is_caught_is_caught(cheat: Cheat) -> None:
    outcomes = honesty.Outcomes()
    honesty.run(_ENTRY, cheat, outcomes)  # its honest twin is believed, or this raises
    if _CELLS[cheat.name, _ENTRY.name] == "caught":
        assert outcomes.refused, outcomes.gains


@pytest.mark.nightly
@pytest.mark.parametrize("harness", HARNESSES, ids=lambda harness: harness.name)
@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name)
def test_the_page_says_who_is_fooled(cheat: Cheat, harness: Harness) -> None:
    _agrees(cheat, harness)


def _agrees(cheat: Cheat, harness: Harness) -> None:
    cell = _CELLS[cheat.name, harness.name]
    outcomes = honesty.Outcomes()
    why = honesty.run(harness, cheat, outcomes)
    if not cell.startswith("sometimes"):
        assert bool(outcomes.refused) == (cell == "caught"), f"the page says {cell!r}; now: {why or outcomes.gains}"


@pytest.mark.slow
def test_the_page_says_what_fools_the_program() -> None:
    rows = honesty.program_rows()
    for (name, honest), row in rows.items():
        believed = row["verdict"] == "measured"
        cell = _CELLS[name, honesty.CPP]
        if honest == "yes":
            assert believed, row
        elif cell == "caught":
            assert not believed, row
    assert {name for name, _ in rows} == {
        name for (name, column), cell in _CELLS.items() if column == honesty.CPP and cell
    }


def test_the_page_has_every_cheat_and_no_other() -> None:
    listed = {name for name, _ in _CELLS}
    assert [cheat.name for cheat in CHEATS if cheat.name not in listed] == []
    assert len(listed) == len(CHEATS)
    whats = [f"`{cheat.name}`: {cheat.what}" for cheat in CHEATS]
    page = honesty.PAGE.read_text()
    assert [what for what in whats if what not in page] == []


@pytest.mark.nightly
@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name)
def test_five_cheats_and_twenty_twins(cheat: Cheat) -> None:
    for _ in range(5):
        _agrees(cheat, _ENTRY)
    for _ in range(15):
        honest_seconds(_ENTRY, cheat)


@pytest.mark.nightly
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_twenty_twins_of_the_program(cache: str) -> None:
    for _ in range(20):
        rows = honesty.program_rows(cache=cache)
        assert [row for (_, honest), row in rows.items() if honest == "yes" and row["verdict"] != "measured"] == []


def test_a_twin_that_is_not_believed_is_red() -> None:
    """The corpus is able to fail: a twin that cheats is one."""
    (cheat,) = (cheat for cheat in CHEATS if cheat.name == "half_of_the_rows")
    with pytest.raises(RefusedError, match="wrong result"), cheat.function(honest=False) as function:
        _ENTRY.seconds(function, cheat.problem)
