"""The statements of the store by name."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from dibs.core.fields import FILTERS, LISTS
from dibs.stores.neo4j.names import LABELS, PROPERTIES, TIMES
from dibs.stores.sql import Queries

if TYPE_CHECKING:
    from dibs.core.fields import Field

_FOLDER = os.path.dirname(__file__)


def _matches(property_: str, field: Field) -> str:
    wanted = f"$only.{field.name}"
    if field.kind in LISTS:
        return f"all(each IN coalesce({wanted}, []) WHERE each IN coalesce(t.{property_}, []))"
    return f"({wanted} IS NULL OR t.{property_} = {wanted})"


_SHORT = {
    "{t}": f"t {{.*, embedding: null, wakes_at: null, {', '.join(f'{name}: toString(t.{name})' for name in TIMES)}}}",
    "{e}": "e {.*, timestamp: toString(e.timestamp), dispatched_at: null}",
    "{labels}": "\n".join(
        f"FOREACH (_ IN CASE WHEN event.label = '{label}' THEN [1] ELSE [] END | SET e:{label})"
        for label in LABELS.values()
    ),
    # As the driver would send it: to the microsecond, and with an offset for a zone.
    "{now}": "coalesce($now, datetime.truncate('microsecond', datetime.realtime('Z')))",
    "{task}": "{desk: $desk, sender_hash: $scope, id: $id}",
    "{opens}": "CASE WHEN t.blockers = 0 AND t.wakes_at IS NULL"
    " AND (t.status = 'pending' OR (t.status = 'in_progress' AND t.holder = 'agent')) THEN t.order_key END",
    # As it is, the planner would rather go through all links of the type, by their index, than along those of one task.
    "{blocks}": "r:DEPENDS_ON WHERE coalesce(r.type, '') = 'blocks'",
    "{passes_on}": "coalesce(r.type, '') <> 'parallel_ok'",
    "{hopeless}": "(t.status = 'in_progress' AND t.max_retries IS NOT NULL AND t.retries >= t.max_retries)",
    # Not as alternatives joined by OR: the planner would look each up by itself and sort what it found.
    "{cosine}": "2 * vector.similarity.cosine(t.embedding, $vector) - 1",
    "{free}": "(t.place IS NOT NULL OR (t.wakes_at <= $now AND t.blockers = 0 AND NOT (t.status = 'in_progress'"
    " AND t.max_retries IS NOT NULL AND t.retries >= t.max_retries)))",
    "{member}": "EXISTS { MATCH (a:Agent) USING INDEX a:Agent(desk, id)"
    " WHERE a.desk = $desk AND a.id = $agent AND a.task_limit IS NOT NULL }",
    "{fits}": "{suits} AND {matches}",
    "{suits}": "coalesce(t.assigned_to, $agent) = $agent AND {able}",
    # NULL: what it takes does not matter to who looks
    "{able}": "all(need IN t.requires WHERE need IN coalesce($can, t.requires))",
    # A filter is a map of field names and values; what it leaves out matches every task.
    "{matches}": " AND ".join(_matches(PROPERTIES.get(each.name, each.name), each) for each in FILTERS),
}

# Without what is there for our eyes: the server takes a text to pieces whenever it arrives.
QUERIES = {
    name: re.sub(r"\n +", "\n", text)
    for name, text in Queries(os.path.join(_FOLDER, "queries.cypher"), _SHORT, comment="//").all().items()
}
SCHEMA = Queries(os.path.join(_FOLDER, "schema.cypher"), {}, comment="//").all()
