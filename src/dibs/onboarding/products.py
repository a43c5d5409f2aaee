"""Each product's files and their content, as data.

Checked in November 2026 against the makers' documents; docs/howto/agents.md names the products that were also run.
Claude Code runs SessionStart hooks also after a conversation was compacted, and shows their output to the model; it
drops the output of PreCompact hooks. Cursor and VS Code start servers in any folder, so they get the project's folder.
"""

from typing import Literal, NamedTuple

from dibs.core.task import Json
from dibs.onboarding.block import BODY, NAME


class Entry(NamedTuple):
    """A member of a JSON object; or, with a mark, an item of an array, found by its mark.

    `elsewhere` is the value for a store outside the project's folder.
    """

    path: tuple[str, ...]
    value: Json
    mark: str | None = None
    elsewhere: Json = None


class File(NamedTuple):
    """A file below the project's folder: entries of a JSON document, or one block of text."""

    name: str
    kind: Literal["json", "markdown", "toml"]
    entries: tuple[Entry, ...] = ()
    body: str = ""


class Product(NamedTuple):
    title: str
    files: tuple[File, ...]
    then: str  # what is left to do


_SERVER: dict[str, Json] = {"command": "dibs", "args": ["mcp"]}
_IN_FOLDER: dict[str, Json] = {"command": "dibs", "args": ["mcp", "--project", "${workspaceFolder}"]}
_STDIO: Json = {"type": "stdio", **_SERVER}
_STDIO_IN_FOLDER: Json = {"type": "stdio", **_IN_FOLDER}
_HOOK: Json = {"hooks": [{"type": "command", "command": "dibs prime"}]}
_AGENTS = File(NAME, "markdown", body=BODY)
# Codex passes a server only named variables: those that locate the store and give access to it.
_HANDED_ON = (
    "DIBS_STORE", "DIBS_SCOPE", "DIBS_AGENT", "PGPASSWORD", "NEO4J_URI", "NEO4J_USER", "NEO4J_PASSWORD", "NOTION_TOKEN",
)  # fmt: skip
_CODEX_SERVER = f"""[mcp_servers.dibs]
command = "dibs"
args = ["mcp"]
env_vars = [{", ".join(f'"{name}"' for name in _HANDED_ON)}]
"""

PRODUCTS = {
    "agents": Product("any agent that reads AGENTS.md", (_AGENTS,), "Nothing is left to do."),
    "claude": Product(
        "Claude Code",
        (
            File(".mcp.json", "json", (Entry(("mcpServers", "dibs"), _SERVER),)),
            File(".claude/settings.json", "json", (Entry(("hooks", "SessionStart"), _HOOK, mark="dibs prime"),)),
        ),
        "Restart claude here; it asks once whether to use the server of .mcp.json, and /mcp shows it.",
    ),
    "codex": Product(
        "Codex",
        (File(".codex/config.toml", "toml", body=_CODEX_SERVER), _AGENTS),
        "Restart codex here. It reads .codex/config.toml in folders that you trust; /mcp shows the server.",
    ),
    "cursor": Product(
        "Cursor",
        (File(".cursor/mcp.json", "json", (Entry(("mcpServers", "dibs"), _IN_FOLDER, elsewhere=_SERVER),)), _AGENTS),
        "Open the folder in Cursor, and switch the server on in its settings, under MCP.",
    ),
    "gemini": Product(
        "Gemini CLI",
        (
            File(".gemini/settings.json", "json", (Entry(("mcpServers", "dibs"), _SERVER),)),
            File("GEMINI.md", "markdown", body=BODY),
        ),
        "Restart gemini here; /mcp shows the server.",
    ),
    "vscode": Product(
        "VS Code with Copilot",
        (File(".vscode/mcp.json", "json", (Entry(("servers", "dibs"), _STDIO_IN_FOLDER, elsewhere=_STDIO),)), _AGENTS),
        "Open the folder in VS Code, and start the server from .vscode/mcp.json.",
    ),
}
