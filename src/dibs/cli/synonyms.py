"""Tables of typed words, sentences and options, each with the command that it means.

Used only after a command line was invalid. `SAME` words run the command. For `NEAR` words, which are similar or
harmful, the answer only names the command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ME = "@me"  # the caller


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _by_word(table: Mapping[str, str]) -> dict[str, str]:
    return {word: meant for words, meant in table.items() for word in words.split()}


# The same thing by another name.
SAME = _by_word({
    "ls l ll dir lst tasks issues tickets todos items jobs task issue ticket todo item job": "list",
    "new create make insert enqueue submit-task addtask add-task new-task create-task add-subtask": "add",
    "take start begin pick grab checkout switch acquire lock dequeue lease own pickup": "claim",
    "finish complete completed finished resolve resolved end do did mark-done markdone fixed finalize": "done",
    "view get cat describe info details detail inspect display open-task explain where whereis result why": "show",
    "find grep rg query lookup locate": "search",
    "update set modify mod change patch alter move mv transition set-status set-priority": "edit",
    "note annotate remark append add-comment add-note reply": "comment",
    "history events audit journal journalctl activity tail changes timeline reflog blame recent today feed": "log",
    "watch monitor htop live dashboard follow": "top",
    "tree dag diagram chart dot mermaid deps dependencies": "graph",
    "agents workers team members crew": "agent list",
    "whoami me home overview summary dash st standup daily digest": "status",
    "browse": "open",
    "mine my my-tasks mytasks holding": "list --held-by @me",
    "who busy active doing wip inprogress in-progress in_progress current started running ps locks leases":
        "list --status active",
    "blocked stuck blockers": "list --status blocked",
    "closed finished-tasks completed-tasks": "list --status done",
    "escalated": "list --status escalated",
    "paused": "list --status paused",
    "reviews reviewing in-review": "list --status review",
    "canceled cancelled": "list --status canceled",
    "backlog icebox later someday": "list --status backlog",
    "worktrees wt": "worktree list",
    "tokens": "token list",
    "webhooks": "webhook list",
    "settings preferences prefs options conf configure": "config",
    "completions autocomplete": "completion",
    "waiting pending unfinished": "list",
    "all everything lsa listall list-all": "list --all",
    "available claimable workable queue runnable": "ready",
    "peek whatsnext whats-next what-next next-task": "next",
    "stat count counts statistics metrics numbers progress": "stats",
    "leaderboard scoreboard ranking": "scores",
    "overdue expired zombies forgotten": "stale",
    "stop unclaim give-up giveup abandon return unlock yield putback put-back unstart": "release",
    "extend heartbeat keepalive keep-alive touch refresh": "renew",
    "accept lgtm sign-off signoff": "approve",
    "reject decline request-changes send-back sendback": "rework",
    "hold suspend defer postpone freeze park snooze": "pause",
    "unpause continue unhold unfreeze thaw": "resume",
    "depend depends dep needs add-dependency dep-add depends-on requires": "link",
    "undepend remove-dependency dep-remove dep-rm": "unlink",
    "retry requeue unstick": "unblock",
    "re-open restart redo undone unclose unfinish uncomplete": "reopen",
    "give delegate reassign": "assign",
    "failed error": "fail",
    "apply": "plan",
    "dump": "export",
    "load": "import",
    "fsck health diagnose diagnostics check ping verify": "doctor",
    "install connect onboard integrate": "setup",
    "server daemon http web-server": "serve",
    "ask tell chat message": "say",
    "loop worker": "work",
    "initialize initialise": "init",
    "ver about": "version",
    "usage man commands guide manual examples tutorial quickstart cheatsheet topics faq": "help",
    "request-review submit": "review",
    "revert rollback": "undo",
})  # fmt: skip

# Close, but not the same, or with an effect that no guess may have: word → command to suggest, and why.
NEAR = {
    "delete rm remove del trash discard destroy wontfix abort kill": (
        "cancel", "dibs does not delete tasks: it cancels them and keeps the record",
    ),
    "drop": ("release", "'release' gives a task back, 'cancel' ends it for good"),
    "board web ui gui browser kanban": ("serve --open", "the board is a web page that 'dibs serve' shows"),
    "gc clean cleanup purge vacuum compact": ("prune --events 90d", "'prune' deletes old events for good"),
    "archive": ("list", "finished tasks leave the list by themselves; 'dibs list --all' shows them"),
    "repair": ("doctor --fix", "'doctor' checks the store"),
    "commit": ("add", "dibs keeps tasks, not files"),
    "push pull": ("claim", "there is nothing to push or pull: agents claim tasks"),
    "bump prioritize prioritise": ("edit ID --first", "the order of tasks is a matter of 'edit'"),
    "unassign": ("edit ID --clear assigned_to", "the assignee is a field of the task"),
    "subtask": ("add TITLE --parent ID", "a part is a task with a parent"),
    "reset wipe clear": ("init", "dibs does not wipe a store; remove the folder .dibs yourself, or start another"),
    "run exec spawn": ("work -- COMMAND", "'work' runs a command on each task"),
    "sql select psql sqlite3": ("list --all --json", "tasks are listed, not queried"),
    "signup logout auth": ("token create", "a local store has no login; a server takes tokens"),
    "upgrade self-update": ("version --check", "your package manager upgrades dibs"),
    "uninstall": ("setup PRODUCT --undo", "'setup --undo' disconnects a product; your package manager removes dibs"),
    "skip": ("pause ID", "'pause' keeps a task back; 'release' gives back one that you hold"),
    "wait": ("claim --wait 10m", "a claim can wait for a task"),
    "subscribe notify": ("webhook add URL", "a webhook posts events to another program"),
    "scope scopes project projects namespace namespaces workspace workspaces use": (
        "list --any-scope", "--scope NAME selects a set of tasks, and its first task creates it",
    ),
    "url api address port": ("serve", "'dibs serve' prints the address of the board and the API"),
    "stop-server kill-server shutdown": ("serve", "'dibs serve' runs until you press Ctrl-C"),
    "copy clone cp duplicate dup": ("show ID --json", "dibs does not copy tasks; 'dibs add' adds another"),
    "sort order": ("list", "the list is in the order of claims; 'dibs edit ID --first' moves a task ahead"),
    "report": ("export --to markdown", "an export is a report that people can read"),
    "merge": ("worktree diff ID", "git merges a task's branch, or 'dibs work --worktree --merge ff' does"),
    "git": ("worktree list", "'worktree' shows the branches of tasks"),
    "escalate": ("block ID --reason WHY", "'block' sets a task aside until a person has answered"),
    "answer respond": ("comment ID ANSWER", "comment on the task, then unblock it"),
    "due deadline": ("edit ID --class fixed_date", "dibs has no due dates; '--class fixed_date' puts a task ahead"),
    "estimate": ("comment ID ESTIMATE", "dibs has no estimates"),
}  # fmt: skip
NEAR_WORDS = {word: meant for words, meant in NEAR.items() for word in words.split()}

NOUNS = _set("task tasks issue issues ticket tickets todo todos item items job jobs card cards")
PRODUCTS = _set("claude codex gemini")
KINDS = _set("bug feature chore story epic spike")
QUESTIONS = _set("what what's whats who who's how why when which where i i'm im is are can there it")
ARTICLES = _set("a an the my me please that this these some")

# What people call a status → the status itself.
STATES = _by_word({
    "done complete completed closed finished resolved fixed merged shipped": "done",
    "active in-progress in_progress inprogress doing started wip claimed working running": "active",
    "blocked stuck on-hold-external": "blocked",
    "review in-review in_review reviewing needs-review": "review",
    "canceled cancelled wontfix deleted dropped abandoned": "canceled",
    "ready todo to-do open pending new queued available": "ready",
    "backlog later someday icebox": "backlog",
    "paused on-hold hold deferred": "paused",
    "escalated failed failing": "escalated",
})  # fmt: skip

# How a task gets into a status.
BECOMES = {
    "done": "done",
    "active": "claim",
    "blocked": "block",
    "review": "review",
    "canceled": "cancel",
    "ready": "edit --status ready",
    "backlog": "edit --status backlog",
    "paused": "pause",
    "escalated": "fail",
}

# Options that mean the same; the first of a row that a command knows is taken.
OPTIONS = tuple(row.split() for row in (
    ("--blocked-by --depends-on --after --needs --deps --dep --depends --dependencies --dependency --requires-task"
    " --prereq --prerequisite --waits-for --on --blocker --to --by"),
    "--blocks --before --blocking --required-by",
    "--assign --assigned-to --to --assignee --owner --assign-to --add-assignee --for-agent --user -a",
    "--all --include-done --include-closed --show-all --everything -A -a",
    "--held-by --assigned-to --holder --claimed-by --assignee --owner --agent --mine -a",
    "--label --labels --tag --tags --add-label --add-tag -l -t",
    "--description --desc --body --details --text --content --notes -b -m --message",
    "--note --reason --message --comment --notes --body --text --summary --resolution -m -r -c",
    "--reason --message --comment --note --because --why --body --text -m -r -c",
    "--title --name --summary --subject --rename -t",
    "--priority --prio --pri --importance -P -y",
    "--status --state --stage -s",
    "--category --type --kind --issue-type -T",
    "--parent --epic --parent-id --child-of --sub-task-of",
    "--limit --max --count --top --number -L -n",
    "--limit -c",
    "--not-before --until --start-after --defer-until --wait --scheduled --start",
    "--by --author --agent --user --who --actor",
    "--agent --as --actor --user --author --me --who",
    "--lease --timeout --ttl --for --duration --time",
    "--requires --capability --skill --skills",
    "--step --steps --subtask --checklist",
    "--ref --link --url --external-ref --source",
    "--text --search --grep --query --filter --contains -q -S --title",
    "--follow --watch -f",
    "--fix --repair",
    "--for --role --kind",
    "--expires --days --ttl --valid --expiry",
    "--slots --agents --workers --parallel --jobs --concurrency -j -n",
    "--since --from --newer-than --last --hours --days --minutes",
    "--older --older-than --since --days --hours --age",
    "--any-scope --all-scopes --all-namespaces",
    "--force --yes -f -y",
    "--id --key --slug",
    "--to --format --as -F",
    "--from --format --source",
    "--port -p -P",
    "--scope --project --namespace --queue",
    "--store --db --database --server --url",
    "--json --output-json --as-json",
))  # fmt: skip

FLAGS = _set(
    "--json --all --mine --force --yes --human --next --any-scope --follow --watch --first --done --closed --ready "
    "--blocked --active --open --backlog --dry-run --export --once --me -f -A -a -w --web --claim -h --help"
)

# Whole sentences. `a|b` is one of these words, `[…]` may be missing; TEXT is the rest, other capitals are one word.
SENTENCES = (
    ("what's|whats|what [is|are|comes] [up] next", "next"),
    ("mark [as] STATE ID", "STATE ID"),
    ("blocked by ID", "show ID"),
    ("mark|set|move|put|change|update|edit ID [status|state] [as|to|into|is] STATE", "STATE ID"),
    ("transition|make|flag|set-status|mv ID [status|state] [as|to|into|is] STATE", "STATE ID"),
    ("set|change|move|update status|state [of] ID [to|as] STATE", "STATE ID"),
    ("i [am|have|'m] done|finished|completed [with] ID", "done ID"),
    ("i'm|im done|finished [with] ID", "done ID"),
    ("done|finished with ID", "done ID"),
    ("i want|need [to] [do|take|start] ID", "claim ID"),
    ("what should|can|do i do|take|work [on] [next|now]", "next"),
    ("what now", "next"),
    ("what's|whats|what is|can ready|available|left|open|claimable", "ready"),
    ("what [am] i doing|on|working|holding [on]", "list --held-by @me"),
    ("what's|whats|what is|are blocked|stuck", "list --status blocked"),
    ("what happened [to] ID", "log ID"),
    ("what happened", "log"),
    ("what's|whats|what is blocking ID", "show ID"),
    ("what blocks ID", "show ID"),
    ("why is ID blocked|waiting|stuck", "show ID"),
    ("who has|holds|owns|took|claimed ID", "show ID"),
    ("who is on|doing ID", "show ID"),
    ("who is working on ID", "show ID"),
    ("who did [what]", "log"),
    ("who is working|active|busy|there|doing [what|on] [what]", "list --status active"),
    ("how many [done|open|tasks|are] [left|done|open|there]", "stats"),
    ("how is|are [it|things] [going]", "status"),
    ("show|list|get|see|view me|my|mine", "list --held-by @me"),
    ("show|get|see|view|print all|everything", "list --all"),
    ("list all|everything", "list --all"),
    ("show|list|get|see|view [all] open|unfinished", "list"),
    ("show|list|get|see|view [all] STATE", "list --status STATE"),
    ("show|list|get|see|view history|log|events|activity [of] ID", "log ID"),
    ("show|list|get|see|view history|log|events|activity", "log"),
    ("show|list|get|see|view [dependency] graph|deps|dependencies|tree", "graph"),
    ("show|list|get|see|view deps|dependencies|tree [of|for] ID", "show ID"),
    ("show|list|get|see|view agents|workers|team", "agent list"),
    ("show|get|see|view board|ui", "board"),
    ("show|get|see|view [the] next", "next"),
    ("show|get|see|view stats|statistics", "stats"),
    ("show|get|see|view status|summary", "status"),
    ("give|hand|assign ID to AGENT", "assign ID AGENT"),
    ("give|assign me ID", "claim ID"),
    ("give me [work|something|next|one]", "claim"),
    ("get [next] work", "claim"),
    ("claim|take|start|grab|pick next|one|any|something|work", "claim"),
    ("take|give back ID", "release ID"),
    ("give up ID", "release ID"),
    ("give up [on] ID", "release ID"),
    ("give ID back", "release ID"),
    ("put ID back", "release ID"),
    ("pick|take|grab up ID", "claim ID"),
    ("start|begin work|working on ID", "claim ID"),
    ("work on ID", "claim ID"),
    ("working on ID", "claim ID"),
    ("call|close off|out ID", "cancel? ID"),
    ("dep|deps|dependency|depend add|create|new ID [on|after] OTHER", "link ID --blocked-by OTHER"),
    ("dep|deps|dependency|depend add|create|new ID", "link ID"),
    ("dep|deps|dependency|depend rm|remove|delete ID [on|from] OTHER", "unlink ID --blocked-by OTHER"),
    ("dep|deps|dependency tree|list|show|graph ID", "show ID"),
    ("dep|deps|dependency tree|list|show|graph", "graph"),
    ("link|depend|depends|block ID on|by|after|needs|requires OTHER", "link ID --blocked-by OTHER"),
    ("link|make|set|let ID depends|depend|wait|waits on|for|upon OTHER", "link ID --blocked-by OTHER"),
    ("link ID blocked|blocked-by [by] OTHER", "link ID --blocked-by OTHER"),
    ("link|make|let|set ID blocks|block|before OTHER", "link OTHER --blocked-by ID"),
    ("unlink|unblock|separate ID from OTHER", "unlink ID --blocked-by OTHER"),
    ("depend|depends|add-dependency|dep ID OTHER", "link ID --blocked-by OTHER"),
    ("remove-dependency|undepend ID OTHER", "unlink ID --blocked-by OTHER"),
    ("set|change|edit|update|make|modify ID priority|prio|p [to|=] VALUE", "edit ID --priority VALUE"),
    ("set|change|edit|update|make priority|prio [of|for] ID [to|=] VALUE", "edit ID --priority VALUE"),
    ("priority|prio|pri|prioritize|prioritise ID [to|=] VALUE", "edit ID --priority VALUE"),
    ("make ID urgent|first|top", "edit ID --first"),
    ("bump|prioritize|prioritise|expedite ID", "edit ID --first"),
    ("set|change|edit|update|modify ID title|name [to] TEXT", "edit ID --title TEXT"),
    ("rename|retitle|title ID [to] TEXT", "edit ID --title TEXT"),
    ("set|change|edit|update|modify ID description|desc|body [to] TEXT", "edit ID --description TEXT"),
    ("set|change|edit|update|modify|add ID label|tag|labels VALUE", "edit ID --label VALUE"),
    ("add|set label|tag VALUE to|on ID", "edit ID --label VALUE"),
    ("label|tag ID [add|with|as] VALUE", "edit ID --label VALUE"),
    ("set|change|edit|update|modify ID assignee|owner [to] AGENT", "assign ID AGENT"),
    ("unassign AGENT from ID", "edit ID --clear assigned_to"),
    ("unassign ID [from] [AGENT]", "edit ID --clear assigned_to"),
    ("add|leave|post|write comment|note|remark to|on ID TEXT", "comment ID TEXT"),
    ("add|leave|post|write comment|note|remark ID TEXT", "comment ID TEXT"),
    ("comment|note|reply on|to ID TEXT", "comment ID TEXT"),
    ("split|divide ID [TEXT]", "add? TITLE --parent ID"),
    ("subtask|sub-task|add-subtask ID TEXT", "add TEXT --parent ID"),
    ("add|create|new subtask|child|sub-task [to|of|for|under] ID TEXT", "add TEXT --parent ID"),
    ("defer|snooze|postpone|delay|remind|schedule ID [until|to|till] VALUE", "edit ID --not-before VALUE"),
    ("send ID to|for review", "review ID"),
    ("send ID back", "rework ID"),
    ("send back ID", "rework ID"),
    ("set|turn ID up", "resume ID"),
    ("look for TEXT", "search TEXT"),
    ("undo last", "undo"),
    ("undo the last", "undo"),
    ("open board|browser|ui|web", "board"),
    ("start|run|open board|server|ui|web", "board"),
    ("blockers|blocking [of|for] ID", "show ID"),
    ("children|subtasks|parts|sub-tasks [of] ID", "list --parent ID"),
    ("parent [of] ID", "show ID"),
    ("output|stdout|console [of] ID", "logs ID"),
    ("diff|changes [of] ID", "worktree diff ID"),
    ("merge|rebase ID [with|into|in|onto] [OTHER]", "worktree? diff ID"),
    ("branch|worktree|workspace [of|for] ID", "worktree open ID"),
    ("progress|checkpoint|log-progress ID TEXT", "comment ID TEXT"),
    ("desc|description|body ID TEXT", "edit ID --description TEXT"),
    ("untag|unlabel ID [WORD]", "edit? ID --clear labels"),
    ("stats|throughput|velocity|burndown [for|of] [the] [last|past|this] hour", "stats --since 1h"),
    ("stats|throughput|velocity|burndown [for|of] [the] [last|past|this] day|today", "stats --since 1d"),
    ("stats|throughput|velocity|burndown [for|of] [the] [last|past|this] week", "stats --since 7d"),
    ("stats|throughput|velocity|burndown [for|of] [the] [last|past|this] month", "stats --since 30d"),
    ("throughput|velocity|burndown", "stats --since 7d"),
    ("extend|renew|keepalive|refresh ID [for|by] VALUE", "renew ID --lease VALUE"),
    ("backlog|shelve ID", "edit ID --status backlog"),
    ("ready ID", "edit ID --status ready"),
    ("first|top|raise|rank|reorder|upvote ID [VALUE]", "edit ID --first"),
    ("filter|only [by] STATE", "list --status STATE"),
    ("handoff|handover|hand-over|transfer|reassign ID [to] AGENT", "assign ID AGENT"),
    ("escalate|needs-human|ask-human ID TEXT", "block? ID --reason TEXT"),
    ("answer|respond [to] ID TEXT", "comment? ID TEXT"),
    ("reset ID", "reopen? ID"),
    ("steal|seize|takeover|take-over|force-claim ID", "claim? ID --human --force"),
    ("take over ID", "claim? ID --human --force"),
    ("attach|artifact ID VALUE", "done? ID --artifact VALUE"),
    ("claim|take|start ID as AGENT", "claim ID --agent AGENT"),
    ("claim|take as AGENT", "claim --agent AGENT"),
    ("enroll|enrol|register|hire|invite|onboard AGENT", "agent? add AGENT --role ROLE"),
    ("run|spawn|launch|start|work|use PRODUCT", "work? --with PRODUCT"),
    ("run|spawn|launch|start COUNT PRODUCT", "work? --with PRODUCT --slots COUNT"),
    ("run|spawn|launch|start COUNT agents|workers", "work? --with claude --slots COUNT"),
    ("PRODUCT", "work? --with PRODUCT"),
    ("due|deadline ID [VALUE]", "edit? ID --class fixed_date"),
    ("send|write|mail|email AGENT TEXT", "mail? send AGENT TEXT"),
    ("serve|server [on] [port] PORT", "serve? --port PORT"),
    ("version|update|upgrade check", "version --check"),
    ("check [for] updates|update|upgrade", "version --check"),
    ("fix", "doctor? --fix"),
    ("config set NAME VALUE", "config NAME VALUE"),
    ("config get|show NAME", "config NAME"),
    ("config list|show", "config"),
    ("plan add|apply|load|import|run FILE", "plan FILE"),
    ("plan validate|check|diff|preview FILE", "plan FILE --dry-run"),
    ("ID is [now] STATE", "STATE ID"),
    ("ID depends|waits|depend|blocked on|for|by OTHER", "link ID --blocked-by OTHER"),
    ("ID is blocked by OTHER", "link ID --blocked-by OTHER"),
    ("ID needs|requires|after OTHER", "link ID --blocked-by OTHER"),
    ("ID blocks|before OTHER", "link OTHER --blocked-by ID"),
)  # fmt: skip

# The ends of a task and other things that no guess may do.
HARMFUL = frozenset({"cancel", "prune", "restore", "import", "setup", "undo", "sync", "torture"})
STARTS = frozenset({"serve", "work", "dispatch", "demo", "mcp", "top"})  # each runs until it is stopped


# Options for which dibs has no use: they are left out, those with a meaning of their own with a word about it.
IGNORED = _set(
    "--sort --order --order-by --verbose -v --quiet -q --no-pager --pretty --color --no-color --long --table --last "
    "--interactive --compact --wide"
)
MISSING = {
    "--due": "dibs has no due dates; '--class fixed_date' puts a task ahead",
    "--estimate": "dibs has no estimates",
    "--points": "dibs has no estimates",
    "--sprint": "dibs has no sprints; '--spec' names what a task belongs to",
    "--milestone": "dibs has no milestones; '--spec' names what a task belongs to",
}
# What people call a file format → the one that reads it.
FORMAT_NAMES = {
    "jira": "csv", "asana": "csv", "trello": "csv", "excel": "csv", "linear": "linear-csv", "gh": "github",
    "md": "markdown", "bd": "beads", "taskmaster": "task-master", "backlog": "backlog-md", "mmd": "mermaid",
}  # fmt: skip
FORMATS_IN = ("beads", "github", "task-master", "backlog-md", "markdown", "csv", "linear-csv")
FORMATS_OUT = ("markdown", "csv", "github", "mermaid")

_SPANS = {"hour": "1h", "day": "1d", "today": "1d", "week": "7d", "month": "30d"}
# A flag that means an option with a value, by command.
FLAG_VALUES: dict[str, dict[str, tuple[str, str | None]]] = {
    "list": {
        "-a": ("--all", None),
        "--mine": ("--held-by", ME),
        "--me": ("--held-by", ME),
        **{f"--{word.replace('_', '-')}": ("--status", status) for word, status in STATES.items()},
        **dict.fromkeys(("--open", "--unfinished", "--todo"), ("", None)),
    },
    "claim": {"--next": ("", None)},
    "stats": {f"--{name}": ("--since", span) for name, span in _SPANS.items()},
    "import": {f"--{name}": ("--from", name) for name in FORMATS_IN},
    "export": {f"--{name}": ("--to", name) for name in FORMATS_OUT},
    "graph": {f"--{name}": ("--format", name) for name in ("mermaid", "dot", "svg")},
    "ready": {"--mine": ("--agent", ME), "--me": ("--agent", ME)},
    "assign": {"--me": ("--to", ME), "--mine": ("--to", ME)},
    "add": {"--urgent": ("--priority", "0"), "--high": ("--priority", "1"), "--low": ("--priority", "3")},
}
# A flag that means another command, by command.
FLAG_COMMANDS: dict[str, dict[str, str]] = {
    "log": {"--follow": "top", "-f": "top", "--watch": "top", "--live": "top"},
    "show": {
        **dict.fromkeys(("--history", "--log", "--events", "--audit"), "log"),
        **dict.fromkeys(("--output", "--logs"), "logs"),
        **dict.fromkeys(("--deps", "--tree"), "show"),
        **dict.fromkeys(("--web", "-w", "--board"), "open"),
        "--graph": "graph",
    },
    "list": {
        "--ready": "ready",
        "--available": "ready",
        "--claimable": "ready",
        "--tree": "graph",
        "--graph": "graph",
        "--deps": "graph",
        "--web": "open",
        "--watch": "top",
        "-w": "top",
        "--follow": "top",
        "--live": "top",
    },
    "edit": {
        **dict.fromkeys(("--depends-on", "--blocked-by", "--add-dependency", "--needs"), "link --blocked-by"),
        **dict.fromkeys(("--remove-dependency", "--remove-blocked-by"), "unlink --blocked-by"),
        "--claim": "claim",
        "--done": "done",
        "--close": "done",
        "--start": "claim",
        "--cancel": "cancel",
    },
    "next": {"--claim": "claim", "--start": "claim"},
    "ready": {"--claim": "claim"},
    "block": dict.fromkeys(("--by", "--on", "--blocked-by", "--depends-on"), "link --blocked-by"),
    "graph": {"--web": "serve --open", "--open-browser": "serve --open"},
    "add": {"-f": "plan", "--file": "plan", "--from-file": "plan"},
}
# Options whose value is a plain word of the command: in front of the others, or behind them.
PLAIN_WORDS: dict[str, tuple[str, bool]] = {
    "--title --name --summary --subject -t -m --message": ("add", True),
    "--body --text --message --comment --note -m -b -t": ("comment", False),
    "--text --query -q --title": ("search", True),
    "--file --filename --input --input-file --output --out -f -i -k -o": ("plan import restore export backup", True),
    "--to --assignee --agent --user --owner --add-assignee -a": ("assign", False),
    "--id --task --task-id --issue --key -i": ("*", True),
}  # fmt: skip
IN_GROUPS = {
    "new": "add", "create": "add", "add": "create", "enrol": "add", "enroll": "add", "register": "add",
    "make": "create", "ls": "list", "get": "show", "view": "show", "rm": "remove", "delete": "remove", "del": "remove",
    "remove": "revoke", "drop": "remove", "write": "send", "check": "read", "inbox": "read", "follow": "watch",
}  # fmt: skip
NAMES_OF_ME = frozenset({"me", "self", "myself", "@me", "@self"})
FOR_AGENTS = frozenset({"--assign", "--assigned-to", "--held-by", "--agent", "--to"})
ATTRIBUTES = {
    "priority": "--priority", "pri": "--priority", "project": "--category", "proj": "--category",
    "depends": "--blocked-by", "tags": "--label", "tag": "--label",
}  # fmt: skip

IDS = {"--id", "--task", "--task-id", "--issue", "--key", "-i"}
STATUS_OPTIONS = frozenset({"--status", "--state", "--stage", "-s"})
UNITS = {"--days": "{}d", "--hours": "{}h", "--minutes": "{}m"}
# Words of a text, which no id is.
SMALL_WORDS = _set(
    "a an and are at be but by can cannot can't did do does doesn't don't for from had has have i in is isn't it its me"
    " my need needs needed no none not of off on one or our out see still that the their them there this to too until"
    " up us use using was we were when while will with without won't you your already duplicate duplicates waiting"
    " waits wrong failed fails broken missing longer obsolete"
)
# What a file alone is for, by its suffix.
FILES = {
    **dict.fromkeys(("yaml", "yml", "jsonl"), ("plan",)),
    "csv": ("import", "--from", "csv"),
    "md": ("import", "--from", "markdown"),
}
