"""A model endpoint on this machine that answers as a script says, in the protocols of three makers.

`Script` gets the outputs of all tools that the model has called so far, and the names of the tools it has; its answer
is the next call or the last words. A request without tools, such as one for a title, is answered with a word.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class ToolCall(NamedTuple):
    name: str
    arguments: dict[str, Any]


Script = Callable[[Sequence[str], Sequence[str]], ToolCall | str]


class FakeModel:
    def __init__(self, script: Script) -> None:
        self.requests: list[tuple[str, Any]] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
                model.requests.append((self.path, body))
                self._send(*_answer(self.path, body, script))

            def do_GET(self) -> None:
                self._send("application/json", '{"data": [], "models": []}')

            def do_HEAD(self) -> None:
                self._send("application/json", "")

            def _send(self, kind: str, text: str) -> None:
                raw = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _answer(path: str, body: Any, script: Script) -> tuple[str, str]:
    if "/messages/count_tokens" in path:
        return "application/json", '{"input_tokens": 10}'
    if "/messages" in path:
        return _anthropic(body, script)
    if "/responses" in path:
        return _openai(body, script)
    if "enerateContent" in path:
        return _gemini(path, body, script)
    return "application/json", "{}"


def _said(script: Script, outputs: Sequence[str], tools: Sequence[str]) -> ToolCall | str:
    return script(outputs, tools) if tools else "ok"


def _sse(*events: dict[str, Any]) -> tuple[str, str]:
    lines = (f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events)
    return "text/event-stream", "".join(lines)


# Anthropic: Messages


def _anthropic(body: Any, script: Script) -> tuple[str, str]:
    outputs = [
        _flat(part.get("content"))
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part.get("type") == "tool_result"
    ]
    said = _said(script, outputs, [tool["name"] for tool in body.get("tools", [])])
    usage = {"input_tokens": 10, "output_tokens": 10}
    head = {
        "id": f"msg_{len(outputs)}", "type": "message", "role": "assistant", "model": body["model"], "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    whole: dict[str, Any]
    if isinstance(said, str):
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta: dict[str, Any] = {"type": "text_delta", "text": said}
        whole, stop = {"type": "text", "text": said}, "end_turn"
    else:
        block = {"type": "tool_use", "id": f"toolu_{len(outputs)}", "name": said.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(said.arguments)}
        whole, stop = {**block, "input": said.arguments}, "tool_use"
    if not body.get("stream"):
        return "application/json", json.dumps({**head, "content": [whole], "stop_reason": stop})
    return _sse(
        {"type": "message_start", "message": head},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    )


def _flat(content: Any) -> str:
    if isinstance(content, list):
        return "".join(_flat(part) for part in content)
    return str(content.get("text", "")) if isinstance(content, dict) else str(content)


# OpenAI: Responses


def _openai(body: Any, script: Script) -> tuple[str, str]:
    kinds = {"function_call_output", "custom_tool_call_output", "mcp_tool_call_output"}
    outputs = [_flat(item.get("output")) for item in body["input"] if item.get("type") in kinds]
    said = _said(script, outputs, _openai_names(body.get("tools", [])))
    number = len(outputs)
    if isinstance(said, str):
        item: dict[str, Any] = {
            "type": "message", "role": "assistant", "id": f"m{number}",
            "content": [{"type": "output_text", "text": said}],
        }  # fmt: skip
    else:
        item = {
            "type": "function_call", "id": f"f{number}", "call_id": f"c{number}", "name": said.name.rpartition("/")[2],
            "arguments": json.dumps(said.arguments),
        }  # fmt: skip
        if "/" in said.name:
            item["namespace"] = said.name.rpartition("/")[0]
    usage = {
        "input_tokens": 10, "input_tokens_details": None, "output_tokens": 10, "output_tokens_details": None,
        "total_tokens": 20,
    }  # fmt: skip
    return _sse(
        {"type": "response.created", "response": {"id": f"r{number}"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": f"r{number}", "usage": usage}},
    )


def _openai_names(tools: Sequence[dict[str, Any]]) -> list[str]:
    """Tools by name; those of a namespace with it in front, such as `mcp__dibs/claim`."""
    found: list[str] = []
    for tool in tools:
        inner = tool.get("tools")
        name = str(tool.get("name", tool.get("type")))
        found += [name] if inner is None else [f"{name}/{each['name']}" for each in inner]
    return found


# Google: Gemini


def _gemini(path: str, body: Any, script: Script) -> tuple[str, str]:
    parts = [part for content in body.get("contents", []) for part in content.get("parts", [])]
    outputs = [json.dumps(part["functionResponse"].get("response")) for part in parts if "functionResponse" in part]
    tools = [declared["name"] for tool in body.get("tools", []) for declared in tool.get("functionDeclarations", [])]
    said = _said(script, outputs, tools)
    part = {"text": said} if isinstance(said, str) else {"functionCall": {"name": said.name, "args": said.arguments}}
    answer = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20},
    }
    if "streamGenerateContent" not in path:
        return "application/json", json.dumps(answer)
    return "text/event-stream", f"data: {json.dumps(answer)}\r\n\r\n"
