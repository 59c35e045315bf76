# SPDX-License-Identifier: Apache-2.0
"""The parts of a case's name: family/axis:value/axis:value."""

from __future__ import annotations

from roofreport.io.contract import Contract

MANUAL_TIME = "/manual_time"
# Axes that mean the same in every family.
DTYPE = "dtype"  # what tensors are stored and computed in
PRECISION = "precision"  # the format of weights
MODEL = "model"
CHECKPOINT = "checkpoint"  # the model of --checkpoint
PASS = "pass"  # forward, backward, … of a model or an operation
_EXPERIMENT = "experiment"  # a published one, which has the format of its weights in its name
_FORMATS = frozenset({"bf16", "fp16", "int8"})


def plain(name: str) -> str:
    """Without what Google Benchmark appends to cases with manual time."""
    return name.removesuffix(MANUAL_TIME)


def family(name: str) -> str:
    return name.split("/", 1)[0]


def axes(name: str) -> dict[str, str]:
    """Axis to value, in the order of the name."""
    parts = (part.partition(":") for part in name.split("/")[1:])
    return {axis: value for axis, colon, value in parts if colon}


def all_axes(name: str, contract: Contract) -> dict[str, str]:
    """Also those that the name omits because they have their family's default."""
    known = contract.families.get(family(name))
    defaults = {axis.name: axis.default for axis in known.axes if axis.default is not None} if known else {}
    return {**axes(name), **{axis: value for axis, value in defaults.items() if axis not in axes(name)}}


def value_of(name: str, axis: str, contract: Contract) -> str | None:
    """The value of an axis, from the name or its family's default; None where the case does not have the axis."""
    value = axes(name).get(axis)
    if value is not None:
        return value
    known = contract.families.get(family(name))
    spec = known.axis(axis) if known else None
    return spec.default if spec else None


def dtype(name: str, contract: Contract) -> str:
    """The type that tensors or weights are stored in; empty where the case does not say."""
    stored = value_of(name, DTYPE, contract) or value_of(name, PRECISION, contract)
    words = axes(name).get(_EXPERIMENT, "").split("_")
    return stored or next((word for word in words if word in _FORMATS), "")


def with_axis(name: str, axis: str, value: str) -> str:
    """The same case with another value of one axis."""
    return "/".join(f"{axis}:{value}" if part.startswith(f"{axis}:") else part for part in name.split("/"))


def without_axis(name: str, axis: str) -> str:
    """The name without an axis and its value."""
    return "/".join(piece for piece in name.split("/") if not piece.startswith(f"{axis}:"))


def with_role(name: str, role: str, contract: Contract) -> tuple[str, str]:
    """The name without the axis that has a role in its family, and that axis' value, given or by default; empty where
    the axis is missing.
    """
    axis = contract.axis_with_role(family(name), role)
    if axis is None:
        return name, ""
    return without_axis(name, axis.name), axes(name).get(axis.name) or axis.default or ""
