"""Draws the figures of a sweep as SVG text: runs and their Pareto front, and the effect of every axis."""

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from npuviz.base.units import format_count
from npuviz.workbench.sweep.analysis import Effect
from npuviz.workbench.sweep.results import SweepResults

WIDTH, HEIGHT = 640, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 18, 16, 48
_BAR = 26
DOT = "#4c8dd6"
FRONT = "#e0752e"


def number_text(value: float) -> str:
    """Format a number for display: whole ones with separators, others with four digits."""
    if not math.isfinite(value):
        return "\u2013"
    if value == int(value) and abs(value) < 1e15:
        return format_count(int(value))
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def is_logarithmic(values: np.ndarray) -> bool:
    """Return whether a logarithmic axis suits the numbers: all positive, the largest over 20 times the
    smallest."""
    known = values[np.isfinite(values)]
    return len(known) > 1 and float(known.min()) > 0 and float(known.max()) > 20 * float(known.min())


def ticks(low: float, high: float, logarithmic: bool) -> list[float]:
    """Return round numbers for the marks of an axis, all within [low, high]."""
    if logarithmic:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        steps = (1, 2, 5) if last - first <= 3 else (1,)
        found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        return [value for value in found if low <= value <= high]
    span = high - low or 1.0
    step = 10 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
    first = math.ceil(low / step)
    return [index * step for index in range(first, math.floor(high / step) + 1)]


class Scale:
    """Maps numbers to pixels."""

    def __init__(self, values: np.ndarray, begin: float, end: float) -> None:
        known = values[np.isfinite(values)]
        self.logarithmic = is_logarithmic(values)
        low, high = float(known.min()), float(known.max())
        if self.logarithmic:
            margin = (high / low) ** 0.05
            low, high = low / margin, high * margin
        else:
            margin = (high - low or abs(high) or 1.0) * 0.06
            low, high = low - margin, high + margin
        self.low, self.high = low, high
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        """Return the pixel of a number."""
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self._begin + share * (self._end - self._begin)


def scatter_svg(
    results: SweepResults, rows: Sequence[int], x_name: str, y_name: str, front: Sequence[int]
) -> str:
    """Draw every run as a dot and the front as a line; "" if no run has both numbers."""
    xs, ys = results.columns[x_name], results.columns[y_name]
    shown = [row for row in rows if np.isfinite(xs[row]) and np.isfinite(ys[row])]
    if not shown:
        return ""
    x_scale = Scale(xs[shown], _LEFT, WIDTH - _RIGHT)
    y_scale = Scale(ys[shown], HEIGHT - _BOTTOM, _TOP)
    parts = [_open(HEIGHT)]
    for value in ticks(x_scale.low, x_scale.high, x_scale.logarithmic):
        x = x_scale.at(value)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>')
        parts.append(_label(x, HEIGHT - _BOTTOM + 16, number_text(value), "middle"))
    for value in ticks(y_scale.low, y_scale.high, y_scale.logarithmic):
        y = y_scale.at(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_label(_LEFT - 6, y + 4, number_text(value), "end"))
    parts.append(_label((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 10, x_name, "middle"))
    parts.append(
        f'<text transform="translate(14 {(_TOP + HEIGHT - _BOTTOM) / 2:.0f}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_name)}</text>'
    )
    best = [row for row in front if row in set(shown)]
    path = " ".join(f"{x_scale.at(xs[row]):.1f},{y_scale.at(ys[row]):.1f}" for row in best)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{FRONT}" stroke-width="1.5"/>')
    chosen = set(best)
    for row in sorted(shown, key=lambda row: row in chosen):
        colour, size = (FRONT, 5) if row in chosen else (DOT, 3.5)
        text = f"{results.label(row)}: {x_name} {number_text(xs[row])}, {y_name} {number_text(ys[row])}"
        parts.append(
            f'<circle cx="{x_scale.at(xs[row]):.1f}" cy="{y_scale.at(ys[row]):.1f}" r="{size}" '
            f'fill="{colour}" fill-opacity="0.8"><title>{escape(text)}</title></circle>'
        )
    parts.append("</svg>")
    return "\n".join(parts)


def effects_svg(found: Sequence[Effect]) -> str:
    """Draw a row per axis: a bar from its lowest to its highest factor; "" without any effects."""
    known = [effect for effect in found if any(math.isfinite(factor) for factor in effect.factors)]
    if not known:
        return ""
    extreme = max(
        1.02, *(max(factor, 1 / factor) for each in known for factor in each.factors if math.isfinite(factor))
    )
    left, right = 170, WIDTH - 60
    height = _BAR * len(known) + 40

    def at(factor: float) -> float:
        return (left + right) / 2 + math.log(factor) / math.log(extreme) * (right - left) / 2

    parts = [_open(height)]
    for factor in sorted({1 / extreme, 1.0, extreme}):
        x = at(factor)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="8" y2="{height - 28}"/>')
        parts.append(_label(x, height - 12, f"\u00d7{factor:.3g}", "middle"))
    for index, effect in enumerate(known):
        y = 10 + index * _BAR
        pairs = [
            (factor, level)
            for factor, level in zip(effect.factors, effect.levels, strict=True)
            if math.isfinite(factor)
        ]
        low, high = min(pairs, key=lambda p: p[0]), max(pairs, key=lambda p: p[0])
        parts.append(_label(left - 8, y + 14, effect.axis, "end"))
        parts.append(
            f'<rect x="{at(low[0]):.1f}" y="{y + 3}" width="{max(1.0, at(high[0]) - at(low[0])):.1f}" '
            f'height="14" fill="{DOT}" fill-opacity="0.55"><title>{escape(effect.axis)}</title></rect>'
        )
        for factor, level in pairs:
            text = f"{effect.axis} = {level}: \u00d7{factor:.3f}"
            parts.append(
                f'<circle cx="{at(factor):.1f}" cy="{y + 10}" r="3.5" fill="{FRONT}">'
                f"<title>{escape(text)}</title></circle>"
            )
        parts.append(_label(right + 10, y + 14, f"\u00d7{effect.spread:.2f}", "start"))
    parts.append("</svg>")
    return "\n".join(parts)


def _open(height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12" fill="currentColor">'
        "<style>.grid{stroke:currentColor;stroke-opacity:.18}</style>"
    )


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
