"""What a model is told when it connects: how to work here, in the words that every agent is told it in."""

from __future__ import annotations

from dibs.fleet.instructions import RULES

_HERE = """\
Here the tools do this for you: leases are renewed by themselves. `what_next` looks, `claim` takes, `finish` with
next=true goes on. `news` in an answer says what you have lost meanwhile. An error has a code and says what to do next.
"""
ON_STDIO = f"""{RULES}
{_HERE}You need not carry tokens: the session knows what you hold. Keep that of a claim in mind only for this: after a
restart, `progress` with task and token takes the task up again.
"""
OVER_HTTP = f"""{RULES}
{_HERE}Give task and token, as `claim` told them, with every call about what you hold, and call `progress` at least
every half hour, or you are taken to be gone.
"""
