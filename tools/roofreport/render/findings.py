# SPDX-License-Identifier: Apache-2.0
"""What a run found out, as text: the fastest implementations, the precision to serve in, how time grows."""

from __future__ import annotations

from collections.abc import Sequence

from roofreport import units
from roofreport.compare.precisions import Choice
from roofreport.compare.winners import Winner
from roofreport.render.table import Cell, Table
from roofreport.stats.growth import Series
from roofreport.text import printable

_LONGEST_NAME = 300


def fastest(winner: Winner) -> str:
    """One line, for the end of a table."""
    return (
        f"fastest: {printable(winner.work, _LONGEST_NAME)}: {printable(winner.implementation)},"
        f" {units.time(winner.seconds)}, {winner.left}, {winner.lead:.2f}x {printable(winner.runner_up)}"
    )


def serve_in(choice: Choice) -> str:
    """One line, for the end of a table."""
    best, second = choice.servings[:2]
    return (
        f"precision to serve in: {printable(choice.work, _LONGEST_NAME)}: {printable(best.precision)},"
        f" {best.rate:.1f} tokens/s, {choice.lead:.2f}x {printable(second.precision)}"
        f" at {choice.share_of_bytes:.2f} of its bytes"
    )


def winners(found: Sequence[Winner]) -> Table:
    rows = tuple(
        (
            Cell(printable(winner.work, _LONGEST_NAME), numeric=False),
            Cell(printable(winner.implementation), numeric=False),
            Cell(units.time(winner.seconds), winner.seconds),
            Cell(winner.left, winner.roof, numeric=False),
            Cell(f"{winner.lead:.2f}x {printable(winner.runner_up)}", winner.lead, numeric=False),
        )
        for winner in found
    )
    return Table(("work", "fastest", "time", "left", "lead"), rows)


def precisions(choice: Choice) -> Table:
    """A row a precision, the fastest first."""

    def seconds(value: float) -> Cell:
        return Cell(units.time(value), value) if value > 0 else Cell()

    rows = tuple(
        (
            Cell(printable(one.precision), numeric=False),
            seconds(one.first_token),
            seconds(one.next_token),
            seconds(one.next_token_p95),
            Cell(f"{one.rate:.1f}", one.rate),
            Cell(units.quantity(one.weights, "B"), one.weights),
        )
        for one in choice.servings
    )
    best, second = (printable(one.precision) for one in choice.servings[:2])
    lead, share = choice.lead, choice.share_of_bytes
    advice = f"fastest here: {best}, {lead:.2f}x the tokens/s of {second} at {share:.2f} of its bytes"
    headers = (printable(choice.work, _LONGEST_NAME), "first token", "next token", "p95", "tokens/s", "weights")
    return Table(headers, rows, (advice,))


def growth(series: Series) -> str:
    """The fitted exponent against the expected one, and what has to be said of small points."""
    fit = series.fit
    text = f"{series.axis}^{fit.exponent:.2f} ({fit.low:.2f} to {fit.high:.2f})"
    if series.expected is not None:
        text += f", expected {series.axis}^{series.expected:g}"
    if series.overhead_below is not None:
        text += f"; overhead-bound up to {series.axis}={series.overhead_below:g}"
    return f"{printable(f'{series.family}/{series.rest}', _LONGEST_NAME)}: {printable(text, _LONGEST_NAME)}"
