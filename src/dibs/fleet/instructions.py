"""How an agent works through the desk, told once: whoever takes agents on board says it in these words."""

from __future__ import annotations

RULES = """\
Work comes from dibs, a desk that several agents share: one task, one holder.

- Claim a task before you work on it, and work on nothing that you have not claimed.
- A claim is a lease: renew it before half of it is over. Its token is your proof; keep it to yourself.
- LOST_LOCK: the task is another's by now. Stop, write nothing more of it, and claim anew.
- Finish with what came out and where it is; whoever waits for your task reads that.
- You need help: block the task, and say who has to do what. A person has to judge it: review.
- Further work: add it, with what it waits for, instead of doing it on the side.
- NOTHING_READY: wait, or stop. What others hold is never yours to take.
"""

COMMANDS = """\
    dibs claim
    dibs renew ID --token T
    dibs done ID --token T --note "…" --next
    dibs fail ID --token T --reason "…"
    dibs block ID --token T --reason "…" --action "…"
    dibs review ID --token T --note "…"
    dibs add "…" --blocked-by ID

DIBS_AGENT is your name. Exit status 4: not now; 5: LOST_LOCK. Never use --force.
"""

INSTRUCTIONS = f"{RULES}\n{COMMANDS}"
