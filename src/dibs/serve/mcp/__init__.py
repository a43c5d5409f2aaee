"""The desk's verbs as tools of the Model Context Protocol (MCP), on stdio or at /mcp of a server."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import the SDK's low-level server without its client and framework, and build its models when they are used.

    That takes a third off the start of `dibs mcp`. It is for processes that use no other part of the SDK.
    """
    from pydantic import BaseModel

    for name in ("mcp", "mcp.server"):
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            sys.modules[name] = module_from_spec(spec)  # the package, but its __init__ is not run
    gc.disable()
    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        del BaseModel.model_config["defer_build"]
        gc.freeze()
        gc.enable()
