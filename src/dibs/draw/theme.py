"""How the SVG looks: one style sheet for light and dark, the heads of the arrows, and an icon per status."""

from __future__ import annotations

from dibs.draw.palette import CRITICAL, LOOKS, PART_OF

_SANS = "ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'Noto Sans',sans-serif"
_MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

_SHAPES = f"""
text{{font-family:{_SANS};font-size:13px;unicode-bidi:plaintext}}
.title{{font-weight:600}}
.word{{font-size:11.5px;font-weight:600;fill:currentColor}}
.id{{font-family:{_MONO};font-size:11px;text-anchor:end}}
.head{{font-size:17px;font-weight:700}}
.note{{font-size:12px;font-weight:400}}
.box{{stroke-width:1.25}}
.bar{{fill:currentColor}}
.waits .box{{stroke-dasharray:5 4}}
.waits .bar{{opacity:0}}
.critical .box{{stroke-width:2.5}}
.line{{fill:none;stroke-width:1.5}}
.feeds_into{{stroke-dasharray:7 5}}
.parallel_ok{{stroke-dasharray:.1 6;stroke-width:2.25;stroke-linecap:round}}
.line.critical{{stroke-width:2.75}}
"""

_COLOURS = """
.canvas{fill:%(canvas)s}
.box{fill:%(card)s;stroke:%(border)s}
.title,.head{fill:%(ink)s}
.id,.note{fill:%(faint)s}
.line,.rule{stroke:%(line)s}
.arrow{fill:%(line)s}
.part_of{stroke:%(part_of)s}
.diamond{fill:%(canvas)s;stroke:%(part_of)s}
.waits .box{fill:%(canvas)s;stroke:%(line)s}
.waits .title,.done .title,.canceled .title{fill:%(faint)s}
.critical .title{fill:%(ink)s}
.critical .box,.line.critical{stroke:%(critical)s}
.arrow.critical{fill:%(critical)s}
"""
_LIGHT = {
    "canvas": "#f8fafc",
    "card": "#ffffff",
    "border": "#d5dde8",
    "ink": "#0f172a",
    "faint": "#5b6b80",
    "line": "#94a3b8",
    "part_of": PART_OF.light,
    "critical": CRITICAL.light,
}
_DARK = {
    "canvas": "#0b0f17",
    "card": "#161d2b",
    "border": "#2d3a4f",
    "ink": "#f1f5f9",
    "faint": "#94a3b8",
    "line": "#56657c",
    "part_of": PART_OF.dark,
    "critical": CRITICAL.dark,
}

MARKERS = (
    '<marker id="dibs-{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9"'
    ' markerUnits="userSpaceOnUse" orient="auto"><path class="{looks}" d="{shape}"/></marker>'
)
_HEAD, _DIAMOND = "M0 .8 9.4 5 0 9.2 2.4 5z", "M.8 5 5 2 9.2 5 5 8z"

# Drawn in a square of 16, in the colour of the status. A ring fills up as the work goes on.
_RING = '<circle cx="8" cy="8" r="6.25" fill="none" stroke="currentColor" stroke-width="1.75"{}/>'
_DISC = '<circle cx="8" cy="8" r="7" fill="currentColor"/>'
_CUT = '<path d="{}" fill="none" stroke="#fff" stroke-width="1.9" stroke-linecap="round" stroke-linejoin="round"/>'
_INK = '<path d="{}" fill="{}" stroke="currentColor" stroke-width="1.75" stroke-linecap="round"/>'
_ICONS = {
    "backlog": _RING.format(' stroke-dasharray="1.6 2.33"'),
    "ready": _RING.format(""),
    "waiting": _RING.format(' stroke-opacity=".55"') + _INK.format("M8 4.8V8l2.1 1.5", "none"),
    "active": _RING.format("") + '<path d="M8 4.2a3.8 3.8 0 0 1 0 7.6z" fill="currentColor"/>',
    "review": _RING.format("") + '<path d="M8 8V4.2A3.8 3.8 0 1 1 4.2 8z" fill="currentColor"/>',
    "paused": _RING.format("") + _INK.format("M6.4 5.9v4.2M9.6 5.9v4.2", "none"),
    "blocked": _DISC + _CUT.format("M4.8 8h6.4"),
    "escalated": _DISC + _CUT.format("M8 4.4v4.2M8 11.4v.1"),
    "done": _DISC + _CUT.format("M4.9 8.3 7.1 10.4 11.1 5.9"),
    "canceled": _DISC + _CUT.format("M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8"),
}


def style_sheet() -> str:
    light = _COLOURS % _LIGHT + "".join(f".{look.name}{{color:{look.accent.light}}}\n" for look in LOOKS.values())
    dark = _COLOURS % _DARK + "".join(f".{look.name}{{color:{look.accent.dark}}}\n" for look in LOOKS.values())
    night = f"@media (prefers-color-scheme:dark){{{_scoped(dark)}}}"
    return f"<style>{_scoped(_SHAPES)}{_scoped(light)}{night}</style>"


def _scoped(rules: str) -> str:
    """Bind every rule to the drawing: it may stand inside a page that has styles of its own."""
    bound = []
    for rule in rules.split("\n"):
        selectors, brace, body = rule.partition("{")
        scoped = ",".join(f".dibs-graph {selector}" for selector in selectors.split(",") if selector)
        bound.append(scoped + brace + body)
    return "\n".join(bound)


def definitions() -> str:
    markers = (
        MARKERS.format(name=name, looks=looks, shape=shape)
        for name, looks, shape in (
            ("arrow", "arrow", _HEAD),
            ("arrow-critical", "arrow critical", _HEAD),
            ("diamond", "diamond", _DIAMOND),
        )
    )
    icons = (f'<symbol id="dibs-{name}" viewBox="0 0 16 16">{shape}</symbol>' for name, shape in _ICONS.items())
    return f"<defs>{''.join(markers)}{''.join(icons)}</defs>"
