"""What a part of the server with an application of its own has to give."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from starlette.types import ASGIApp


class Mounted(NamedTuple):
    """`running` is entered before the first request, and left when the server ends."""

    app: ASGIApp
    running: Callable[[], AbstractAsyncContextManager[None]]
