"""What a sync with Notion is made of here: the sender's settings, the fleet, the way to Notion, the plan."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dibs.core.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dibs.desk import Desk
    from dibs.protocols.kurultai.settings import UserConfig
    from dibs.stores.notion.http import HttpGateway
    from dibs.sync.notion.report import Outlook, Report
    from dibs.sync.notion.rows import Fleet
    from dibs.sync.notion.syncing import Options, Sync

_WRITE_TIMEOUT = 10.0
_NO = frozenset({"0", "false", "no", "off"})


def sync_enabled() -> bool:
    """Unless the environment says otherwise."""
    return os.environ.get("NOTION_SYNC_ENABLED", "").strip().casefold() not in _NO


def poll_enabled() -> bool:
    return sync_enabled() and os.environ.get("NOTION_POLL_ENABLED", "").strip().casefold() not in _NO


def config_for(desk: Desk, sender: str) -> UserConfig:
    from dibs.protocols.kurultai.settings import config_of

    return config_of(sender, desk.at(sender).settings())


def options_for(desk: Desk, sender: str) -> Options | None:
    """How this sender's rows are read; None for one who does not want it."""
    from dibs.sync.notion.syncing import Options

    config = config_for(desk, sender)
    if not config["notion_integration_enabled"] or not sync_enabled():
        return None
    database = config["notion_database_id"] or os.environ.get("NOTION_DATABASE_ID", "").strip()
    if not database:
        raise Misconfigured(
            "Which Notion database? Set notion_database_id for the sender, or NOTION_DATABASE_ID for all of them; "
            "'dibs sync notion init' makes one."
        )
    return Options(
        database,
        fleet(),
        aggressive=config["sync_preference"] == "aggressive",
        notify=config["notion_notify_on_change"],
        route=_route,
    )


def fleet() -> Fleet:
    from dibs.protocols.kurultai.policy import FLEET
    from dibs.sync.notion.rows import Fleet

    return Fleet({profile.id: profile.name for profile in FLEET})


def _route(name: str) -> tuple[str | None, str | None]:
    """What comes out of a task of this name, and so whose it is."""
    from dibs.chat.analyst.deliverables import deliverable
    from dibs.protocols.kurultai.policy import agent_for

    kind = deliverable(name)
    return kind, agent_for(kind)


def connect() -> HttpGateway:
    """Notion, at a pace that all processes of this user share."""
    from dibs.stores.notion.connection import address, token
    from dibs.stores.notion.gateway import Limiter

    try:
        from dibs.stores.notion.http import HttpGateway

        return HttpGateway(token(), address(), write_timeout=_WRITE_TIMEOUT, limiter=Limiter(_pace_file()))
    except ModuleNotFoundError as error:
        if error.name not in {"notion_client", "httpx"}:
            raise
        raise Misconfigured("Notion needs its client: pip install 'dibs[notion]'.") from None


def _pace_file() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "dibs")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"The folder {folder} cannot be made: {error.strerror}. Set XDG_CACHE_HOME to one that you may write to."
        ) from None
    return os.path.join(folder, "notion.pace")


@contextmanager
def sync_for(desk: Desk, sender: str) -> Iterator[Sync]:
    """What syncs this sender, connected; Misconfigured where they have not asked for it."""
    from dibs.console.streams import watched
    from dibs.sync.notion.syncing import Sync

    options = options_for(desk, sender)
    if options is None:
        raise Misconfigured(_SWITCHED_OFF if not sync_enabled() else _NOT_SWITCHED_ON)
    gateway = connect()
    try:
        yield Sync(desk, gateway, sender, options, outlook=_outlook, watch=watched)
    finally:
        gateway.close()


_SWITCHED_OFF = "Syncing with Notion is switched off here: NOTION_SYNC_ENABLED says so."
_NOT_SWITCHED_ON = (
    "Notion is not switched on for this sender. 'dibs kurultai config notion_integration_enabled true' with their "
    "--sender does that."
)


def _outlook(desk: Desk) -> Outlook:
    """What is left to do, how long that takes however many are at it, and in which order."""
    from dibs.chat.conversation.plan import HISTORY, plan_of
    from dibs.core.task import Status
    from dibs.stores.port import Query
    from dibs.sync.notion.report import Outlook, Place
    from dibs.sync.notion.rows import weight_of, weight_word

    done = desk.find(Query(desk.scope, (Status.DONE,), limit=HISTORY))
    plan, names = plan_of(desk.graph(finished=False), done), fleet()
    order = tuple(
        Place(item.task.title, weight_word(weight_of(item.task)), names.name_of(item.task.assigned_to))
        for item in plan.order
    )
    return Outlook(round(plan.soonest.total_seconds() / 60), order)


def reply_for(desk: Desk, sender: str) -> str | None:
    """What to answer to "Sync from Notion"; None for who has not set it up."""
    from dibs.core.errors import DibsError
    from dibs.sync.notion.report import text_of

    if options_for(desk, sender) is None:
        return None
    try:
        with sync_for(desk, sender) as sync:
            return text_of(sync.run())
    except DibsError as error:
        return f"❌ **Sync from Notion failed**\n\n{error.message}"


class Subscribers:
    """Implements `dibs.sync.notion.schedule.Subscribers`: those whose settings say so, in one store."""

    def __init__(self, open_desk: Callable[[], Desk], only: str | None, usual: float) -> None:
        self._open_desk, self._only, self._usual = open_desk, only, usual

    def intervals(self) -> dict[str, float]:
        from dibs.sync.notion.schedule import known_senders

        if not poll_enabled():
            return {}
        with self._open_desk() as desk:
            senders = known_senders(desk) if self._only is None else [self._only]
            kept = {sender: (config_for(desk, sender), desk.at(sender).settings()) for sender in senders}
        return {
            sender: float(config["notion_poll_interval"]) if "notion_poll_interval" in own else self._usual
            for sender, (config, own) in kept.items()
            if config["notion_integration_enabled"] and config["notion_poll_enabled"]
        }

    def poll(self, sender: str, pages: Iterable[str]) -> Report:
        with self._open_desk() as desk, sync_for(desk, sender) as sync:
            return sync.run(polled=True, pages=pages)

    def sender_of(self, page: str) -> str | None:
        from dibs.core.errors import NotFound
        from dibs.sync.notion.rows import Unfit, row_of

        gateway = connect()
        try:
            return row_of(gateway.page(page)).sender
        except Unfit:
            return ""  # a page of something else, which the integration sees too
        except NotFound:
            return None
        finally:
            gateway.close()
