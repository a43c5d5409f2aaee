"""A language model behind an OpenAI-compatible endpoint: POST …/chat/completions with texts, one JSON object back.

What it says is data, from a stranger: nothing here or above carries out what it says, and whoever asks checks every
word of it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from dibs.chat.analyst.services import Service
from dibs.core.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping

WHAT = "The language model"
KEY = "DIBS_LLM_KEY"
TIMEOUT = 25.0  # seconds: also if all goes wrong twice, within the lease that messages are read under
_LONGEST = 200_000  # characters of an answer
_FENCE = re.compile(r"^\s*```[a-zA-Z]*\s*\n(.*)\n\s*```\s*$", re.DOTALL)


class Wrong(Exception):
    """An answer that is not what was asked for."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The language model's answer cannot be used: {why}.")


class Model:
    def __init__(self, name: str, service: Service) -> None:
        self._name = name
        self._service = service

    def ask(self, task: str, data: Mapping[str, object]) -> dict[str, Any]:
        """The object it answers with, or Wrong or ServiceUnavailable. `task` is ours, `data` is what people say."""
        told = [
            {"role": "system", "content": task},
            {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
        ]
        asked = {"model": self._name, "messages": told, "temperature": 0, "response_format": {"type": "json_object"}}
        return _object(self._service.ask(asked))


def _object(answer: Any) -> dict[str, Any]:
    try:
        text = answer["choices"][0]["message"]["content"]
        if not isinstance(text, str) or len(text) > _LONGEST:
            raise ValueError  # noqa: TRY301 - told below, like the rest
        fenced = _FENCE.match(text)
        found = json.loads(fenced[1] if fenced else text)
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        raise Wrong("it is not one JSON object") from None
    if not isinstance(found, dict):
        raise Wrong("it is not one JSON object")
    return found


def open_model(environment: Mapping[str, str]) -> Model | None:
    """The one that the environment names, if it names one."""
    url, name = environment.get("DIBS_LLM_URL", ""), environment.get("DIBS_LLM_MODEL", "")
    if not url:
        return None
    if not name:
        raise Misconfigured("DIBS_LLM_URL names a language model's address; DIBS_LLM_MODEL has to say which model.")
    address = f"{url.rstrip('/')}/chat/completions"
    return Model(name, Service(WHAT, address, environment.get("DIBS_LLM_KEY", ""), key_name=KEY, timeout=TIMEOUT))
