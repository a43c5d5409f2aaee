"""The work itself, in a task: live output, attempts, branch and diff, inputs, comments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Edit, Link

if TYPE_CHECKING:
    from dibs.desk import Desk
    from support.board import Visit

DIFF = """diff --git a/tide.py b/tide.py
index 1..2 100644
--- a/tide.py
+++ b/tide.py
@@ -1,2 +1,2 @@
 import csv
-print("<b>old</b>")
+print("<i>new</i>")
diff --git a/long.txt b/long.txt
new file mode 100644
--- /dev/null
+++ b/long.txt
@@ -0,0 +1,300 @@
""" + "".join(f"+line {number}\n" for number in range(300))


def claimed(desk: Desk, task: str, agent: str = "bob") -> str:
    lease = desk.claim(agent, refs=[task])[0].task.lease
    assert lease is not None
    return lease.token


def test_output_is_live_and_kept_per_attempt(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash")])
    token = claimed(desk, "ash")
    desk.append_output("ash", token, 0, "first attempt\n")
    desk.move(Verb.FAIL, "ash", token=token, reason="Tests fail")
    token = claimed(desk, "ash", "ann")
    end = desk.append_output("ash", token, 0, "\x1b[32mcompiling\x1b[0m <script>alert(1)</script>\n")
    anna.at()
    panel = anna.open("ash")
    log = panel.get_by_role("log")
    expect(log).to_have_text("compiling <script>alert(1)</script>\n")
    expect(panel.locator(".output .live")).to_be_visible()
    desk.append_output("ash", token, end, "10 %\r90 %\rlinked\n")
    expect(log).to_contain_text("linked")
    expect(log).not_to_contain_text("90 %")
    expect(panel.locator(".attempts li").nth(1)).to_contain_text("failed")
    panel.get_by_role("button", name="Show the output of attempt 1").click()
    expect(log).to_have_text("first attempt\n")
    panel.get_by_label("Attempt", exact=True).select_option("2")
    expect(log).to_contain_text("linked")
    desk.move(Verb.DONE, "ash", token=token)
    expect(panel.locator(".output .live")).to_have_count(0)


def test_diffs_are_drawn_file_by_file_with_long_ones_folded(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash", description=f"As in\n\n```diff\n{DIFF}```\n")])
    desk.edit("ash", Edit(extra={"git": {"branch": "dibs/ash", "files": 2, "insertions": 301, "deletions": 1}}))
    page = anna.at()
    page.route("**/tasks/ash/diff*", lambda route: route.fulfill(json={"diff": DIFF}))
    panel = anna.open("ash")
    panel.get_by_role("button", name="Show the diff").click()
    diff = panel.locator("section:has(#branch) .diff")
    expect(diff).to_contain_text("2 files · +301")
    expect(diff.locator("span.added", has_text="<i>new</i>")).to_be_visible()
    expect(diff.locator("details").nth(1)).not_to_have_attribute("open", "")
    diff.locator("summary").nth(1).press("Enter")
    expect(diff.locator("span.added", has_text="line 299")).to_be_attached()
    expect(panel.locator(".prose .diff summary")).to_have_count(2)


def test_inputs_of_finished_prerequisites_and_comments_in_markdown(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash"), Draft("Birch", id="birch")], [Link("birch", "ash")])
    desk.move(Verb.DONE, "ash", token=claimed(desk, "ash"), result={"summary": "Use **UTC**."}, artifacts=("tide.py",))
    page = anna.at()
    panel = anna.open("birch")
    panel.locator(".input summary").click()
    expect(panel.locator(".input strong")).to_have_text("UTC")
    expect(panel.locator(".input")).to_contain_text("tide.py")
    panel.get_by_label("Comment", exact=True).fill("See `tide.py` and <img src=x onerror=alert(1)>")
    page.keyboard.press("Control+Enter")
    expect(panel.locator(".history code")).to_have_text("tide.py")
    expect(panel.locator(".history")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(panel.locator(".history img")).to_have_count(0)
