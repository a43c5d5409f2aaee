// Convert a database of an older version, all desks at once, because they share the indexes. Each statement converts a
// limited number of nodes, and does not find converted nodes again.

// name: old_indexes
// Those of version 1 have the label Task.
SHOW INDEXES YIELD name, labelsOrTypes, owningConstraint WHERE name STARTS WITH 'dibs_' AND labelsOrTypes = ['Task']
RETURN name, owningConstraint IS NOT NULL AS constrained

// name: convert_items
// The first SET locks each node, so that `own` leaves out what another process has converted since the MATCH.
MATCH (t:Task) WHERE NOT t:Item AND t.desk IS NOT NULL AND t.sender_hash IS NOT NULL AND t.order_key IS NOT NULL
WITH t LIMIT $bite
SET t.converting = true
WITH collect(t) AS found
WITH found, [t IN found WHERE NOT t:Item] AS own
CALL {
  WITH own
  UNWIND own AS t
  SET t.dibs_status = {old_status}, t.dibs_reason = t.blocked_reason, t.dibs_assigned_to = t.assigned_to
  WITH t
  SET t.status = {documented_status}, t.blocked_reason = {blocked_reason}, t.assigned_to = {agent_shown}
  {relabel}
}
FOREACH (t IN found | REMOVE t.converting)
RETURN size(found) AS number

// name: convert_links
MATCH (b:Item)<-[r:DEPENDS_ON]-(:Item) WHERE b.dibs_status = 'canceled' AND r.type = 'blocks'
WITH r LIMIT $bite
SET r.type = 'resolved'
RETURN count(r) AS number

// name: convert_dispatches
MATCH (e:TaskDispatch) WHERE e.sender_hash STARTS WITH '.'
WITH e LIMIT $bite
REMOVE e:TaskDispatch
RETURN count(e) AS number

// name: convert_audits
MATCH (e:PriorityAudit) WHERE e.sender_hash STARTS WITH '.'
WITH e LIMIT $bite
REMOVE e:PriorityAudit
RETURN count(e) AS number

// name: convert_agents
MATCH (a:Agent) WHERE a.name IS NULL AND a.id IS NOT NULL
WITH a LIMIT $bite
SET a.name = coalesce($names[a.id], a.id)
RETURN count(a) AS number

// name: old_desks
MATCH (d:Desk) WHERE d.version < $version
RETURN collect(d.name) AS names

// name: converted
// Only desks that existed when the conversion began. A desk restored since then is converted when it is opened.
MATCH (d:Desk) WHERE d.version < $version AND d.name IN $desks
SET d.version = $version, d.id = coalesce(d.id, randomUUID()), d.generation = coalesce(d.generation, 1)
