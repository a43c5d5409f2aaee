"""Tools, resources and a prompt of the protocol, on the official SDK. The transport identifies the client."""

from __future__ import annotations

import json
import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from mcp_types import Tool as McpTool
from pydantic import ValidationError

from dibs import __version__
from dibs.core.errors import DibsError, InvalidInput, StoreError
from dibs.serve.access import Right
from dibs.serve.mcp.models import Plan, Show, answer_schema, arguments_schema, error_answer, meant_argument
from dibs.serve.mcp.rendering import fitted
from dibs.serve.mcp.tools import TOOLS, by_name, plan, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.context import ServerRequestContext
    from mcp_types import (
        CallToolRequestParams,
        GetPromptRequestParams,
        PaginatedRequestParams,
        ReadResourceRequestParams,
    )
    from pydantic import BaseModel

    from dibs.desk import Desk
    from dibs.serve.mcp.sessions import Session
    from dibs.serve.mcp.tools import Tool

    Context = ServerRequestContext[Any, Any]

PLAN_URI, TASK_URI = "dibs://plan", "dibs://task/"
_JSON = "application/json"
_PROMPT = "work"

_log = logging.getLogger(__name__)


class ClientTransport(Protocol):
    """Finds the session of a request, and lends desks."""

    async def attend(self, context: Context, token: str | None, work: Callable[[Desk, Session], Any]) -> Any:
        """Run `work` for the session of the request, on a thread with a desk."""
        ...


def make_server(transport: ClientTransport, instructions: str) -> Server[Any]:
    """A server for this transport, with its instructions for models."""
    handlers = _Handlers(transport, instructions)
    return Server(
        "dibs",
        version=__version__,
        title="dibs",
        instructions=instructions,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )


def listed_tool(tool: Tool) -> McpTool:
    """The listing of a tool for clients."""
    return McpTool(
        name=tool.name,
        description=tool.about,
        input_schema=arguments_schema(tool.takes),
        output_schema=answer_schema(tool.gives),
        annotations=ToolAnnotations(
            read_only_hint=tool.looks,
            destructive_hint=None if tool.looks else tool.removes,
            idempotent_hint=tool.repeats or None,
            open_world_hint=False,
        ),
    )


class _Handlers:
    """Answers requests of the protocol, each for its session."""

    def __init__(self, transport: ClientTransport, instructions: str) -> None:
        self._transport = transport
        self._instructions = instructions

    @cached_property
    def _tools(self) -> list[McpTool]:
        return [listed_tool(tool) for tool in TOOLS]

    # Tools

    async def list_tools(self, _context: Context, _page: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=self._tools)

    async def call_tool(self, context: Context, asked: CallToolRequestParams) -> CallToolResult:
        tool = by_name(asked.name)
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message=f"There is no tool '{asked.name[:40]}'.")
        given = asked.arguments or {}
        token = given.get("token")

        def work(desk: Desk, session: Session) -> CallToolResult:
            try:
                session.require(tool.right, tool.suffices)
                answer = tool.act(session.at(desk), session, _read(tool.takes, given))
            except StoreError:
                raise  # the pool opens the desk again
            except DibsError as error:
                return _answered(error_answer(error, session.news()), failed=True)
            answer.news = session.news()
            return _answered(answer)

        try:
            result: CallToolResult = await self._transport.attend(
                context, token if isinstance(token, str) else None, work
            )
        except DibsError as error:
            return _answered(error_answer(error), failed=True)
        except Exception:  # noqa: BLE001 - a bug: the log has the details, the client gets a plain error
            _log.exception("%s failed", tool.name)
            return _answered(error_answer(_mistake()), failed=True)
        return result

    # Resources

    async def list_resources(self, _context: Context, _page: PaginatedRequestParams | None) -> ListResourcesResult:
        about = "All unfinished tasks by phase, and the critical path."
        return ListResourcesResult(resources=[Resource(uri=PLAN_URI, name="plan", description=about, mime_type=_JSON)])

    async def list_templates(
        self, _context: Context, _page: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        about = "One task with its links and history."
        template = ResourceTemplate(uri_template=f"{TASK_URI}{{id}}", name="task", description=about, mime_type=_JSON)
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, context: Context, asked: ReadResourceRequestParams) -> ReadResourceResult:
        uri = str(asked.uri)

        def work(desk: Desk, session: Session) -> str:
            session.require(Right.READ)
            return _text(_resource(session.at(desk), session, uri))

        try:
            text = await self._transport.attend(context, None, work)
        except DibsError as error:
            raise MCPError(code=INVALID_PARAMS, message=f"{error.code}: {error.message}") from None
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=_JSON, text=text)])

    # The prompt

    async def list_prompts(self, _context: Context, _page: PaginatedRequestParams | None) -> ListPromptsResult:
        return ListPromptsResult(prompts=[Prompt(name=_PROMPT, description="Work through the tasks of this desk.")])

    async def get_prompt(self, _context: Context, asked: GetPromptRequestParams) -> GetPromptResult:
        if asked.name != _PROMPT:
            raise MCPError(code=INVALID_PARAMS, message=f"There is no prompt '{asked.name[:40]}'.")
        begin = f"{self._instructions}\nBegin now: call what_next, claim a task, and continue until none is ready."
        said = PromptMessage(role="user", content=TextContent(type="text", text=begin))
        return GetPromptResult(description="Work through the tasks of this desk.", messages=[said])


def _resource(desk: Desk, session: Session, uri: str) -> BaseModel:
    from urllib.parse import unquote

    if uri == PLAN_URI:
        return plan(desk, session, Plan())
    if uri.startswith(TASK_URI):
        return show(desk, session, Show(task=unquote(uri.removeprefix(TASK_URI))))
    raise InvalidInput(f"Unknown resource. The resources are {PLAN_URI} and {TASK_URI}ID.")


def _read(model: type[BaseModel], given: dict[str, Any]) -> BaseModel:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)
        first = next((each for each in wrong if each["type"] == "extra_forbidden"), wrong[0])
        where = ".".join(str(part) for part in first["loc"])[:80]
        if first["type"] == "extra_forbidden":
            hint = meant_argument(model, first["loc"])
            raise InvalidInput(f"There is no argument '{where}'.{f' Use {hint!r}.' if hint else ''}") from None
        raise InvalidInput(f"{where or 'arguments'}: {first['msg'].lower()}.") from None


def _answered(answer: BaseModel, *, failed: bool = False) -> CallToolResult:
    """A result as structured content, and as text for clients that read only text."""
    data = fitted(answer.model_dump(mode="json", exclude_none=True))
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(data, ensure_ascii=False, separators=(",", ":")))],
        structured_content=data,
        is_error=failed,
    )


def _text(answer: BaseModel) -> str:
    return json.dumps(fitted(answer.model_dump(mode="json", exclude_none=True)), ensure_ascii=False)


def _mistake() -> DibsError:
    return DibsError("dibs has a bug here; its log on stderr has the details. Check with show before you call again.")
