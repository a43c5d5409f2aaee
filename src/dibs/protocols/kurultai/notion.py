"""Syncs with Notion under kurultai's settings, agents and order of work."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dibs.core.task import Task
    from dibs.desk import Desk
    from dibs.protocols.kurultai.settings import UserConfig
    from dibs.stores.notion.http import HttpGateway
    from dibs.sync.notion.database import Fleet
    from dibs.sync.notion.report import Outlook, Report
    from dibs.sync.notion.syncing import Options, Sync

_WRITE_TIMEOUT = 10.0
_USUAL = 60
_NO = frozenset({"0", "false", "no", "off"})


def sync_enabled() -> bool:
    """True unless NOTION_SYNC_ENABLED switches it off."""
    return os.environ.get("NOTION_SYNC_ENABLED", "").strip().casefold() not in _NO


def poll_enabled() -> bool:
    return sync_enabled() and os.environ.get("NOTION_POLL_ENABLED", "").strip().casefold() not in _NO


def usual_interval() -> float:
    """Seconds between polls for senders that set no interval."""
    said = os.environ.get("NOTION_POLL_INTERVAL", "").strip()
    if not said:
        return _USUAL
    if not (said.isascii() and said.isdigit() and int(said) > 0):
        raise InvalidInput(f"NOTION_POLL_INTERVAL must be a whole number of seconds, not '{said[:20]}'.")
    return int(said)


def config_for(desk: Desk, sender: str) -> UserConfig:
    from dibs.protocols.kurultai.settings import config_of

    return config_of(sender, desk.at(sender).settings())


def options_for(desk: Desk, sender: str) -> Options | None:
    """The sender's options for syncs; None if Notion is switched off."""
    from dibs.protocols.kurultai.policy import MAIN
    from dibs.sync.notion.syncing import Options

    config = config_for(desk, sender)
    if not config["notion_integration_enabled"] or not sync_enabled():
        return None
    database = config["notion_database_id"] or os.environ.get("NOTION_DATABASE_ID", "").strip()
    if not database:
        raise Misconfigured(
            "No Notion database is set. Set notion_database_id for the sender, or NOTION_DATABASE_ID for all senders; "
            "'dibs sync notion init' creates one."
        )
    return Options(
        database,
        fleet(),
        aggressive=config["sync_preference"] == "aggressive",
        notify=config["notion_notify_on_change"],
        push=config["notion_push_enabled"],
        reviewer=MAIN,
        route=_route,
    )


def fleet() -> Fleet:
    from dibs.protocols.kurultai.policy import FLEET
    from dibs.sync.notion.database import Fleet

    return Fleet({profile.id: profile.name for profile in FLEET})


def _route(name: str) -> tuple[str | None, str | None]:
    """The deliverable of a task with this name, and its agent."""
    from dibs.chat.analyst.deliverables import deliverable
    from dibs.protocols.kurultai.policy import agent_for

    kind = deliverable(name)
    return kind, agent_for(kind)


def connect() -> HttpGateway:
    """Connect to Notion. All processes of this user share its rate limit."""
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
            f"Cannot create the folder {folder}: {error.strerror}. Set XDG_CACHE_HOME to a writable folder."
        ) from None
    return os.path.join(folder, "notion.pace")


@contextmanager
def sync_for(desk: Desk, sender: str) -> Iterator[Sync]:
    """A connected Sync. Raise Misconfigured if Notion is switched off for the sender."""
    from dibs.console.streams import watched
    from dibs.core.errors import NotFound, StoreBusy, StoreUnavailable
    from dibs.protocols.kurultai.errors import NotionSyncError
    from dibs.sync.notion.syncing import Sync

    options = options_for(desk, sender)
    if options is None:
        raise Misconfigured(_SWITCHED_OFF if not sync_enabled() else _NOT_SWITCHED_ON)
    gateway = connect()
    try:
        yield Sync(desk, gateway, sender, options, outlook=_outlook, watch=watched)
    except (StoreUnavailable, StoreBusy, Misconfigured, NotFound) as error:
        raise NotionSyncError.because(error) from error
    finally:
        gateway.close()


_SWITCHED_OFF = "Syncs with Notion are switched off by NOTION_SYNC_ENABLED."
_NOT_SWITCHED_ON = (
    "Notion is switched off for this sender. Run 'dibs kurultai config notion_integration_enabled true' with the "
    "sender's --sender."
)


def _outlook(desk: Desk) -> Outlook:
    """The remaining tasks in order, and an estimate of their time."""
    from dibs.chat.conversation.plan import HISTORY, plan_of
    from dibs.core.task import Status
    from dibs.protocols.kurultai.policy import blocked_reason_of
    from dibs.stores.port import Query
    from dibs.sync.notion.database import weight_of, weight_word
    from dibs.sync.notion.report import Outlook, Place

    done = desk.find(Query(desk.scope, (Status.DONE,), limit=HISTORY))
    plan, names = plan_of(desk.graph(finished=False), done), fleet()
    order = tuple(
        Place(
            item.task.title,
            weight_word(weight_of(item.task)),
            names.name_of(item.task.assigned_to or _routed(item.task)),
            "" if item.task.status in _FREE else item.task.reason or blocked_reason_of(item.task) or "blocked",
        )
        for item in plan.order
    )
    return Outlook(round(plan.soonest.total_seconds() / 60), order)


_FREE = frozenset({"ready", "active"})


def _routed(task: Task) -> str | None:
    from dibs.fleet.routing import role_of

    return role_of(task)


def reply_for(desk: Desk, sender: str) -> str | None:
    """The answer to "Sync from Notion"; None if Notion is switched off."""
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
    """Implement `dibs.sync.notion.schedule.Subscribers`: the senders of one store that switched polling on."""

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
        from dibs.sync.notion.database import Unfit, row_of

        gateway = connect()
        try:
            return row_of(gateway.page(page)).sender
        except Unfit:
            return ""  # a page of another database
        except NotFound:
            return None
        finally:
            gateway.close()
