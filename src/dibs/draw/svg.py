"""A graph as a standalone picture: columns of cards from left to right, for light and dark pages."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from dibs.draw.layout import CARD_HEIGHT, CARD_WIDTH, HEAD, MARGIN, scene
from dibs.draw.picture import (
    CRITICAL,
    LINES,
    LOOKS,
    PART_OF,
    WAITING,
    EdgeKind,
    cells,
    in_lines,
    picture,
    shortened,
    showable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.graph import Graph
    from dibs.draw.picture import Edge, Node, Picture


_PAD, _NARROWEST = 16, 480
_TITLE_EMS, _WORD_EMS, _ID_CELLS = 15.6, 9.0, 12
_NARROW, _SLIM, _BROAD = frozenset("ijl.,:;'|!I`"), frozenset('frt()[]{}/\\-" '), frozenset("mwMW@%")


def svg(graph: Graph) -> str:
    drawn = picture(graph)
    laid = scene(drawn)
    width = max(laid.width, _NARROWEST)
    key, bottom = legend(drawn, width, laid.bottom + 44)
    lines = sorted(zip(drawn.edges, laid.paths, strict=True), key=lambda line: line[0].critical)
    return "\n".join(
        [
            _opening(drawn, width, bottom + 30),
            style_sheet(),
            definitions(),
            '<rect class="canvas" width="100%" height="100%" rx="16"/>',
            _heading(drawn),
            *(_line(edge, path) for edge, path in lines),
            *(_text("note", MARGIN, top, "On their own") for top in laid.notes),
            *(_card(node, *laid.cards[node.task.id]) for node in drawn.nodes),
            *key,
            "</svg>",
        ]
    )


def _opening(drawn: Picture, width: float, height: float) -> str:
    attributes = {
        "xmlns": "http://www.w3.org/2000/svg",
        "class": "dibs-graph",
        "role": "img",
        "aria-label": f"Task graph: {', '.join(_counts(drawn))}",
        "width": f"{width:.0f}",
        "height": f"{height:.0f}",
        "viewBox": f"0 0 {width:.0f} {height:.0f}",
    }
    return "<svg " + " ".join(f'{name}="{value}"' for name, value in attributes.items()) + ">"


def _heading(drawn: Picture) -> str:
    finished = sum(node.task.finished for node in drawn.nodes)
    chain = sum(node.critical for node in drawn.nodes)
    said = [f"{finished} finished"] if finished else []
    said += [f"longest open chain {chain}"] if chain else []
    note = f'<tspan class="note" dx="12">{" · ".join(said)}</tspan>' if said else ""
    return f'<text class="head" x="{MARGIN}" y="{HEAD - 26}">{_counts(drawn)[0]}{note}</text>'


def _counts(drawn: Picture) -> list[str]:
    count = len(drawn.nodes)
    if not count:
        return ["No tasks"]
    looks = [node.look for node in drawn.nodes]
    found = [f"{looks.count(look)} {look}" for look in LOOKS if look in looks]
    return ["1 task" if count == 1 else f"{count} tasks", *found]


def _line(edge: Edge, path: str) -> str:
    looks = f"line {edge.kind}{' critical' * edge.critical}"
    said = f"{_escaped(edge.first)} {LINES[edge.kind]} {_escaped(edge.then)}"
    return f'<path class="{looks}" d="{path}"{head(edge.kind, critical=edge.critical)}><title>{said}</title></path>'


def _card(node: Node, x: float, y: float) -> str:
    looks = f"card {node.look}{' waits' * node.waits}{' critical' * node.critical}"
    titles = in_lines(node.task.title, _TITLE_EMS, 2, _ems)
    top = 46 if len(titles) > 1 else 52
    parts = [
        f'<g class="{looks}" transform="translate({x:g} {y:.1f})" data-task="{_escaped(node.task.id)}">',
        f"<title>{_escaped(node.task.title)}\n{_escaped(_details(node))}</title>",
        f'<rect class="box" width="{CARD_WIDTH}" height="{CARD_HEIGHT}" rx="10"/>',
        f'<rect class="bar" x="1" y="12" width="3" height="{CARD_HEIGHT - 24}" rx="1.5"/>',
        f'<use href="#dibs-{node.look}" x="{_PAD}" y="13" width="14" height="14"/>',
        _text("word", _PAD + 21, 24, shortened(_word(node), _WORD_EMS, _ems)),
        _text("id", CARD_WIDTH - _PAD, 24, shortened(node.task.id, _ID_CELLS)),
        *(_text("title", _PAD, top + 17 * at, line) for at, line in enumerate(titles)),
        "</g>",
    ]
    return "".join(parts)


def _word(node: Node) -> str:
    """The status, and the one thing more that one wants to know about it."""
    if node.look == WAITING:
        return f"Waiting for {node.task.blockers}"
    who = f" · {node.task.lease.agent}" if node.task.lease is not None else ""
    return LOOKS[node.look].word + who


def _details(node: Node) -> str:
    waits = f" · waits for {', '.join(node.waits_for)}" if node.waits_for else ""
    return f"{node.task.id} · {node.task.status}{waits}"


def _text(looks: str, x: float, y: float, words: str) -> str:
    return f'<text class="{looks}" x="{x:g}" y="{y:g}">{_escaped(words)}</text>'


def _escaped(text: str) -> str:
    return escape(showable(text))


def _ems(char: str) -> float:
    """About how wide a character is, in a typical sans-serif."""
    if not char.isascii():
        return cells(char) * 0.62
    if char in _NARROW:
        return 0.29
    if char in _SLIM:
        return 0.38
    if char in _BROAD:
        return 0.92
    return 0.7 if char.isupper() else 0.59


_ROW, _LETTER, _SPACE = 24, 6.4, 22

HEADS = {
    EdgeKind.BLOCKS: "dibs-arrow",
    EdgeKind.FEEDS_INTO: "dibs-arrow",
    EdgeKind.PART_OF: "dibs-diamond",
}


class Entry(NamedTuple):
    sign: str
    sign_width: int
    words: str

    @property
    def width(self) -> float:
        return self.sign_width + len(self.words) * _LETTER + _SPACE


def legend(drawn: Picture, width: float, top: float) -> tuple[list[str], float]:
    """The elements, and the height at which they end."""
    found = []
    x, y = float(MARGIN), top
    for entry in _legend_entries(drawn):
        if x + entry.width > width - MARGIN and x > MARGIN:
            x, y = float(MARGIN), y + _ROW
        words = f'<text class="note" x="{entry.sign_width}" y="4">{entry.words}</text>'
        found.append(f'<g transform="translate({x:g} {y:g})">{entry.sign}{words}</g>')
        x += entry.width
    return found, y if found else top - _ROW


def _legend_entries(drawn: Picture) -> Iterator[Entry]:
    looks = Counter(node.look for node in drawn.nodes)
    for look in LOOKS.values():
        if look.name in looks:
            icon = f'<use class="{look.name}" href="#dibs-{look.name}" y="-7" width="14" height="14"/>'
            yield Entry(icon, 20, f"{look.word} {looks[look.name]}")
    kinds = {edge.kind for edge in drawn.edges}
    for kind, words in LINES.items():
        if kind in kinds:
            yield Entry(f'<path class="line {kind}" d="M0 0H30"{head(kind)}/>', 38, words)
    if any(node.critical for node in drawn.nodes):
        arrow = head(EdgeKind.BLOCKS, critical=True)
        yield Entry(f'<path class="line critical" d="M0 0H30"{arrow}/>', 38, "longest open chain")


def head(kind: EdgeKind, *, critical: bool = False) -> str:
    """What a line ends in, as an attribute."""
    if kind not in HEADS:
        return ""
    emphasis = "-critical" if critical and kind is not EdgeKind.PART_OF else ""
    return f' marker-end="url(#{HEADS[kind]}{emphasis})"'


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
    """Bind every rule to the drawing, because it may be embedded in a page with other styles."""
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
