// Every statement of the Neo4j store. $desk is always there; {task} stands for the pattern of one task of a scope,
// {opens} for the place in the queue that follows from what a task `t` says of itself, {fits} for whether the asker may have it,
// {t} and {e} for all that a task or an event says, with times as text: the driver takes twenty times as long to read the
// real ones. rows.py relates the words and names here to those of dibs.
//
// An index of several properties is used only by who says something about each of them: hence `IS NOT NULL` here and there.
//
// Whatever decides anything is read in a statement after the one that locked the scope: reads here see what is committed
// at their own moment, and nothing in a scope is committed while its lock is another's.

// name: desk
MATCH (d:Desk {name: $desk}) RETURN d.version AS version

// name: lock_scopes
// Setting a property takes the node's write lock, also when its value stays the same: nothing is written. The time is
// told only when all locks are ours, and so is where time has opened something: in these
// scopes, or in any where a lease ended that has no retry left.
UNWIND $scopes AS name
OPTIONAL MATCH (s:Scope {desk: $desk, name: name})
SET s.held = true
WITH count(s) AS there
WITH there, coalesce($now, datetime.realtime()) AS now
RETURN toString(now) AS now, COLLECT {
    MATCH (t:Task) WHERE t.desk = $desk AND t.wakes_at <= now AND (t.sender_hash IN $scopes OR {hopeless}) RETURN DISTINCT t.sender_hash
} AS due

// name: make_scopes
UNWIND $scopes AS name
MERGE (s:Scope {desk: $desk, name: name})
SET s.held = true
WITH count(s) AS there
WITH there, coalesce($now, datetime.realtime()) AS now
RETURN toString(now) AS now, COLLECT {
    MATCH (t:Task) WHERE t.desk = $desk AND t.wakes_at <= now AND (t.sender_hash IN $scopes OR {hopeless}) RETURN DISTINCT t.sender_hash
} AS due

// name: lock_desk
MATCH (d:Desk {name: $desk}) SET d.held = true
WITH count(d) AS there
RETURN toString(coalesce($now, datetime.realtime())) AS now, [] AS due

// name: look
// For readers who need no lock.
RETURN toString(coalesce($now, datetime.realtime())) AS now, [] AS due

// name: write_and_record
// The last statement of a transaction: numbers are given under the desk's lock, so they are committed in their order.
CALL {
    UNWIND $changes AS change
    MATCH (t:Task {desk: $desk, sender_hash: change.scope, id: change.id})
    SET t += change.values
}
MATCH (d:Desk {name: $desk})
SET d.seq = d.seq + size($events)
WITH d.seq - size($events) AS before
UNWIND range(1, size($events)) AS number
WITH before + number AS seq, $events[number - 1] AS event
CREATE (e:Event {desk: $desk, seq: seq})
SET e += event.values
{labels}
RETURN max(seq) AS seq

// name: tie_changes
// A run of a synchronisation, its changes and their tasks find each other, whichever was told first.
MATCH (c:Event) WHERE c.desk = $desk AND c.seq > $after AND c:SyncChange
OPTIONAL MATCH (s:SyncEvent) WHERE s.desk = $desk AND s.id = c.sync_event_id
FOREACH (_ IN CASE WHEN s IS NOT NULL THEN [1] ELSE [] END | MERGE (s)-[:CONTAINS_CHANGE]->(c))
WITH DISTINCT c
MATCH (t:Task {desk: $desk, sender_hash: c.sender_hash, id: c.task_id})
MERGE (c)-[:AFFECTS]->(t)

// name: tie_runs
MATCH (s:Event) WHERE s.desk = $desk AND s.seq > $after AND s:SyncEvent
MATCH (c:SyncChange) WHERE c.desk = $desk AND c.sync_event_id = s.id
MERGE (s)-[:CONTAINS_CHANGE]->(c)

// name: was_committed
MATCH (e:Event {desk: $desk, seq: $seq}) WHERE e.mark = $mark RETURN e.seq AS seq

// name: news
// Who waits looks whether anything was written, or time has opened something.
MATCH (d:Desk {name: $desk})
RETURN d.seq AS seq, EXISTS { MATCH (t:Task) WHERE t.desk = $desk AND t.wakes_at <= $now } AS due

// name: scopes
MATCH (s:Scope)
WHERE s.desk = $desk AND s.name IS NOT NULL AND EXISTS { MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.id IS NOT NULL }
RETURN s.name AS name ORDER BY name

// name: every_scope
MATCH (s:Scope) WHERE s.desk = $desk AND s.name IS NOT NULL RETURN s.name AS name ORDER BY name

// name: scopes_with_work
// Where something can be claimed, or is due.
MATCH (s:Scope)
WHERE s.desk = $desk AND s.name IS NOT NULL AND (EXISTS { MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.place > '' }
   OR EXISTS { MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.wakes_at <= coalesce($now, datetime.realtime()) })
RETURN s.name AS name ORDER BY name

// name: scopes_assigned
// Where something waits for somebody in particular: who wants nothing else need not lock the other scopes.
WITH coalesce($now, datetime.realtime()) AS now
MATCH (t:Task) WHERE t.assigned_to = $agent AND t.status IN ['pending', 'in_progress'] AND t.desk = $desk
  AND (t.place IS NOT NULL OR t.wakes_at <= now)
RETURN DISTINCT t.sender_hash AS name ORDER BY name

// name: claimable_scopes
// The same for who only looks: what is due without a retry left is nobody's to claim.
MATCH (s:Scope)
WHERE s.desk = $desk AND s.name IS NOT NULL AND (EXISTS { MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.place > '' }
   OR EXISTS { MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.wakes_at <= $now AND t.blockers = 0 AND NOT {hopeless} })
RETURN s.name AS name ORDER BY name

// name: added_since
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id IS NOT NULL AND t.created_at > $since
RETURN toString(t.created_at) AS at ORDER BY t.created_at

// name: task_by_id
MATCH (t:Task {task}) RETURN {t} AS task

// name: task_to_move
// Along with whether a child of it is unfinished, and whether anything waits for it: most have neither.
MATCH (t:Task {task})
RETURN {t} AS task,
    EXISTS { (t)-[:HAS_CHILD]->(c:Task) WHERE NOT c.status IN ['completed', 'aborted'] } AS open_children,
    EXISTS { (t)<-[{blocks}]-() } AS dependents

// name: tasks_named
UNWIND $ids AS id
MATCH (t:Task {desk: $desk, sender_hash: $scope, id: id}) RETURN {t} AS task

// name: known_ids
UNWIND $ids AS id
MATCH (t:Task {desk: $desk, sender_hash: $scope, id: id}) RETURN t.id AS id

// name: tasks_of_specs
UNWIND $specs AS spec
MATCH (t:Task {desk: $desk, sender_hash: $scope, spec_ref: spec}) RETURN {t} AS task

// name: ids_by_prefix
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id STARTS WITH $prefix
RETURN t.id AS id ORDER BY t.desk, t.sender_hash, t.id LIMIT $limit

// name: find
MATCH (t:Task)
WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.status IN $statuses AND t.order_key > $after
  AND ($agent IS NULL OR (t.holder IS NOT NULL AND t.claimed_by = $agent))
  AND ($assigned_to IS NULL OR t.assigned_to = $assigned_to)
  AND {matches}
  AND ($parent IS NULL OR t.parent = $parent)
  AND ($text IS NULL OR toLower(t.title) CONTAINS toLower($text) OR toLower(t.description) CONTAINS toLower($text))
RETURN {t} AS task ORDER BY t.order_key LIMIT $limit

// name: add_tasks
UNWIND $tasks AS task
CREATE (t:Task) SET t = task

// name: put_parents
UNWIND $pairs AS pair
MATCH (p:Task {desk: $desk, sender_hash: $scope, id: pair[0]}), (c:Task {desk: $desk, sender_hash: $scope, id: pair[1]})
MERGE (p)-[:HAS_CHILD]->(c)
RETURN count(*) AS made

// name: drop_parent
MATCH (:Task)-[r:HAS_CHILD]->(:Task {task}) DELETE r

// name: write
// Properties that are null are removed.
UNWIND $changes AS change
MATCH (t:Task {desk: $desk, sender_hash: change.scope, id: change.id})
SET t += change.values

// name: due_without_retry
// Expired leases that may not be handed on once more.
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.wakes_at <= $now
  AND {hopeless}
RETURN {t} AS task

// name: wake
// What time alone has opened. Token and lease stay as they are until someone claims.
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.wakes_at <= $now
WITH collect(t) AS due
UNWIND due AS t
SET t.wakes_at = null
WITH t
SET t.place = {opens}

// name: claim_plainly
// The whole of a plain claim of one task, in one statement: nothing has to be woken, the first that fits was never taken,
// and the asker is held to no limit. Else there is no row, and nothing is written. What it reads is read after it has the
// lock; claims.py has the other half. Planned once, with the indexes named: in a store that grows the server would plan it
// anew every ten seconds. A subquery in place of FOREACH would take it a tenth longer.
CYPHER replan=skip
MATCH (s:Scope {desk: $desk, name: $scope})
SET s.held = true
WITH s, {now} AS now
WITH now, head(COLLECT {
    MATCH (t:Task) USING INDEX t:Task(desk, sender_hash, place)
    WHERE t.desk = $desk AND t.sender_hash = $scope AND t.place > '' AND {suits}
    RETURN t ORDER BY t.desk, t.sender_hash, t.place LIMIT 1
}) AS t, EXISTS {
    MATCH (t:Task) USING INDEX t:Task(desk, wakes_at)
    WHERE t.desk = $desk AND t.wakes_at <= now AND (t.sender_hash = $scope OR {hopeless})
} AS due
WITH now, t, {t} AS task, now + $lease AS expires WHERE NOT due AND (t IS NULL OR t.status = 'pending') AND NOT {member}
MATCH (d:Desk {name: $desk})
FOREACH (free IN CASE WHEN t IS NULL THEN [] ELSE [t] END |
    SET free += $values, free.place = null, free.attempt = free.attempt + 1, free.claimed_at = now, free.started_at = now,
        free.updated_at = now, free.expires_at = expires, free.wakes_at = expires
    SET d.seq = d.seq + 1
    CREATE (e:Event:TaskDispatch {
        desk: $desk, seq: d.seq, timestamp: now, dispatched_at: now, task_id: free.id, attempt: free.attempt})
    SET e += $event, e.mark = $mark
)
RETURN task, toString(now) AS now, COLLECT {
    MATCH (t)-[r:DEPENDS_ON]->(b:Task) WHERE {passes_on} AND b.status = 'completed'
    RETURN b {.id, .title, .result, .artifacts} ORDER BY b.id
} AS inputs

// name: move_plainly
// The same for who ends or renews the lease they hold, with what opens if it is done.
CYPHER replan=skip
MATCH (s:Scope {desk: $desk, name: $scope})
SET s.held = true
WITH s, {now} AS now
MATCH (t:Task {task})
WITH now, t, {t} AS task, t.claimed_by AS holder
WHERE t.status = 'in_progress' AND t.holder = 'agent' AND t.claim_attempt_id = $token AND ($late_ok OR now < t.expires_at)
    AND NOT ($fails AND coalesce(t.retries >= t.max_retries, false))
    AND NOT ($closes AND EXISTS { (t)-[:HAS_CHILD]->(c:Task) WHERE NOT c.status IN ['completed', 'aborted'] })
    AND NOT ($closes AND EXISTS { (t)<-[{blocks}]-() } AND EXISTS {
        MATCH (o:Task) USING INDEX o:Task(desk, wakes_at)
        WHERE o.desk = $desk AND o.wakes_at <= now AND o.sender_hash = $scope
    })
SET t += $values, t.updated_at = now,
    t.completed_at = CASE WHEN $closes THEN now ELSE t.completed_at END,
    t.finished_by = CASE WHEN $signs THEN holder ELSE t.finished_by END,
    t.retries = CASE WHEN $fails THEN t.retries + 1 ELSE t.retries END,
    t.expires_at = CASE WHEN $renews THEN coalesce(now + $lease, t.expires_at) END
WITH now, t, task
SET t.wakes_at = CASE WHEN $renews THEN t.expires_at WHEN t.status = 'pending' AND t.not_before > now THEN t.not_before END
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
    MATCH (done)<-[{blocks}]-(t:Task)
    SET t.blockers = t.blockers - 1
    WITH t
    SET t.place = {opens}
    WITH t ORDER BY t.id WHERE t.place IS NOT NULL
    RETURN collect(t.id) AS unblocked
}
RETURN task, toString(now) AS now, unblocked

// name: told_under
// Whether a move that got no answer counted, and which of those that waited for it are open, or were claimed along with it.
MATCH (e:Event) USING INDEX e:Event(desk, task_id, seq) WHERE e.desk = $desk AND e.task_id = $id AND e.seq > 0 AND e.mark = $mark
MATCH (t:Task {task})
RETURN {t} AS task, COLLECT { MATCH (t)<-[{blocks}]-(o:Task)
    WHERE o.place IS NOT NULL OR o.claim_attempt_id IN $tokens RETURN o.id ORDER BY o.id } AS unblocked

// name: claim_head
// The first tasks of a scope that the asker may have, straight off the index; and whether each has links. None for a member
// of the fleet whose limit was not looked at.
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.place > '' AND {fits} AND ($bounded OR NOT {member})
RETURN {t} AS task, EXISTS { (t)-[:DEPENDS_ON]->() } AS linked
ORDER BY t.desk, t.sender_hash, t.place LIMIT $limit

// name: due_head
// The same over tasks that are due but not yet woken: for readers, who write nothing.
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.wakes_at <= $now AND t.blockers = 0 AND {fits}
  AND NOT {hopeless}
RETURN {t} AS task ORDER BY t.order_key LIMIT $limit

// name: assigned_head
// The first tasks that are assigned to the asker, open or due.
MATCH (t:Task) WHERE t.assigned_to = $agent AND t.status IN ['pending', 'in_progress'] AND t.desk = $desk AND t.sender_hash IN $scopes
  AND {free} AND {able} AND {matches}
RETURN {t} AS task, EXISTS { (t)-[:DEPENDS_ON]->() } AS linked
ORDER BY t.order_key LIMIT $limit

// name: held_under
UNWIND $tokens AS token
MATCH (t:Task {desk: $desk, claim_attempt_id: token}) WHERE t.status = 'in_progress' RETURN {t} AS task

// name: inputs
// What the finished prerequisites of a task left for it.
MATCH (:Task {task})-[r:DEPENDS_ON]->(b:Task) WHERE {passes_on} AND b.status = 'completed'
RETURN b.id AS id, b.title AS title, b.result AS result, b.artifacts AS artifacts ORDER BY b.id

// name: open_children
MATCH (:Task {task})-[:HAS_CHILD]->(c:Task) WHERE NOT c.status IN ['completed', 'aborted']
RETURN c.id AS id ORDER BY id LIMIT 5

// name: release_dependents
// A prerequisite reached its end. A dependent with no other one left is open if its own state allows it.
MATCH (:Task {task})<-[{blocks}]-(t:Task)
SET t.blockers = t.blockers - 1
WITH t
SET t.place = {opens}
WITH t
RETURN t.id AS id, t.place IS NOT NULL AS open ORDER BY id

// name: gate_dependents
// A finished prerequisite was opened again.
MATCH (:Task {task})<-[{blocks}]-(t:Task)
SET t.blockers = t.blockers + 1, t.place = null

// name: gated_dependents
MATCH (:Task {task})<-[{blocks}]-(t:Task) RETURN {t} AS task ORDER BY t.id

// name: links_between
UNWIND $pairs AS pair
MATCH (:Task {desk: $desk, sender_hash: $scope, id: pair[0]})-[r:DEPENDS_ON]->(:Task {desk: $desk, sender_hash: $scope, id: pair[1]})
RETURN pair[0] AS task, pair[1] AS on, r.type AS type, r.weight AS weight, r.detected_by AS detected_by, r.confidence AS confidence

// name: put_links
// Whatever was between the two before.
UNWIND $links AS link
MATCH (a:Task {desk: $desk, sender_hash: $scope, id: link.task}), (b:Task {desk: $desk, sender_hash: $scope, id: link.on})
MERGE (a)-[r:DEPENDS_ON]->(b)
ON CREATE SET r.created_at = $now
SET r += link.values
RETURN count(*) AS made

// name: drop_links
UNWIND $pairs AS pair
MATCH (:Task {desk: $desk, sender_hash: $scope, id: pair[0]})-[r:DEPENDS_ON]->(:Task {desk: $desk, sender_hash: $scope, id: pair[1]})
DELETE r

// name: recount
// The count of unfinished prerequisites of these tasks, and their place, from what is there.
UNWIND $ids AS id
MATCH (t:Task {desk: $desk, sender_hash: $scope, id: id})
SET t.blockers = COUNT { (t)-[{blocks}]->(b:Task) WHERE NOT b.status IN ['completed', 'aborted'] }
WITH t
SET t.place = {opens}

// name: links_of
UNWIND $ids AS id
MATCH (:Task {desk: $desk, sender_hash: $scope, id: id})-[r:DEPENDS_ON]-(:Task)
WITH DISTINCT r, startNode(r) AS a, endNode(r) AS b
RETURN a.id AS task, b.id AS on, r.type AS type, r.weight AS weight, r.detected_by AS detected_by, r.confidence AS confidence
ORDER BY task, on

// name: links_from
UNWIND $ids AS id
MATCH (a:Task {desk: $desk, sender_hash: $scope, id: id})-[r:DEPENDS_ON]->(b:Task)
RETURN a.id AS task, b.id AS on, r.type AS type, r.weight AS weight, r.detected_by AS detected_by, r.confidence AS confidence

// name: links_in_scope
MATCH (a:Task)-[r:DEPENDS_ON]->(b:Task) WHERE a.desk = $desk AND a.sender_hash = $scope AND a.id IS NOT NULL
RETURN a.id AS task, b.id AS on, r.type AS type, r.weight AS weight, r.detected_by AS detected_by, r.confidence AS confidence
ORDER BY task, on

// name: way_back
// A shortest way from one task along what must come before it to another; a parent comes after its children.
MATCH (a:Task {desk: $desk, sender_hash: $scope, id: $start}), (b:Task {desk: $desk, sender_hash: $scope, id: $goal})
MATCH p = shortestPath((a)-[:DEPENDS_ON|HAS_CHILD*]->(b))
WHERE all(r IN relationships(p) WHERE {passes_on})
RETURN [n IN nodes(p) | n.id] AS ids

// name: edges_in_scope
MATCH (a:Task)-[r:DEPENDS_ON|HAS_CHILD]->(b:Task)
WHERE a.desk = $desk AND a.sender_hash = $scope AND a.id IS NOT NULL AND {passes_on}
RETURN a.id AS task, b.id AS on

// name: tasks_in_scope
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id IS NOT NULL AND ($finished OR NOT t.status IN ['completed', 'aborted'])
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
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.status = status
RETURN status, count(*) AS number

// name: count_open
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.place > '' RETURN count(*) AS number

// name: count_woken
// Expired leases that a claim has woken.
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IN $scopes AND t.status = 'in_progress' AND t.place IS NOT NULL
RETURN count(*) AS number

// name: count_timed
// What is leased or put off: how many wait for others as well, are due but not yet woken, are not due; and the next time.
MATCH (t:Task) WHERE t.desk = $desk AND t.wakes_at IS NOT NULL AND t.sender_hash IN $scopes
WITH t, t.wakes_at <= $now AS due
RETURN t.status AS status, count(*) AS number, count(CASE WHEN t.blockers > 0 THEN 1 END) AS gated,
    count(CASE WHEN due AND t.blockers = 0 AND NOT {hopeless} THEN 1 END) AS due,
    count(CASE WHEN NOT due AND t.status = 'pending' AND t.blockers = 0 THEN 1 END) AS later,
    toString(min(CASE WHEN NOT due THEN t.wakes_at END)) AS next_due

// name: agent_by_id
MATCH (a:Agent {desk: $desk, id: $id}) WHERE a.started_at IS NOT NULL RETURN a {.*, started_at: toString(a.started_at), ended_at: toString(a.ended_at)} AS agent

// name: agents
MATCH (a:Agent) WHERE a.desk = $desk AND a.id IS NOT NULL AND a.started_at IS NOT NULL RETURN a {.*, started_at: toString(a.started_at), ended_at: toString(a.ended_at)} AS agent ORDER BY a.started_at, a.id

// name: put_agent
// Of two that use one name after each other, only the later is known.
MERGE (a:Agent {desk: $desk, id: $id}) SET a += $values

// name: put_member
MERGE (a:Agent {desk: $desk, id: $id})
SET a += $values, a.enrolled_at = coalesce(a.enrolled_at, $now), a.seen_at = coalesce(a.seen_at, $now)

// name: drop_member
// Who has registered, too, stays on the list of those.
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
// How many live leases somebody has. By an index whose entries stay where they are when a lease is renewed: those that
// move can be overlooked.
MATCH (s:Scope) WHERE s.desk = $desk AND s.name IS NOT NULL
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.status = 'in_progress'
  AND t.claimed_by = $agent AND t.holder = 'agent' AND t.expires_at > $now
RETURN count(t) AS held

// name: members
// One or all, with how many live leases each has, and how many free tasks are assigned to it.
MATCH (a:Agent) WHERE a.desk = $desk AND a.id IS NOT NULL AND a.task_limit IS NOT NULL AND coalesce($agent, a.id) = a.id
RETURN a {.*, enrolled_at: toString(a.enrolled_at), seen_at: toString(a.seen_at)} AS member, COUNT {
    MATCH (s:Scope) WHERE s.desk = $desk AND s.name IS NOT NULL
    MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = s.name AND t.status = 'in_progress'
      AND t.claimed_by = a.id AND t.holder = 'agent' AND t.expires_at > $now
} AS held, COUNT {
    MATCH (t:Task) WHERE t.assigned_to = a.id AND t.status IN ['pending', 'in_progress'] AND t.desk = $desk AND {free}
} AS waiting ORDER BY a.id

// name: prune_events
// A bounded bite off the old end; the newest event stays.
MATCH (e:Event) WHERE e.desk = $desk AND e.seq > 0
WITH e ORDER BY e.desk, e.seq LIMIT $bite
MATCH (d:Desk {name: $desk})
WHERE e.timestamp < $before AND e.seq < d.seq
DETACH DELETE e
RETURN count(*) AS gone

// name: prune_tasks
// Long finished, with nobody unfinished waiting for it and no child left.
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.completed_at < $before
  AND NOT EXISTS { (t)<-[:DEPENDS_ON]-(o:Task) WHERE NOT o.status IN ['completed', 'aborted'] }
  AND NOT EXISTS { (t)-[:HAS_CHILD]->() }
WITH t LIMIT $bite
DETACH DELETE t
RETURN count(*) AS gone

// name: dump_tasks
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id IS NOT NULL RETURN {t} AS task ORDER BY t.created_at, t.id

// name: dump_events
MATCH (e:Event) WHERE e.desk = $desk AND e.seq > 0 RETURN {e} AS event ORDER BY e.desk, e.seq

// name: reschedule
// Derive wakes_at and place anew; `schedule_of` in rows.py says the same for one task.
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id IS NOT NULL
SET t.wakes_at = CASE
    WHEN t.status = 'pending' AND t.not_before > $now THEN t.not_before
    WHEN t.status = 'in_progress' AND t.holder = 'agent' THEN t.expires_at END
WITH t
SET t.place = {opens}

// name: recount_scope
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id IS NOT NULL
SET t.blockers = COUNT { (t)-[{blocks}]->(b:Task) WHERE NOT b.status IN ['completed', 'aborted'] }

// name: problems
// Whatever does not follow from what it is derived from, by the name of the question in check.py.
// A task that is due but not yet woken is fine: the next claim wakes it. Events older than a task are of a pruned one with
// its id. A task outside any scope's lock could be written by two at once.
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND t.blockers <>
    COUNT { (t)-[{blocks}]->(b:Task) WHERE NOT b.status IN ['completed', 'aborted'] }
RETURN 'blockers' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
WITH t,
    CASE WHEN t.status = 'pending' THEN t.not_before WHEN t.status = 'in_progress' AND t.holder = 'agent' THEN t.expires_at END AS opens_at
WITH t, CASE WHEN opens_at > $now OR t.wakes_at IS NOT NULL THEN opens_at END AS wakes_at
WHERE coalesce(toString(t.wakes_at), '') <> coalesce(toString(wakes_at), '') OR coalesce(t.place, '') <> coalesce({opens}, '')
RETURN 'schedule' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND (t.status IN ['completed', 'aborted']) <> (t.completed_at IS NOT NULL)
RETURN 'finished' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND (
    (t.status = 'in_progress') <> (t.holder IS NOT NULL)
    OR (t.holder IS NOT NULL AND (t.claim_attempt_id IS NULL OR t.claimed_by IS NULL OR t.claimed_at IS NULL OR t.attempt < 1))
    OR (t.holder IS NULL AND (t.claimed_by IS NOT NULL OR t.expires_at IS NOT NULL))
    OR (t.holder = 'human' AND t.expires_at IS NOT NULL))
RETURN 'leases' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND EXISTS {
    MATCH (e:Event) WHERE e.desk = $desk AND e.task_id = t.id AND e.seq > 0 AND e.sender_hash = t.sender_hash AND e.attempt > t.attempt AND e.timestamp >= t.created_at
}
RETURN 'attempts' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (a:Task)-[:DEPENDS_ON|HAS_CHILD]->(b:Task) WHERE a.desk = $desk AND a.sender_hash IS NOT NULL AND a.id IS NOT NULL AND (b.desk <> a.desk OR b.sender_hash <> a.sender_hash)
RETURN 'cross_links' AS question, a.sender_hash + '/' + a.id + ' → ' + b.sender_hash + '/' + b.id AS subject
UNION ALL
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND t.parent IS NOT NULL AND NOT EXISTS { (p:Task)-[:HAS_CHILD]->(t) WHERE p.id = t.parent }
RETURN 'parents' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND NOT EXISTS { MATCH (s:Scope) WHERE s.desk = $desk AND s.name = t.sender_hash }
RETURN 'scopes' AS question, t.sender_hash + '/' + t.id AS subject
UNION ALL
MATCH (d:Desk {name: $desk}) WHERE d.vector_length IS NOT NULL
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND size(t.embedding) <> d.vector_length
RETURN 'vectors' AS question, t.sender_hash + '/' + t.id AS subject

// name: mend_scopes
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL
WITH DISTINCT t.sender_hash AS name
MERGE (:Scope {desk: $desk, name: name})

// name: orphan_child
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.id IS NOT NULL AND t.parent IS NOT NULL
  AND NOT EXISTS { (p:Task)-[:HAS_CHILD]->(t) WHERE p.id = t.parent }
RETURN t.id AS id, t.parent AS parent LIMIT 1

// name: adopt
// A parent that is there but not tied to its child, as somebody else's tool may leave it.
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND t.parent IS NOT NULL AND NOT EXISTS { (p:Task)-[:HAS_CHILD]->(t) WHERE p.id = t.parent }
MATCH (p:Task {desk: $desk, sender_hash: t.sender_hash, id: t.parent})
MERGE (p)-[:HAS_CHILD]->(t)

// name: drop_orphan_parents
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND t.parent IS NOT NULL AND NOT EXISTS { (p:Task)-[:HAS_CHILD]->(t) WHERE p.id = t.parent }
SET t.parent = null

// name: similarity
// By what tasks can be compared here, and for vectors of which length.
SHOW INDEXES YIELD name, state, options WHERE name IN ['task_embedding', 'task_fulltext'] AND state = 'ONLINE'
RETURN name, options.indexConfig['vector.dimensions'] AS length

// name: put_vectors
// In numbers of 4 bytes.
UNWIND $vectors AS given
MATCH (t:Task {desk: $desk, sender_hash: $scope, id: given.id})
CALL db.create.setNodeVectorProperty(t, 'embedding', given.vector)
RETURN count(*) AS put

// name: drop_vectors
UNWIND $ids AS id
MATCH (t:Task {desk: $desk, sender_hash: $scope, id: id})
REMOVE t.embedding

// name: vectors
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.status IN $statuses AND t.embedding IS NOT NULL
RETURN t.id AS id, t.embedding AS vector

// name: vector_length
MATCH (d:Desk {name: $desk}) RETURN d.vector_length AS length

// name: set_vector_length
MATCH (d:Desk {name: $desk}) SET d.vector_length = $length

// name: other_length
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL AND size(t.embedding) <> $length
RETURN size(t.embedding) AS length LIMIT 1

// name: number_in_scope
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.status IN $statuses
WITH t LIMIT $limit
RETURN count(t) AS number

// name: closest_by_index
// Its own score is rounded, and from 0 to 1.
CALL db.index.vector.queryNodes('task_embedding', $width, $vector) YIELD node AS t
WITH t WHERE t.desk = $desk AND t.sender_hash = $scope AND t.status IN $statuses
WITH t.id AS id, round({cosine}, 6) AS score
RETURN id, score ORDER BY score DESC, id LIMIT $limit

// name: closest_of_all
MATCH (t:Task) WHERE t.desk = $desk AND t.sender_hash = $scope AND t.status IN $statuses AND size(t.embedding) = size($vector)
WITH t.id AS id, round({cosine}, 6) AS score
RETURN id, score ORDER BY score DESC, id LIMIT $limit

// name: by_words
CALL db.index.fulltext.queryNodes('task_fulltext', $words) YIELD node AS t, score
WITH t, score WHERE t.desk = $desk AND t.sender_hash = $scope AND t.status IN $statuses
RETURN t.id AS id ORDER BY score DESC, id LIMIT $limit

// name: settings
MATCH (c:UserConfig {desk: $desk, sender_hash: $scope}) RETURN c {.*, extra: coalesce(c.extra, '{}')} AS settings

// name: put_settings
MERGE (c:UserConfig {desk: $desk, sender_hash: $scope}) SET c = $values
