"""The parts of a case's name: family/axis:value/axis:value."""

from __future__ import annotations

MANUAL_TIME = "/manual_time"


def plain(name: str) -> str:
    """Without what Google Benchmark appends to cases with manual time."""
    return name.removesuffix(MANUAL_TIME)


def family(name: str) -> str:
    return name.split("/", 1)[0]


def axes(name: str) -> dict[str, str]:
    """Axis to value, in the order of the name."""
    parts = (part.partition(":") for part in name.split("/")[1:])
    return {axis: value for axis, colon, value in parts if colon}


def with_axis(name: str, axis: str, value: str) -> str:
    """The same case with another value of one axis."""
    return "/".join(f"{axis}:{value}" if part.startswith(f"{axis}:") else part for part in name.split("/"))


def without(name: str, part: str) -> str:
    """The name without `part`, an axis:value."""
    return "/".join(piece for piece in name.split("/") if piece != part)
