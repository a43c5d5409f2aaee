"""A graph as a picture of its own: columns of cards from left to right, for light and dark pages alike."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dibs.draw.legend import head, legend
from dibs.draw.palette import LINES, LOOKS
from dibs.draw.picture import WAITING, picture
from dibs.draw.scene import CARD_HEIGHT, CARD_WIDTH, HEAD, MARGIN, scene
from dibs.draw.theme import definitions, style_sheet
from dibs.draw.wording import cells, in_lines, shortened, showable

if TYPE_CHECKING:
    from dibs.draw.picture import Edge, Node, Picture
    from dibs.core.graph import Graph

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
