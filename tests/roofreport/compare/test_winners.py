# SPDX-License-Identifier: Apache-2.0
"""The fastest implementation of each piece of work."""

from __future__ import annotations

import builders
import pytest
from roofreport.compare import axes
from roofreport.io import contract
from roofreport.io.result import Case, State


def _measured(name: str, seconds: float, roof: float | None = None) -> Case:
    return Case(name, 0, State.MEASURED, seconds=seconds, counters={} if roof is None else {"roof": roof})


def test_they_are_the_fastest_of_what_differs_in_its_implementation_alone() -> None:
    found = axes.winners(
        [
            _measured("norm/impl:eager/dtype:bf16/d:1", 3e-3, 0.2),
            _measured("norm/impl:eager/dtype:bf16/d:2", 4e-3, 0.3),
            _measured("mlp/dtype:bf16", 1e-3, 0.5),
            _measured("norm/impl:native/dtype:bf16/d:1", 1e-3, 0.6),
            _measured("norm/impl:onednn/dtype:bf16/d:1", 2e-3, 0.3),
            _measured("copy/impl:eager", 2e-3, 0.7),
            _measured("copy/impl:stream", 2.5e-3, 0.6),
        ],
        contract.packaged(),
    )
    assert [one.work for one in found] == ["norm/dtype:bf16/d:1", "copy"]
    norm, copy = found
    assert (norm.implementation, norm.runner_up, norm.roof) == ("native", "onednn", 0.6)
    assert norm.lead == pytest.approx(2)
    assert norm.ranking[-1] == "norm/impl:eager/dtype:bf16/d:1"
    assert copy.implementation == "eager"


def test_a_default_implementation_is_not_in_the_name() -> None:
    described = builders.family("gelu", builders.axis("by", default="eager", role="impl"), builders.axis("n"))
    found = axes.winners(
        [_measured("gelu/n:1", 2e-3), _measured("gelu/by:native/n:1", 1e-3), _measured("other/n:1", 1.0)],
        contract.parse(builders.contract(described)),
    )
    assert [(one.work, one.implementation, one.runner_up) for one in found] == [("gelu/n:1", "native", "eager")]


def test_cases_that_did_not_run_do_not_count() -> None:
    cases = [Case("norm/impl:eager/d:1", 0, State.FAILED), _measured("norm/impl:native/d:1", 1e-3, 0.5)]
    assert axes.winners(cases, contract.packaged()) == []


@pytest.mark.parametrize(
    ("roof", "left"),
    [
        (0.625, "62.5 % of the roof, 37.5 % left"),
        (None, "no roof known"),
        (1.02, "102.0 % of the roof, nothing left"),
    ],
)
def test_what_is_left(roof: float | None, left: str) -> None:
    cases = [_measured("norm/impl:a/d:1", 3e-3, roof), _measured("norm/impl:b/d:1", 1e-3, roof)]
    (found,) = axes.winners(cases, contract.packaged())
    assert found.left == left
