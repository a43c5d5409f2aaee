"""What `ntask prime` prints: what an agent has to know to pull tasks without getting in anybody's way."""

GUIDANCE = """\
## Pulling tasks with ntask

Every `ntask` command prints one JSON object: `{"ok": true, ...}`, or `{"ok": false, "error": {"code", "message"}}`.
Act on the exit status and on `error.code`; the message says what to do.

1. `ntask next` names the one task to take. Take that one, not another. `"task": null` means that there is nothing to do
   now: wait 30 s, then 60, 120 and 240 s between further tries.
2. `ntask claim TASK-42 --run-id RUN --agent-name NAME` takes it. Keep `task.lock_token` of the answer; it is shown
   only here. A claim can take some seconds. Do not begin before it has answered `"ok": true`.
3. While you work: `ntask heartbeat TASK-42 --run-id RUN --lock-token TOKEN` at half of the lease, so every 10 minutes
   of the usual 20.
4. End it with exactly one of these, each with `--run-id RUN --lock-token TOKEN`:
   - `ntask complete TASK-42 --artifacts "links, commits, a summary"`
   - `ntask review TASK-42 --artifacts "what to look at"` when a person should see it first
   - `ntask block TASK-42 --reason "..." --unblock-action "what someone has to do" --next-check 2026-01-31T12:00:00Z`
   - `ntask release TASK-42` to give it back, `ntask cancel TASK-42 --reason "..."` to call it off

| Exit | `error.code` | What to do |
|---|---|---|
| 0 | | Go on. |
| 2 | CONFLICT | Someone else has it. Wait `error.retry_after_ms`, then `ntask next` again. Never insist on a task. |
| 3 | MISCONFIGURED, CLI_MISSING | Stop and tell a person; `ntask doctor` says what is missing. |
| 3 | MISCONFIGURED, and `task.status` is DONE or CANCELED | It was over before you came: `ntask next` again. |
| 3 | INCOMPLETE_SUBTASKS | Finish or cancel the sub-tasks first; the task is still yours. |
| 4 | LOST_LOCK | The task is no longer yours. Stop at once, write nothing more about it, then `ntask next`. |
| 5 | API_ERROR | Try again after 2, 4 and 8 s. If it goes on and you hold a lock, `block` the task when you can. |

An API_ERROR of `claim` may carry `task.lock_token`: the claim was written but not confirmed. Do not work on it; ask
with `heartbeat` whether it is yours, or give it back with `release`.

Rules without exception: no work without a lock that was confirmed; a person who takes a task over has it; the lock
token goes into no log, no comment and no message.
"""
