// Every statement of the Neo4j store. All have the parameter $desk. {task} is the pattern of one task of a scope, {opens}
// the place of a task `t` in the queue, {fits} whether the agent may have it. {t} and {e} are all properties of a task or
// an event, with times as text, which the driver reads twenty times as fast. rows.py maps these names to those of dibs.
//
// The planner uses an index of several properties only if the query names each of them, hence `IS NOT NULL`.
//
// A writer reads in a statement after the one that locked the scope. A statement sees all data committed before it, and
// no other writer commits to a locked scope.

// name: desk
MATCH (d:Desk {name: $desk}) RETURN d.version AS version, d.id AS id, d.generation AS generation

// name: make_desk
MERGE (d:Desk {name: $desk})
ON CREATE SET d.seq = 0, d.version = $version
SET d.id = coalesce(d.id, randomUUID()), d.generation = coalesce(d.generation, 1)

// name: lock_scopes
// Setting a property to its present value takes the write lock and writes nothing. The time is read after all locks are
// taken, as are the scopes with due tasks: these scopes, and any with an expired task without a retry left.
UNWIND $scopes AS name
OPTIONAL MATCH (s:Scope {desk: $desk, name: name})
SET s.held = true
WITH count(s) AS there
WITH there, coalesce($now, datetime.realtime()) AS now
RETURN toString(now) AS now, {store}, COLLECT {
    MATCH (t:Item) WHERE t.desk = $desk AND t.wakes_at <= now AND (t.sender_hash IN $scopes OR {hopeless}) RETURN DISTINCT t.sender_hash
} AS due

// name: make_scopes
UNWIND $scopes AS name
MERGE (s:Scope {desk: $desk, name: name})
SET s.held = true
WITH count(s) AS there
WITH there, coalesce($now, datetime.realtime()) AS now
RETURN toString(now) AS now, {store}, COLLECT {
    MATCH (t:Item) WHERE t.desk = $desk AND t.wakes_at <= now AND (t.sender_hash IN $scopes OR {hopeless}) RETURN DISTINCT t.sender_hash
} AS due

// name: lock_desk
MATCH (d:Desk {name: $desk}) SET d.held = true
WITH count(d) AS there
RETURN toString(coalesce($now, datetime.realtime())) AS now, {store}, [] AS due

// name: look
// For readers without a lock.
RETURN toString(coalesce($now, datetime.realtime())) AS now, {store}, [] AS due

// name: write_and_record
// The last statement of a transaction. The desk's lock makes numbers rise in the order of commits.
CALL {
    UNWIND $changes AS change
    MATCH (t:Item {desk: $desk, sender_hash: change.scope, id: change.id})
    SET t += change.values
}
MATCH (d:Desk {name: $desk, id: $store})
SET d.seq = d.seq + size($events)
WITH d.seq - size($events) AS before
UNWIND range(1, size($events)) AS number
WITH before + number AS seq, $events[number - 1] AS event
CREATE (e:Event {desk: $desk, seq: seq})
SET e += event.values
{labels}
RETURN max(seq) AS seq

// name: tie_changes
// Connect a sync run with its changes and their tasks, whichever was recorded first.
MATCH (c:Event) WHERE c.desk = $desk AND c.seq > $after AND c:SyncChange
OPTIONAL MATCH (s:SyncEvent) WHERE s.desk = $desk AND s.id = c.sync_event_id
FOREACH (_ IN CASE WHEN s IS NOT NULL THEN [1] ELSE [] END | MERGE (s)-[:CONTAINS_CHANGE]->(c))
WITH DISTINCT c
MATCH (t:Item {desk: $desk, sender_hash: c.sender_hash, id: c.task_id})
MERGE (c)-[:AFFECTS]->(t)

// name: tie_runs
MATCH (s:Event) WHERE s.desk = $desk AND s.seq > $after AND s:SyncEvent
MATCH (c:SyncChange) WHERE c.desk = $desk AND c.sync_event_id = s.id
MERGE (s)-[:CONTAINS_CHANGE]->(c)

// name: was_committed
MATCH (e:Event {desk: $desk, seq: $seq}) WHERE e.mark = $mark RETURN e.seq AS seq

// name: news
// Whether there are new events or due tasks.
MATCH (d:Desk {name: $desk})
RETURN d.seq AS seq, EXISTS { MATCH (t:Item) WHERE t.desk = $desk AND t.wakes_at <= $now } AS due

// name: scopes
MATCH (s:Scope)
WHERE s.desk = $desk AND s.name IS NOT NULL AND EXISTS { MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.id IS NOT NULL }
RETURN s.name AS name ORDER BY name

// name: every_scope
MATCH (s:Scope) WHERE s.desk = $desk AND s.name IS NOT NULL RETURN s.name AS name ORDER BY name

// name: scopes_with_work
// Scopes with claimable or due tasks.
MATCH (s:Scope)
WHERE s.desk = $desk AND s.name IS NOT NULL AND (EXISTS { MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.place > '' }
   OR EXISTS { MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.wakes_at <= coalesce($now, datetime.realtime()) })
RETURN s.name AS name ORDER BY name

// name: scopes_assigned
// Scopes with tasks assigned to the agent; a claim of assigned tasks locks only these.
WITH coalesce($now, datetime.realtime()) AS now
MATCH (t:Item) WHERE t.dibs_assigned_to = $agent AND t.dibs_status IN ['ready', 'active'] AND t.desk = $desk
  AND (t.place IS NOT NULL OR t.wakes_at <= now)
RETURN DISTINCT t.sender_hash AS name ORDER BY name

// name: claimable_scopes
// The same for readers. Due tasks without a retry left are not claimable.
MATCH (s:Scope)
WHERE s.desk = $desk AND s.name IS NOT NULL AND (EXISTS { MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.place > '' }
   OR EXISTS { MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.wakes_at <= $now AND t.blockers = 0 AND NOT {hopeless} })
RETURN s.name AS name ORDER BY name

// name: added_since
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id IS NOT NULL AND t.created_at > $since
RETURN toString(t.created_at) AS at ORDER BY t.created_at

// name: task_by_id
MATCH (t:Item {task}) RETURN {t} AS task

// name: task_to_move
// With whether it has unfinished children or dependents. Most tasks have neither.
MATCH (t:Item {task})
RETURN {t} AS task,
    EXISTS { (t)-[:HAS_CHILD]->(c:Item) WHERE NOT c.dibs_status IN ['done', 'canceled'] } AS open_children,
    EXISTS { (t)<-[{blocks}]-() } AS dependents

// name: tasks_named
UNWIND $ids AS id
MATCH (t:Item {desk: $desk, sender_hash: $scope, id: id}) RETURN {t} AS task

// name: known_ids
UNWIND $ids AS id
MATCH (t:Item {desk: $desk, sender_hash: $scope, id: id}) RETURN t.id AS id

// name: tasks_of_specs
UNWIND $specs AS spec
MATCH (t:Item {desk: $desk, sender_hash: $scope, spec_ref: spec}) RETURN {t} AS task

// name: ids_by_prefix
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id STARTS WITH $prefix
RETURN t.id AS id ORDER BY t.desk, t.sender_hash, t.id LIMIT $limit

// name: find
MATCH (t:Item)
WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.dibs_status IN $statuses AND t.order_key > $after
  AND ($agent IS NULL OR (t.holder IS NOT NULL AND t.claimed_by = $agent))
  AND ($assigned_to IS NULL OR t.dibs_assigned_to = $assigned_to)
  AND {matches}
  AND ($parent IS NULL OR t.parent = $parent)
  AND ($text IS NULL OR toLower(t.title) CONTAINS toLower($text) OR toLower(t.description) CONTAINS toLower($text))
RETURN {t} AS task ORDER BY t.order_key LIMIT $limit

// name: add_tasks
UNWIND $tasks AS task
CREATE (t:Item) SET t = task
{kinds}

// name: put_parents
UNWIND $pairs AS pair
MATCH (p:Item {desk: $desk, sender_hash: $scope, id: pair[0]}), (c:Item {desk: $desk, sender_hash: $scope, id: pair[1]})
MERGE (p)-[:HAS_CHILD]->(c)
RETURN count(*) AS made

// name: drop_parent
MATCH (:Item)-[r:HAS_CHILD]->(:Item {task}) DELETE r

// name: write
// Properties that are null are removed.
UNWIND $changes AS change
MATCH (t:Item {desk: $desk, sender_hash: change.scope, id: change.id})
SET t += change.values

// name: due_without_retry
// Expired tasks without a retry left.
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.wakes_at <= $now
  AND {hopeless}
RETURN {t} AS task

// name: wake
// Make due tasks claimable. Token and lease stay until the next claim.
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.wakes_at <= $now
WITH collect(t) AS due
UNWIND due AS t
SET t.wakes_at = null
WITH t
SET t.place = {opens}

// name: claim_plainly
// A plain claim of one task: no task is due, the first suitable one is ready, and the agent has no limit. Otherwise it
// writes nothing and returns no row. It reads after it has the lock; claims.py has the other half. It names its indexes
// and is planned once, because the server would plan it every ten seconds while the store grows. A subquery instead of
// FOREACH would be a tenth slower.
CYPHER replan=skip
MATCH (s:Scope {desk: $desk, name: $scope})
SET s.held = true
WITH s, {now} AS now
WITH now, head(COLLECT {
    MATCH (t:Item) USING INDEX t:Item(desk, sender_hash, place)
    WHERE t.desk = $desk AND t.sender_hash = $scope AND t.place > '' AND {suits}
    RETURN t ORDER BY t.desk, t.sender_hash, t.place LIMIT 1
}) AS t, EXISTS {
    MATCH (t:Item) USING INDEX t:Item(desk, wakes_at)
    WHERE t.desk = $desk AND t.wakes_at <= now AND (t.sender_hash = $scope OR {hopeless})
} AS due
WITH now, t, {t} AS task, now + $lease AS expires WHERE NOT due AND (t IS NULL OR t.dibs_status = 'ready') AND NOT {member}
MATCH (d:Desk {name: $desk, id: $store})
FOREACH (free IN CASE WHEN t IS NULL THEN [] ELSE [t] END |
    SET free += $values, free.place = null, free.attempt = free.attempt + 1, free.claimed_at = now, free.started_at = now,
        free.updated_at = now, free.expires_at = expires, free.wakes_at = expires
    SET d.seq = d.seq + 1
    CREATE (e:Event {desk: $desk, seq: d.seq, timestamp: now, dispatched_at: now, task_id: free.id, attempt: free.attempt})
    SET e += $event, e.mark = $mark
    FOREACH (_ IN CASE WHEN $dispatches THEN [1] ELSE [] END | SET e:TaskDispatch)
)
RETURN task, toString(now) AS now, COLLECT {
    MATCH (t)-[r:DEPENDS_ON]->(b:Item) WHERE {passes_on} AND b.dibs_status = 'done'
    RETURN b {.id, .title, .result, .artifacts} ORDER BY b.id
} AS inputs

// name: move_plainly
// The plain end or renewal of a lease, with the tasks that it unblocks.
CYPHER replan=skip
MATCH (s:Scope {desk: $desk, name: $scope})
SET s.held = true
WITH s, {now} AS now
MATCH (:Desk {name: $desk, id: $store})
MATCH (t:Item {task})
WITH now, t, {t} AS task, t.claimed_by AS holder
WHERE t.dibs_status = 'active' AND t.holder = 'agent' AND t.claim_attempt_id = $token AND ($late_ok OR now < t.expires_at)
    AND NOT ($fails AND coalesce(t.retries >= t.max_retries, false))
    AND NOT ($closes AND EXISTS { (t)-[:HAS_CHILD]->(c:Item) WHERE NOT c.dibs_status IN ['done', 'canceled'] })
    AND NOT ($closes AND EXISTS { (t)<-[{blocks}]-() } AND EXISTS {
        MATCH (o:Item) USING INDEX o:Item(desk, wakes_at)
        WHERE o.desk = $desk AND o.wakes_at <= now AND o.sender_hash = $scope
    })
SET t += $values, t.updated_at = now,
    t.completed_at = CASE WHEN $closes THEN now ELSE t.completed_at END,
    t.finished_by = CASE WHEN $signs THEN holder ELSE t.finished_by END,
    t.assigned_to = CASE WHEN $renews THEN t.assigned_to WHEN $closes THEN holder ELSE t.dibs_assigned_to END,
    t.retries = CASE WHEN $fails THEN t.retries + 1 ELSE t.retries END,
    t.expires_at = CASE WHEN $renews THEN coalesce(now + $lease, t.expires_at) END
WITH now, t, task
SET t.wakes_at = CASE WHEN $renews THEN t.expires_at WHEN t.dibs_status = 'ready' AND t.not_before > now THEN t.not_before END
WITH now, t, task
SET t.place = {opens}
WITH now, t, task
MATCH (d:Desk {name: $desk})
FOREACH (event IN $events |
    SET d.seq = d.seq + 1
    CREATE (e:Event {desk: $desk, seq: d.seq, timestamp: now, attempt: t.attempt})
    SET e += event, e.mark = $mark
)
WITH now, t, task
CALL {
    WITH t
    WITH t AS done WHERE $closes
    MATCH (done)<-[{blocks}]-(t:Item)
    SET t.blockers = t.blockers - 1
    WITH t
    SET t.place = {opens}
    WITH t ORDER BY t.id WHERE t.place IS NOT NULL
    RETURN collect(t.id) AS unblocked
}
RETURN task, toString(now) AS now, unblocked

// name: told_under
// Whether a move whose answer was lost was committed, and the dependents that are claimable or were claimed with it.
MATCH (e:Event) USING INDEX e:Event(desk, task_id, seq) WHERE e.desk = $desk AND e.task_id = $id AND e.seq > 0 AND e.mark = $mark
MATCH (t:Item {task})
RETURN {t} AS task, COLLECT { MATCH (t)<-[{blocks}]-(o:Item)
    WHERE o.place IS NOT NULL OR o.claim_attempt_id IN $tokens RETURN o.id ORDER BY o.id } AS unblocked

// name: claim_head
// The first suitable tasks of a scope, from the index, and whether each has links. None for a member whose limit was not
// checked.
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.place > '' AND {fits} AND ($bounded OR NOT {member})
RETURN {t} AS task, EXISTS { (t)-[:DEPENDS_ON]->() } AS linked
ORDER BY t.desk, t.sender_hash, t.place LIMIT $limit

// name: due_head
// The same for due tasks that no writer has woken yet.
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.wakes_at <= $now AND t.blockers = 0 AND {fits}
  AND NOT {hopeless}
RETURN {t} AS task ORDER BY t.order_key LIMIT $limit

// name: assigned_head
// The first tasks assigned to the agent, claimable or due.
MATCH (t:Item) WHERE t.dibs_assigned_to = $agent AND t.dibs_status IN ['ready', 'active'] AND t.desk = $desk AND t.sender_hash IN $scopes
  AND {free} AND {able} AND {matches}
RETURN {t} AS task, EXISTS { (t)-[:DEPENDS_ON]->() } AS linked
ORDER BY t.order_key LIMIT $limit

// name: held_under
UNWIND $tokens AS token
MATCH (t:Item {desk: $desk, claim_attempt_id: token}) WHERE t.dibs_status = 'active' RETURN {t} AS task

// name: inputs
// The results of finished prerequisites.
MATCH (:Item {task})-[r:DEPENDS_ON]->(b:Item) WHERE {passes_on} AND b.dibs_status = 'done'
RETURN b.id AS id, b.title AS title, b.result AS result, b.artifacts AS artifacts ORDER BY b.id

// name: open_children
MATCH (:Item {task})-[:HAS_CHILD]->(c:Item) WHERE NOT c.dibs_status IN ['done', 'canceled']
RETURN c.id AS id ORDER BY id LIMIT 5

// name: release_dependents
// A prerequisite was finished. A dependent without another one is claimable if its own state allows that. Links to a
// canceled prerequisite become `resolved`, because the document's query waits for completed ones.
MATCH (:Item {task})<-[{blocks}]-(t:Item)
SET t.blockers = t.blockers - 1, r.type = CASE WHEN $canceled THEN 'resolved' ELSE r.type END
WITH t
SET t.place = {opens}
WITH t
RETURN t.id AS id, t.place IS NOT NULL AS open, CASE WHEN $canceled THEN {t} END AS task ORDER BY id

// name: gate_dependents
// A finished prerequisite was reopened.
MATCH (:Item {task})<-[{blocks}]-(t:Item)
SET t.blockers = t.blockers + 1, t.place = null, r.type = 'blocks'

// name: gated_dependents
MATCH (:Item {task})<-[{blocks}]-(t:Item) RETURN {t} AS task ORDER BY t.id

// name: links_between
UNWIND $pairs AS pair
MATCH (:Item {desk: $desk, sender_hash: $scope, id: pair[0]})-[r:DEPENDS_ON]->(:Item {desk: $desk, sender_hash: $scope, id: pair[1]})
RETURN pair[0] AS task, pair[1] AS on, r.type AS type, r.weight AS weight, r.detected_by AS detected_by, r.confidence AS confidence

// name: put_links
// Each replaces a former link between the same tasks.
UNWIND $links AS link
MATCH (a:Item {desk: $desk, sender_hash: $scope, id: link.task}), (b:Item {desk: $desk, sender_hash: $scope, id: link.on})
MERGE (a)-[r:DEPENDS_ON]->(b)
ON CREATE SET r.created_at = $now
SET r += link.values
SET r.type = CASE WHEN r.type = 'blocks' AND b.dibs_status = 'canceled' THEN 'resolved' ELSE r.type END
RETURN count(*) AS made

// name: drop_links
UNWIND $pairs AS pair
MATCH (:Item {desk: $desk, sender_hash: $scope, id: pair[0]})-[r:DEPENDS_ON]->(:Item {desk: $desk, sender_hash: $scope, id: pair[1]})
DELETE r

// name: recount
// Count the unfinished prerequisites of these tasks, and derive their places.
UNWIND $ids AS id
MATCH (t:Item {desk: $desk, sender_hash: $scope, id: id})
SET t.blockers = COUNT { (t)-[{blocks}]->(b:Item) WHERE NOT b.dibs_status IN ['done', 'canceled'] }
WITH t
SET t.place = {opens}

// name: links_of
UNWIND $ids AS id
MATCH (:Item {desk: $desk, sender_hash: $scope, id: id})-[r:DEPENDS_ON]-(:Item)
WITH DISTINCT r, startNode(r) AS a, endNode(r) AS b
RETURN a.id AS task, b.id AS on, r.type AS type, r.weight AS weight, r.detected_by AS detected_by, r.confidence AS confidence
ORDER BY task, on

// name: links_from
UNWIND $ids AS id
MATCH (a:Item {desk: $desk, sender_hash: $scope, id: id})-[r:DEPENDS_ON]->(b:Item)
RETURN a.id AS task, b.id AS on, r.type AS type, r.weight AS weight, r.detected_by AS detected_by, r.confidence AS confidence

// name: links_in_scope
MATCH (a:Item)-[r:DEPENDS_ON]->(b:Item) WHERE a.desk = $desk AND a.sender_hash = $scope AND a.id IS NOT NULL
RETURN a.id AS task, b.id AS on, r.type AS type, r.weight AS weight, r.detected_by AS detected_by, r.confidence AS confidence
ORDER BY task, on

// name: way_back
// A shortest path along prerequisites from one task to another. A parent comes after its children.
MATCH (a:Item {desk: $desk, sender_hash: $scope, id: $start}), (b:Item {desk: $desk, sender_hash: $scope, id: $goal})
MATCH p = shortestPath((a)-[:DEPENDS_ON|HAS_CHILD*]->(b))
WHERE all(r IN relationships(p) WHERE {passes_on})
RETURN [n IN nodes(p) | n.id] AS ids

// name: edges_in_scope
MATCH (a:Item)-[r:DEPENDS_ON|HAS_CHILD]->(b:Item)
WHERE a.desk = $desk AND a.sender_hash = $scope AND a.id IS NOT NULL AND {passes_on}
RETURN a.id AS task, b.id AS on

// name: tasks_in_scope
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id IS NOT NULL AND ($finished OR NOT t.dibs_status IN ['done', 'canceled'])
RETURN {t} AS task ORDER BY t.id

// name: events
MATCH (e:Event) WHERE e.desk = $desk AND e.seq > $after AND ($scope IS NULL OR e.sender_hash = $scope)
RETURN {e} AS event ORDER BY e.desk, e.seq LIMIT $limit

// name: newest_events
MATCH (e:Event) WHERE e.desk = $desk AND e.seq > $after AND ($scope IS NULL OR e.sender_hash = $scope)
RETURN {e} AS event ORDER BY e.desk DESC, e.seq DESC LIMIT $limit

// name: events_of_task
MATCH (e:Event) USING INDEX e:Event(desk, task_id, seq)
WHERE e.desk = $desk AND e.task_id = $task AND e.seq > $after AND ($scope IS NULL OR e.sender_hash = $scope)
RETURN {e} AS event ORDER BY e.desk, e.task_id, e.seq LIMIT $limit

// name: newest_events_of_task
MATCH (e:Event) USING INDEX e:Event(desk, task_id, seq)
WHERE e.desk = $desk AND e.task_id = $task AND e.seq > $after AND ($scope IS NULL OR e.sender_hash = $scope)
RETURN {e} AS event ORDER BY e.desk DESC, e.task_id DESC, e.seq DESC LIMIT $limit

// name: count_by_status
// From the index alone.
UNWIND $statuses AS status
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.dibs_status = status
RETURN status, count(*) AS number

// name: count_open
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.place > '' RETURN count(*) AS number

// name: count_woken
// Expired tasks that were woken.
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.dibs_status = 'active' AND t.place IS NOT NULL
RETURN count(*) AS number

// name: count_timed
// Leased and deferred tasks: how many are also blocked, due but not woken, or not due; and the next due time.
MATCH (t:Item) WHERE t.desk = $desk AND t.wakes_at IS NOT NULL AND t.sender_hash IN $scopes
WITH t, t.wakes_at <= $now AS due
RETURN t.dibs_status AS status, count(*) AS number, count(CASE WHEN t.blockers > 0 THEN 1 END) AS gated,
    count(CASE WHEN due AND t.blockers = 0 AND NOT {hopeless} THEN 1 END) AS due,
    count(CASE WHEN NOT due AND t.dibs_status = 'ready' AND t.blockers = 0 THEN 1 END) AS later,
    toString(min(CASE WHEN NOT due THEN t.wakes_at END)) AS next_due

// name: agent_by_id
MATCH (a:Agent {desk: $desk, id: $id}) WHERE a.started_at IS NOT NULL RETURN a {.*, started_at: toString(a.started_at), ended_at: toString(a.ended_at)} AS agent

// name: agents
MATCH (a:Agent) WHERE a.desk = $desk AND a.id IS NOT NULL AND a.started_at IS NOT NULL RETURN a {.*, started_at: toString(a.started_at), ended_at: toString(a.ended_at)} AS agent ORDER BY a.started_at, a.id

// name: put_agent
// A later registration of a name replaces the former.
MERGE (a:Agent {desk: $desk, id: $id}) SET a += $values

// name: put_member
MERGE (a:Agent {desk: $desk, id: $id})
SET a += $values, a.enrolled_at = coalesce(a.enrolled_at, $now), a.seen_at = coalesce(a.seen_at, $now)

// name: drop_member
// An agent that is also registered remains registered.
MATCH (a:Agent {desk: $desk, id: $agent})
REMOVE a.role, a.capabilities, a.task_limit, a.enrolled_at, a.seen_at
WITH a WHERE a.started_at IS NULL
DELETE a

// name: lock_member
MATCH (a:Agent {desk: $desk, id: $agent}) WHERE a.task_limit IS NOT NULL
SET a.held = true
RETURN a.task_limit AS limit, toString(a.seen_at) AS seen_at

// name: see_member
MATCH (a:Agent {desk: $desk, id: $agent}) SET a.seen_at = $now

// name: held_by
// The number of an agent's live leases. Renewals do not move the entries of this index, so none is missed.
MATCH (s:Scope) WHERE s.desk = $desk AND s.name IS NOT NULL
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.dibs_status = 'active'
  AND t.claimed_by = $agent AND t.holder = 'agent' AND t.expires_at > $now
RETURN count(t) AS held

// name: members
// One member or all, each with the numbers of its live leases and of free tasks assigned to it.
MATCH (a:Agent) WHERE a.desk = $desk AND a.id IS NOT NULL AND a.task_limit IS NOT NULL AND coalesce($agent, a.id) = a.id
RETURN a {.*, enrolled_at: toString(a.enrolled_at), seen_at: toString(a.seen_at)} AS member, COUNT {
    MATCH (s:Scope) WHERE s.desk = $desk AND s.name IS NOT NULL
    MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.dibs_status = 'active'
      AND t.claimed_by = a.id AND t.holder = 'agent' AND t.expires_at > $now
} AS held, COUNT {
    MATCH (t:Item) WHERE t.dibs_assigned_to = a.id AND t.dibs_status IN ['ready', 'active'] AND t.desk = $desk AND {free}
} AS waiting ORDER BY a.id

// name: prune_events
// A batch of the oldest events. The newest event stays.
MATCH (e:Event) WHERE e.desk = $desk AND e.seq > 0
WITH e ORDER BY e.desk, e.seq LIMIT $bite
MATCH (d:Desk {name: $desk})
WHERE e.timestamp < $before AND e.seq < d.seq
DETACH DELETE e
RETURN count(*) AS gone

// name: prune_tasks
// Tasks finished before a time, without unfinished dependents and without children.
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.completed_at < $before
  AND NOT EXISTS { (t)<-[:DEPENDS_ON]-(o:Item) WHERE NOT o.dibs_status IN ['done', 'canceled'] }
  AND NOT EXISTS { (t)-[:HAS_CHILD]->() }
WITH t LIMIT $bite
DETACH DELETE t
RETURN count(*) AS gone

// name: dump_tasks
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id IS NOT NULL RETURN {t} AS task ORDER BY t.created_at, t.id

// name: dump_events
MATCH (e:Event) WHERE e.desk = $desk AND e.seq > 0 RETURN {e} AS event ORDER BY e.desk, e.seq

// name: open_import
MATCH (d:Desk {name: $desk, id: $store})
SET d.held = true
MERGE (i:Import {desk: $desk, name: $staging})
SET i.steps = coalesce(i.steps, 0), i.touched_at = datetime.realtime()
RETURN i.steps AS steps

// name: take_step
// The number of steps that are done. The caller goes on only if this step is the next one.
MATCH (i:Import {desk: $desk, name: $staging})
SET i.touched_at = datetime.realtime()
WITH i, i.steps AS done
FOREACH (_ IN CASE WHEN done = $step THEN [1] ELSE [] END | SET i.steps = done + 1)
RETURN done

// name: close_import
MATCH (i:Import {desk: $desk, name: $staging})
WITH i, i.steps AS steps
DELETE i
RETURN count(*) AS closed

// name: import_is_published
MATCH (i:Import {desk: $desk, name: $staging}) RETURN i.published IS NOT NULL AS published

// name: mark_published
MATCH (i:Import {desk: $desk, name: $staging})
WITH i, i.published IS NOT NULL AS before
SET i.published = true, i.touched_at = datetime.realtime()
RETURN before

// name: abandoned_imports
// An import takes a step every few seconds, so one that took none for an hour was given up.
MATCH (i:Import) WHERE i.desk = $desk AND i.name > '' AND i.name <> $but
  AND i.touched_at < datetime.realtime() - duration('PT1H')
RETURN i.name AS name, i.published IS NOT NULL AS published

// name: stage_events
UNWIND $events AS event
CREATE (e:Event {desk: $desk, seq: event.seq})
SET e += event.values, e.dibs_label = event.label

// name: published_already
// A task of an import whose id is taken.
MATCH (s:Item) WHERE s.desk = $staging AND s.sender_hash IS NOT NULL AND s.id IS NOT NULL
MATCH (t:Item {desk: $desk, sender_hash: s.sender_hash, id: s.id})
RETURN t.sender_hash AS scope, t.id AS id ORDER BY scope, id LIMIT 1

// name: publish_tasks
MATCH (t:Item) WHERE t.desk = $staging AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
SET t.desk = $desk
{relabel}

// name: publish_events
// The first of those that are left get the next numbers, under the desk's lock.
MATCH (i:Import {desk: $desk, name: $staging})
SET i.touched_at = datetime.realtime()
WITH i, COLLECT {
    MATCH (e:Event) WHERE e.desk = $staging AND e.seq > 0 RETURN e ORDER BY e.desk, e.seq LIMIT $bite
} AS some
WHERE size(some) > 0
MATCH (d:Desk {name: $desk, id: $store})
SET d.seq = d.seq + size(some)
WITH some, d.seq - size(some) AS before
UNWIND range(1, size(some)) AS number
WITH before, before + number AS seq, some[number - 1] AS e
WITH before, seq, e, {label: e.dibs_label} AS event
SET e.desk = $desk, e.seq = seq, e.dibs_label = null
{labels}
RETURN before, count(*) AS number, count(CASE WHEN e:SyncEvent OR e:SyncChange THEN 1 END) > 0 AS spread

// name: discard_tasks
// No query finds discarded tasks. They are deleted later, in batches.
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
SET t:Discarded
REMOVE {all_kinds}

// name: discard_settings
MATCH (c:UserConfig) WHERE c.desk = $desk AND c.sender_hash IS NOT NULL DETACH DELETE c

// name: discard_history
MATCH (i:Import {desk: $desk, name: $staging}), (d:Desk {name: $desk}) SET i.old_events = d.seq

// name: drop_old_events
MATCH (i:Import {desk: $desk, name: $staging})
MATCH (e:Event) WHERE e.desk = $desk AND e.seq <= i.old_events
WITH e LIMIT $bite
DETACH DELETE e
RETURN count(*) AS number

// name: drop_discarded
MATCH (t:Discarded {desk: $desk})
WITH t LIMIT $bite
DETACH DELETE t
RETURN count(*) AS number

// name: drop_staged_tasks
MATCH (t:Item) WHERE t.desk = $staging AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
WITH t LIMIT $bite
DETACH DELETE t
RETURN count(*) AS number

// name: drop_staged_events
MATCH (e:Event) WHERE e.desk = $staging AND e.seq > 0
WITH e LIMIT $bite
DETACH DELETE e
RETURN count(*) AS number

// name: next_generation
MATCH (d:Desk {name: $desk}) SET d.generation = d.generation + 1 REMOVE d.vector_length

// name: reschedule
// Derive wakes_at and place, as `schedule_of` in rows.py does for one task.
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id IS NOT NULL
SET t.wakes_at = CASE
    WHEN t.dibs_status = 'ready' AND t.not_before > $now THEN t.not_before
    WHEN t.dibs_status = 'active' AND t.holder = 'agent' THEN t.expires_at END
WITH t
SET t.place = {opens}

// name: recount_scope
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id IS NOT NULL
SET t.blockers = COUNT { (t)-[{blocks}]->(b:Item) WHERE NOT b.dibs_status IN ['done', 'canceled'] }

// name: problems
// Values that do not match those they are derived from, by the questions in maintenance.py. Due tasks that no writer has
// woken are correct. Events older than a task belong to a pruned task with the same id. A task whose scope is missing
// could be written by two writers at once.
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND t.blockers <>
    COUNT { (t)-[{blocks}]->(b:Item) WHERE NOT b.dibs_status IN ['done', 'canceled'] }
RETURN 'blockers' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
WITH t,
    CASE WHEN t.dibs_status = 'ready' THEN t.not_before WHEN t.dibs_status = 'active' AND t.holder = 'agent' THEN t.expires_at END AS opens_at
WITH t, CASE WHEN opens_at > $now OR t.wakes_at IS NOT NULL THEN opens_at END AS wakes_at
WHERE coalesce(toString(t.wakes_at), '') <> coalesce(toString(wakes_at), '') OR coalesce(t.place, '') <> coalesce({opens}, '')
RETURN 'schedule' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND (t.dibs_status IN ['done', 'canceled']) <> (t.completed_at IS NOT NULL)
RETURN 'finished' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND (
    coalesce(t.status, '') <> {documented_status} OR coalesce(t.blocked_reason, '') <> coalesce({blocked_reason}, '')
    OR coalesce(t.assigned_to, '') <> coalesce({agent_shown}, ''))
RETURN 'documented' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Item)-[r:DEPENDS_ON]->(b:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
  AND (coalesce(r.type, '') = 'blocks' AND b.dibs_status = 'canceled'
    OR coalesce(r.type, '') = 'resolved' AND b.dibs_status <> 'canceled')
RETURN 'resolved' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
  AND (t:Task) = (t.sender_hash STARTS WITH '.')
RETURN 'labels' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND (
    (t.dibs_status = 'active') <> (t.holder IS NOT NULL)
    OR (t.holder IS NOT NULL AND (t.claim_attempt_id IS NULL OR t.claimed_by IS NULL OR t.claimed_at IS NULL OR t.attempt < 1))
    OR (t.holder IS NULL AND (t.claimed_by IS NOT NULL OR t.expires_at IS NOT NULL))
    OR (t.holder = 'human' AND t.expires_at IS NOT NULL))
RETURN 'leases' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND EXISTS {
    MATCH (e:Event) WHERE e.desk = $desk AND e.task_id = t.id AND e.seq > 0 AND e.sender_hash = t.sender_hash AND e.attempt > t.attempt AND e.timestamp >= t.created_at
}
RETURN 'attempts' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (a:Item)-[:DEPENDS_ON|HAS_CHILD]->(b:Item) WHERE a.desk = $desk AND a.sender_hash IS NOT NULL AND a.id IS NOT NULL AND (b.desk <> a.desk OR b.sender_hash <> a.sender_hash)
RETURN 'cross_links' AS question, a.sender_hash + '/' + a.id + ' → ' + b.sender_hash + '/' + b.id AS subject
UNION ALL
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND t.parent IS NOT NULL AND NOT EXISTS { (p:Item)-[:HAS_CHILD]->(t) WHERE p.id = t.parent }
RETURN 'parents' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND NOT EXISTS { MATCH (s:Scope) WHERE s.desk = $desk AND s.name = t.sender_hash }
RETURN 'scopes' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (d:Desk {name: $desk}) WHERE d.vector_length IS NOT NULL
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND size(t.embedding) <> d.vector_length
RETURN 'vectors' AS question, t.sender_hash + '/' + t.id AS subject

// name: redocument
// Derive the properties that the document's queries read.
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
SET t.status = {documented_status}, t.blocked_reason = {blocked_reason}, t.assigned_to = {agent_shown}

// name: reresolve
MATCH (t:Item)-[r:DEPENDS_ON]->(b:Item)
WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
  AND coalesce(r.type, '') IN ['blocks', 'resolved']
SET r.type = CASE WHEN b.dibs_status = 'canceled' THEN 'resolved' ELSE 'blocks' END

// name: relabel
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
{relabel}

// name: repair_scopes
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
WITH DISTINCT t.sender_hash AS name
MERGE (:Scope {desk: $desk, name: name})

// name: adopt
// Tie parents to their children, where another tool did not.
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND t.parent IS NOT NULL AND NOT EXISTS { (p:Item)-[:HAS_CHILD]->(t) WHERE p.id = t.parent }
MATCH (p:Item {desk: $desk, sender_hash: t.sender_hash, id: t.parent})
MERGE (p)-[:HAS_CHILD]->(t)

// name: drop_orphan_parents
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND t.parent IS NOT NULL AND NOT EXISTS { (p:Item)-[:HAS_CHILD]->(t) WHERE p.id = t.parent }
SET t.parent = null

// name: similarity
// The indexes for similar tasks, and the length of vectors.
SHOW INDEXES YIELD name, state, options WHERE name IN ['task_embedding', 'task_fulltext'] AND state = 'ONLINE'
RETURN name, options.indexConfig['vector.dimensions'] AS length

// name: put_vectors
// As numbers of 4 bytes.
UNWIND $vectors AS given
MATCH (t:Item {desk: $desk, sender_hash: $scope, id: given.id})
CALL db.create.setNodeVectorProperty(t, 'embedding', given.vector)
RETURN count(*) AS put

// name: drop_vectors
UNWIND $ids AS id
MATCH (t:Item {desk: $desk, sender_hash: $scope, id: id})
REMOVE t.embedding

// name: vectors
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.dibs_status IN $statuses AND t.embedding IS NOT NULL
RETURN t.id AS id, t.embedding AS vector

// name: vector_length
MATCH (d:Desk {name: $desk}) RETURN d.vector_length AS length

// name: set_vector_length
MATCH (d:Desk {name: $desk}) SET d.vector_length = $length

// name: other_length
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND size(t.embedding) <> $length
RETURN size(t.embedding) AS length LIMIT 1

// name: number_in_scope
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.dibs_status IN $statuses
WITH t LIMIT $limit
RETURN count(t) AS number

// name: closest_by_index
// The index's own score is rounded, and between 0 and 1.
CALL db.index.vector.queryNodes('task_embedding', $width, $vector) YIELD node AS t
WITH t WHERE t.desk = $desk AND t.sender_hash = $scope AND t.dibs_status IN $statuses
WITH t.id AS id, round({cosine}, 6) AS score
RETURN id, score ORDER BY score DESC, id LIMIT $limit

// name: closest_of_all
MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.dibs_status IN $statuses AND size(t.embedding) = size($vector)
WITH t.id AS id, round({cosine}, 6) AS score
RETURN id, score ORDER BY score DESC, id LIMIT $limit

// name: by_words
CALL db.index.fulltext.queryNodes('task_fulltext', $words) YIELD node AS t, score
WITH t, score WHERE t.desk = $desk AND t.sender_hash = $scope AND t.dibs_status IN $statuses
RETURN t.id AS id ORDER BY score DESC, id LIMIT $limit

// name: settings
MATCH (c:UserConfig {desk: $desk, sender_hash: $scope}) RETURN c {.*, extra: coalesce(c.extra, '{}')} AS settings

// name: put_settings
MERGE (c:UserConfig {desk: $desk, sender_hash: $scope}) SET c = $values
