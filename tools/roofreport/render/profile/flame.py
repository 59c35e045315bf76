# SPDX-License-Identifier: Apache-2.0
"""A flame graph of the parts of a model, as one SVG: what is inside a part hangs under it, as wide as its time."""

from __future__ import annotations

from roofreport import units
from roofreport.io.profile import Part, Profile
from roofreport.render.svg import escape

_WIDTH, _ROW, _HEAD, _LETTER = 1200.0, 22, 34, 6.6
_DEEPEST = 100  # ranges inside ranges
_LEAST = 0.3  # of a pixel: narrower parts are left out
_COLOURS = ("#f2b56b", "#ee9f5f", "#e8895a", "#f0c27e", "#e5a86a")


def _box(part: Part, left: float, width: float, whole: float) -> str:
    label = part.name or "step"
    room = int((width - 6) / _LETTER)
    shown = label if len(label) <= room else f"{label[: room - 1]}…" if room > 3 else ""
    top = _HEAD + part.depth * _ROW
    share = f"{100 * part.total / whole:.1f} %" if whole > 0 else ""
    title = escape(f"{part.path or 'step'}: {units.time(part.total)}, {share}")
    colour = _COLOURS[sum(map(ord, label)) % len(_COLOURS)]
    return (
        f'<g><title>{title}</title><rect x="{left:.2f}" y="{top}" width="{max(width - 0.5, 0.1):.2f}"'
        f' height="{_ROW - 1}" fill="{colour}"/><text x="{left + 3:.2f}" y="{top + 15}">{escape(shown)}</text></g>'
    )


def document(profile: Profile) -> str:
    """Self-contained: no script, no font and no link."""
    inside: dict[str, list[Part]] = {}
    for part in profile.parts[1:]:
        around = part.path.rsplit("/", 1)[0] if "/" in part.path else ""
        inside.setdefault(around, []).append(part)
    boxes: list[str] = []
    whole = profile.parts[0].total

    def place(part: Part, left: float) -> None:
        width = _WIDTH * part.total / whole if whole > 0 else 0.0
        if width < _LEAST or part.depth > _DEEPEST:
            return
        boxes.append(_box(part, left, width, whole))
        for child in inside.get(part.path, []):
            place(child, left)
            left += _WIDTH * child.total / whole

    place(profile.parts[0], 0)
    height = _HEAD + _ROW * (1 + min(_DEEPEST, max(part.depth for part in profile.parts))) + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height}"'
        ' font-family="monospace" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<text x="3" y="20" font-size="13">{escape(profile.case)}: {escape(units.time(whole))} a step</text>\n'
        + "\n".join(boxes)
        + "\n</svg>\n"
    )
