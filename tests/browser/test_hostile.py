"""Text that agents and strangers wrote is shown, and never executed."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Link
from dibs.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk
    from support.board import Server, Visit

ATTACKS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<svg onload=alert(3)><iframe srcdoc='<script>parent.alert(3)</script>'></iframe></svg>",
    "[click](javascript:alert(4)) javascript:alert(4) ![x](https://evil.example/a.png)",
    "\"><style>@import 'https://evil.example/x.css'</style><a href=https://evil.example autofocus onfocus=alert(5)>",
    "${alert(6)} {{constructor.constructor('alert(6)')()}} %3Cscript%3Ealert(6)%3C/script%3E",
    '`<b>code</b>` **<i>bold</i>** https://evil.example/"onmouseover="alert(7)',
    "</title><base href='https://evil.example/'><meta http-equiv=refresh content='0;url=https://evil.example'>",
)
# Elements and attributes that are not the board's own, and links that lead elsewhere than to the web.
_FOREIGN = """() => {
  const all = [...document.querySelectorAll('*')];
  const loads = 'script, iframe, object, embed, base, style, img, meta[http-equiv], form[action]';
  const strange = all.filter(e => e.matches(loads) && e.getAttribute('src') !== './app.js');
  const awake = all.filter(e => [...e.attributes].some(a => a.name.startsWith('on')));
  const links = all.filter(e => e.matches('a') && !/^(https?:|[#]|[.][/])/.test(e.getAttribute('href')));
  return [...strange, ...awake, ...links].map(e => e.outerHTML);
}"""


def fill(desk: Desk) -> list[str]:
    """Hostile text in every field that users and agents can write."""
    ids = []
    for number, attack in enumerate(ATTACKS):
        task = f"x{number}"
        ids.append(task)
        line = attack.replace("\n", " ")
        desk.add(
            [
                Draft(
                    line,
                    id=task,
                    description=attack,
                    category=line[:90],
                    deliverable=line[:90],
                    steps=(attack,),
                    extra={line: attack},
                )
            ]
        )
        name = line[:100]
        claimed = desk.claim(name, refs=[task], run=name)[0].task
        token = claimed.lease.token if claimed.lease else None
        desk.comment(task, attack)
        if number % 3 == 0:
            desk.move(
                Verb.DONE,
                task,
                token=token,
                result={line: [attack]},
                artifacts=[attack, f"javascript:alert('{number}')"],
            )
        elif number % 3 == 1:
            desk.move(Verb.BLOCK, task, token=token, reason=attack, unblock_action=attack)
    desk.link([Link("x1", "x2"), Link("x4", "x2")])
    return ids


def test_hostile_text_of_tasks_is_only_text(desk: Desk, anna: Visit) -> None:
    ids = fill(desk)
    page = anna.at()
    for task in ids:
        panel = anna.open(task)
        expect(panel.locator("h2")).to_have_text(desk.get(task).title)
        assert page.evaluate(_FOREIGN) == []
        page.keyboard.press("Escape")
    for view, where in (("graph", {}), ("graph", {"as": "list"}), ("agents", {})):
        anna.at(view, **where)
        page.locator("main[aria-busy]").wait_for(state="detached")
        assert page.evaluate(_FOREIGN) == []
    anna.at("agents")
    expect(page.locator(".agents")).to_contain_text(ATTACKS[2][:40])


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(9)>", "javascript:alert(9)"])
def test_hostile_addresses_lead_nowhere(anna: Visit, text: str) -> None:
    page = anna.at("board", text=text, agent=text, category=text, task="none")
    expect(page.locator(".panel .trouble")).to_be_visible()
    assert page.evaluate(_FOREIGN) == []


def test_hostile_text_in_the_chat_is_only_text(anna: Visit) -> None:
    page = anna.at("chat")
    if page.locator("#sender").count():
        page.get_by_label("Your name").fill("<b onclick=alert(1)>anna")
        page.get_by_role("button", name="Begin").click()
    for attack in ATTACKS[:4]:
        page.get_by_label("Your message").fill(attack)
        page.get_by_role("button", name="Say", exact=True).click()
        expect(page.locator(".entry.mine").last).to_contain_text(attack[:14])
    assert page.evaluate(_FOREIGN) == []
    page.get_by_role("button", name="Switch sender").click()


def test_page_runs_only_its_own_scripts(anna: Visit) -> None:
    page = anna.at()
    answer = page.request.get(anna.server.url)
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    ran = page.evaluate(
        """() => { const script = document.createElement('script'); script.textContent = 'window.ran = true';
        document.body.append(script); return window.ran === true }"""
    )
    anna.trouble.clear()  # the browser complains, as it should
    assert not ran


def test_no_module_parses_text_as_html() -> None:
    """What the board never does cannot go wrong: no markup from strings, no code from strings."""
    static = files("dibs.serve.board") / "static"
    modules = {path.name: path.read_text(encoding="utf-8") for path in static.iterdir() if path.name.endswith(".js")}
    assert len(modules) > 20
    for name, source in modules.items():
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "eval(",
            "Function(",
        ):
            assert word not in source, (name, word)
        assert "dangerouslySetInnerHTML" not in source


def test_task_with_odd_id_is_held_under_an_odd_name(desk: Desk, server: Server, visit: Callable[..., Visit]) -> None:
    odd = "a,a/b?c#d%41&e=f\"'<g>;ü"
    with open_store(server.store) as store:  # no desk takes a new task with such an id; older ones keep theirs
        store.add(desk.scope, [Draft("Odd", id=odd)], [], desk.by)
    zoe = visit(name="Zoë 🦊")
    page = zoe.at("board", task=odd)
    page.locator(".panel").get_by_role("button", name="Claim it").click()
    expect(page.locator(".column.work .card")).to_contain_text("Zoë 🦊")
    assert desk.events(ref=odd)[-1].agent == "Zoë 🦊"
    page.keyboard.press("Escape")
    expect(page.locator(".column.work .card .title")).to_be_focused()
