-- Every statement of the PostgreSQL store that is not inside a function of the migrations. {task}, {moving}, {stated},
-- {recorded}, {new} and {event} are replaced by the column lists in rows.py, {moving?} and so on by as many parameters.

-- name: begin
-- Begin a transaction; return its time and its number, by which its outcome can be queried. After a crash the server may
-- reuse the number, so the server's start and the start of its statistics are added. Reading `store` locks it: until the
-- end of the transaction the store cannot be replaced.
BEGIN; SELECT desk_now(), concat_ws(' ', pg_current_xact_id(), pg_postmaster_start_time(), stats_reset)
FROM pg_stat_bgwriter, store

-- name: begin_read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT desk_now(), NULL

-- name: transaction_status
SELECT pg_xact_status(%s::xid8), concat_ws(' ', pg_postmaster_start_time(), stats_reset) = %s FROM pg_stat_bgwriter

-- name: end_session
-- A role may end its own sessions. The name is the session's; the number may be a pooler's.
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()

-- name: at_work
-- A session that waits for its client does not count.
SELECT 1 FROM pg_stat_activity
WHERE application_name = %s AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Client'

-- name: plan_freely
-- For questions about the whole store; claims are planned on their indexes alone.
SELECT set_config(name, 'on', false)
FROM unnest(ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin']) AS name

-- name: plan_narrowly
SELECT set_config(name, 'off', false)
FROM unnest(ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin']) AS name

-- name: now
SELECT desk_now()

-- name: lock_scope
SELECT lock_scope(%s)

-- name: notify
SELECT pg_notify('dibs_' || current_schema(), '')

-- name: notify_listeners
SELECT CASE WHEN listener_waits() THEN pg_notify('dibs_' || current_schema(), '') END

-- name: anything_due
-- Also return the number of the newest event, in case a notification was lost.
SELECT EXISTS (SELECT FROM task WHERE status IN ('active', 'ready') AND wake_at <= desk_now()),
    CASE WHEN is_called THEN last_value ELSE 0 END
FROM event_seq_seq

-- name: listen
-- The shared lock shows writers that a listener waits.
SELECT listen(), pg_advisory_lock_shared(hashtextextended('dibs waiting ' || current_schema(), 0))

-- Claiming and finishing: one statement or call each, prepared once a session

-- name: claim_head
-- The usual claim of one task: the head of a scope's queue, if it is ready, nothing is due and the agent is not enrolled.
-- The head is locked by a subquery that is evaluated once. PostgreSQL then takes the newest version of that row, so the
-- update changes the locked version. `inputs` reads the links with a separate snapshot.
WITH leased AS (
    UPDATE task SET
        status = 'active', updated_at = desk_now(), started_at = desk_now(), claimed_at = desk_now(),
        expires_at = desk_now() + $5::interval, wake_at = desk_now() + $5::interval, attempt = attempt + 1,
        token = $4, agent = $2, run = $3, holder = 'agent',
        reason = NULL, unblock_action = NULL, next_check_at = NULL, not_before = NULL, ended = NULL,
        finished_at = NULL, finished_by = NULL,
        claimable = false, event_before = last_event, last_event = nextval('event_seq_seq')
    WHERE key = (
            SELECT key FROM task
            WHERE claimable AND scope = $1 AND (assigned_to IS NULL OR assigned_to = $2)
              AND (requires IS NULL OR requires <@ $6::text[])
              AND NOT EXISTS (
                  SELECT FROM task AS due WHERE due.wake_at <= desk_now()
                    AND (due.scope = $1 OR due.max_retries IS NOT NULL AND due.retries >= due.max_retries))
              AND NOT EXISTS (SELECT FROM member WHERE member.agent = $2)
            ORDER BY class_rank, override_rank, priority, queued_at, id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
      AND status IS NOT DISTINCT FROM 'ready'
    RETURNING key, id, attempt, retries, queued_at, updated_at, doc, result, artifacts, has_prerequisites, last_event,
              event_before
), recorded AS (
    INSERT INTO event (seq, at, scope, task, verb, agent, run, attempt, source, target, previous)
    SELECT last_event, updated_at, $1, id, 'claim', $2, $3, attempt, 'ready', 'active', event_before FROM leased
)
SELECT id, attempt, retries, queued_at, updated_at, doc, result, artifacts, CASE WHEN has_prerequisites THEN inputs(key) END
FROM leased

-- name: claim_heads
-- The same for several tasks, and for expired leases. Materialized: a join that looked for the heads once more would
-- find, and lease, the next tasks too.
WITH head AS MATERIALIZED (
    SELECT key AS head, status AS source, agent AS taken_from, last_event AS previous FROM task
    WHERE claimable AND scope = $1 AND (assigned_to IS NULL OR assigned_to = $2)
      AND (requires IS NULL OR requires <@ $6::text[])
      AND NOT EXISTS (
          SELECT FROM task AS due WHERE due.wake_at <= desk_now()
            AND (due.scope = $1 OR due.max_retries IS NOT NULL AND due.retries >= due.max_retries))
      AND NOT EXISTS (SELECT FROM member WHERE member.agent = $2)
    ORDER BY class_rank, override_rank, priority, queued_at, id
    LIMIT cardinality($4::text[]) FOR NO KEY UPDATE SKIP LOCKED
), placed AS (
    SELECT head.*, row_number() OVER () AS place FROM head
), leased AS (
    UPDATE task SET
        status = 'active', updated_at = desk_now(), started_at = desk_now(), claimed_at = desk_now(),
        expires_at = desk_now() + $5::interval, wake_at = desk_now() + $5::interval,
        attempt = task.attempt + 1, retries = task.retries + (source = 'active')::integer,
        token = ($4::text[])[place], agent = $2, run = $3, holder = 'agent',
        reason = NULL, unblock_action = NULL, next_check_at = NULL, not_before = NULL, ended = NULL,
        finished_at = NULL, finished_by = NULL, claimable = false, last_event = nextval('event_seq_seq')
    FROM placed WHERE task.key = head AND task.key = ANY (ARRAY(SELECT head FROM placed))
    RETURNING task.key, task.id, task.attempt, task.retries, task.queued_at, task.updated_at, task.doc, rare(task),
              task.has_prerequisites, task.last_event, source, taken_from, previous, place
), recorded AS (
    INSERT INTO event (seq, at, scope, task, verb, agent, run, attempt, source, target, detail, previous)
    SELECT last_event, updated_at, $1, id, 'claim', $2, $3, attempt, source, 'active',
           CASE WHEN source = 'active' THEN json_build_object('taken_from', taken_from, 'forced', false) END, previous
    FROM leased
)
SELECT $1::text, id, attempt, retries, queued_at, updated_at, updated_at, $2::text, doc, rare,
       CASE WHEN has_prerequisites THEN inputs(key) END
FROM leased ORDER BY place

-- name: claim_next
-- Every claim that `claim_head` and `claim_heads` find nothing for.
SELECT * FROM claim_next($1, $2, $3, $4, $5, $6, $7)

-- name: claim_next_woken
-- The same, after due tasks were handled.
SELECT * FROM claim_next($1, $2, $3, $4, $5, $6, $7, false)

-- name: claim_next_bounded
-- The same, twice, for an enrolled agent whose limit was checked.
SELECT * FROM claim_next($1, $2, $3, $4, $5, $6, $7, true, true, true)

-- name: claim_next_bounded_woken
SELECT * FROM claim_next($1, $2, $3, $4, $5, $6, $7, false, true, true)

-- name: claim_next_matching
-- The same, twice, for a claim with a filter.
SELECT * FROM claim_next($1, $2, $3, $4, $5, $6, $7, true, true, true, $8)

-- name: claim_next_matching_woken
SELECT * FROM claim_next($1, $2, $3, $4, $5, $6, $7, false, true, true, $8)

-- name: claim_assigned
-- The first tasks assigned to the agent, in one scope or in all, after due ones became claimable.
SELECT * FROM lease_out(
    ARRAY(
        SELECT key FROM task
        WHERE assigned_to = %(agent)s AND status IN ('ready', 'active') AND claimable
          AND (%(scope)s IS NULL OR scope = %(scope)s) AND (requires IS NULL OR requires <@ %(can)s::text[]) AND {matches}
        ORDER BY class_rank, override_rank, priority, queued_at, id, scope
        LIMIT cardinality(%(tokens)s::text[]) FOR NO KEY UPDATE SKIP LOCKED),
    %(tokens)s::text[], %(agent)s, %(run)s, 'agent', %(now)s::timestamptz + %(lease)s, %(now)s)

-- name: claim_named
SELECT * FROM claim_named($1, $2, $3, $4, $5, $6, $7)

-- name: renew
-- Extend a live lease. No rows: it is not live, has another token, or a person holds the task. IS NOT DISTINCT FROM, here
-- and below: with '=' the planner may scan a partial index that looks small, dead rows included.
UPDATE task SET
    expires_at = desk_now() + $4::interval, wake_at = desk_now() + $4::interval, claimable = false,
    updated_at = desk_now(), queued_at = CASE WHEN $6::boolean THEN desk_now() ELSE queued_at END
WHERE scope = $1 AND id = $2 AND token = $3 AND status IS NOT DISTINCT FROM 'active' AND holder = 'agent'
  AND ($5::boolean OR expires_at > desk_now())
RETURNING {task}

-- name: finish
-- The plain finish: under a live lease, of a task without children. It changes its row first. `unblock` then locks and
-- counts down the dependents with a new snapshot, so it sees links that were added while this waited.
WITH closed AS (
    UPDATE task SET
        status = 'done', updated_at = desk_now(), finished_at = desk_now(), finished_by = agent, ended = 'done', reason = NULL,
        result = coalesce($7::json, result), artifacts = coalesce($8::text[], artifacts),
        agent = NULL, run = NULL, holder = NULL, claimed_at = NULL, expires_at = NULL,
        queued_at = CASE WHEN $10::boolean THEN desk_now() ELSE queued_at END,
        claimable = false, wake_at = NULL, event_before = last_event, last_event = nextval('event_seq_seq')
    WHERE scope = $1 AND id = $2 AND token = $3 AND status IS NOT DISTINCT FROM 'active' AND holder = 'agent'
      AND ($9::boolean OR expires_at > desk_now()) AND NOT has_children
      AND blockers = 0 AND not_before IS NULL AND paused_from IS NULL
    RETURNING key, attempt, retries, queued_at, updated_at, started_at, finished_by, doc, result, artifacts, has_dependents,
              last_event, event_before
), recorded AS (
    INSERT INTO event (seq, at, scope, task, verb, agent, run, attempt, source, target, reason, previous)
    SELECT last_event, updated_at, $1, $2, 'done', coalesce($4, finished_by), $5, attempt, 'active', 'done', $6, event_before
    FROM closed
)
SELECT attempt, retries, queued_at, updated_at, started_at, finished_by, doc, result, artifacts,
       CASE WHEN has_dependents THEN unblock(key, updated_at) END
FROM closed

-- name: finish_and_claim
SELECT * FROM finish_and_claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)

-- name: finish_all
SELECT * FROM finish_all($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)

-- name: inputs
SELECT inputs(%s)

-- name: held_under
-- Tasks held under these tokens, with their inputs.
SELECT {task}, inputs(task.key) FROM unnest(%s::text[]) WITH ORDINALITY AS given (token, place)
JOIN task ON task.token = given.token
WHERE task.status = 'active' ORDER BY given.place

-- Waking

-- name: wake
SELECT wake(%s, %s)

-- name: due_without_retry
-- Expired leases without a retry left; rows locked by another transaction are left to it.
SELECT {task} FROM task
WHERE status = 'active' AND wake_at <= %s AND max_retries IS NOT NULL AND retries >= max_retries
LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED

-- Tasks

-- name: task_by_id
SELECT {task} FROM task WHERE scope = %s AND id = %s

-- name: lock_task
SELECT {task} FROM task WHERE scope = %s AND id = %s FOR NO KEY UPDATE

-- name: lock_tasks
-- Rows are always locked in the order of keys.
SELECT {task} FROM task WHERE scope = %s AND id = ANY (%s::text[]) ORDER BY key FOR NO KEY UPDATE

-- name: share_tasks
-- Their status cannot change until the end of the transaction.
SELECT id, key, status IN ('done', 'canceled'), last_event FROM task
WHERE scope = %s AND id = ANY (%s::text[]) ORDER BY key FOR SHARE

-- name: flag_parents
-- From now on a finish checks for unfinished children. Adding a child holds the scope's lock.
UPDATE task SET has_children = true WHERE scope = %s AND id = ANY (%s::text[]) AND NOT has_children

-- name: flag_prerequisites
-- From now on a finish counts down dependents.
UPDATE task SET has_dependents = true WHERE key = ANY (%s::bigint[]) AND NOT has_dependents

-- name: lock_ends
SELECT id, key, status IN ('done', 'canceled'), last_event FROM task
WHERE scope = %s AND id = ANY (%s::text[]) ORDER BY key FOR NO KEY UPDATE

-- name: ids_by_prefix
-- A range over the unique index; the upper end is the prefix followed by the largest character.
SELECT id FROM task WHERE scope = %(scope)s AND id >= %(prefix)s AND id < %(prefix)s || chr(1114111)
ORDER BY id LIMIT %(limit)s

-- name: scopes
-- A loose scan: one probe per scope instead of one per task.
WITH RECURSIVE seen (scope) AS (
    SELECT min(scope) FROM task
    UNION ALL
    SELECT (SELECT min(scope) FROM task WHERE scope > seen.scope) FROM seen WHERE seen.scope IS NOT NULL
)
SELECT scope FROM seen WHERE scope IS NOT NULL

-- name: scopes_with_work
-- Scopes with claimable tasks, one probe each, or with due tasks that the next claim makes claimable.
WITH RECURSIVE seen (scope) AS (
    SELECT min(scope) FROM task WHERE claimable
    UNION ALL
    SELECT (SELECT min(scope) FROM task WHERE claimable AND scope > seen.scope) FROM seen WHERE seen.scope IS NOT NULL
)
SELECT scope FROM seen WHERE scope IS NOT NULL
UNION
SELECT scope FROM task WHERE status IN ('active', 'ready') AND wake_at <= desk_now() AND blockers = 0
  AND NOT (status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries)
ORDER BY scope

-- name: added_since
SELECT created_at FROM task WHERE scope = %s AND created_at > %s ORDER BY created_at

-- name: find
-- Merge a listing from parts. Claimable, finished and other tasks are indexed in its order, so no more are read than
-- shown. Leases and tasks not yet due are few.
SELECT {task} FROM (
    SELECT part.* FROM unnest(%(scopes)s::text[]) AS asked (scope) CROSS JOIN LATERAL (
        SELECT * FROM task
        WHERE claimable AND scope = asked.scope AND status = 'ready' AND 'ready' = ANY (%(statuses)s::text[])
          AND {beyond} AND {fits}
        ORDER BY class_rank, override_rank, priority, queued_at, id LIMIT %(limit)s) AS part
    UNION ALL
    SELECT part.* FROM unnest(%(scopes)s::text[]) AS asked (scope), unnest(%(statuses)s::text[]) AS wanted (status)
    CROSS JOIN LATERAL (
        SELECT * FROM task
        WHERE NOT claimable AND wake_at IS NULL AND status <> 'done' AND scope = asked.scope AND status = wanted.status
          AND {beyond} AND {fits}
        ORDER BY class_rank, override_rank, priority, queued_at, id LIMIT %(limit)s) AS part
    UNION ALL
    SELECT part.* FROM unnest(%(scopes)s::text[]) AS asked (scope) CROSS JOIN LATERAL (
        SELECT * FROM task
        WHERE status = 'done' AND 'done' = ANY (%(statuses)s::text[]) AND scope = asked.scope AND {beyond} AND {fits}
        ORDER BY class_rank, override_rank, priority, queued_at, id LIMIT %(limit)s) AS part
    UNION ALL
    SELECT * FROM task
    WHERE status = ANY (%(statuses)s::text[]) AND wake_at IS NOT NULL AND scope = ANY (%(scopes)s::text[])
      AND {beyond} AND {fits}
    UNION ALL
    SELECT * FROM task
    WHERE status = 'active' AND 'active' = ANY (%(statuses)s::text[]) AND wake_at IS NULL
      AND claimable IS NOT DISTINCT FROM true -- not over all claimable tasks
      AND scope = ANY (%(scopes)s::text[]) AND {beyond} AND {fits}
) AS task
ORDER BY {order} LIMIT %(limit)s

-- name: find_by_index
-- One parent, spec or agent has few tasks.
SELECT {task} FROM task
WHERE scope = ANY (%(scopes)s::text[]) AND status = ANY (%(statuses)s::text[]) AND {beyond} AND {fits}
ORDER BY {order} LIMIT %(limit)s

-- name: peek
-- The first suitable claimable tasks of a scope, from the claim index, and due tasks that no claim has made claimable
-- yet, because readers write nothing.
(SELECT {task} FROM task
 WHERE claimable AND scope = %(scope)s AND (assigned_to IS NULL OR assigned_to = %(agent)s) AND {able} AND {matches}
 ORDER BY class_rank, override_rank, priority, queued_at, id LIMIT %(limit)s)
UNION ALL
(SELECT {task} FROM task
 WHERE status IN ('active', 'ready') AND wake_at <= %(now)s AND scope = %(scope)s AND blockers = 0
   AND NOT (status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries)
   AND (assigned_to IS NULL OR assigned_to = %(agent)s) AND {able} AND {matches}
 ORDER BY class_rank, override_rank, priority, queued_at, id LIMIT %(limit)s)

-- name: peek_assigned
-- The same for tasks assigned to the agent.
SELECT {task} FROM task
WHERE assigned_to = %(agent)s AND status IN ('ready', 'active') AND (%(scope)s IS NULL OR scope = %(scope)s)
  AND {able} AND {matches}
  AND (claimable OR (wake_at <= %(now)s AND blockers = 0
       AND NOT (status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries)))
ORDER BY class_rank, override_rank, priority, queued_at, id, scope LIMIT %(limit)s

-- name: active
SELECT {task} FROM task WHERE status = 'active' AND (%(scope)s IS NULL OR scope = %(scope)s)
ORDER BY class_rank, override_rank, priority, queued_at, id, scope

-- name: copy_tasks
COPY task ({new}) FROM STDIN

-- name: copy_events
COPY event (seq, {recorded}, previous) FROM STDIN

-- name: reserve_keys
SELECT nextval('task_key_seq') FROM generate_series(1, %s)

-- name: reserve_events
SELECT nextval('event_seq_seq') FROM generate_series(1, %s)

-- name: taken_ids
SELECT id FROM task WHERE scope = %s AND id = ANY (%s::text[]) ORDER BY id LIMIT 1

-- name: write_move
UPDATE task SET ({moving}) = ({moving?}) WHERE key = %s

-- name: write_move_and_record
WITH recorded AS (
    INSERT INTO event ({recorded}, previous) VALUES ({recorded?}, %s) RETURNING seq
)
UPDATE task SET ({moving}) = ({moving?}), last_event = (SELECT seq FROM recorded) WHERE key = %s

-- name: write_edit_and_record
WITH recorded AS (
    INSERT INTO event ({recorded}, previous) VALUES ({recorded?}, %s) RETURNING seq
)
UPDATE task SET ({stated}) = ({stated?}), not_before = %s, updated_at = %s, claimable = %s, wake_at = %s, plan_digest = %s,
    last_event = (SELECT seq FROM recorded)
WHERE key = %s

-- name: requeue
UPDATE task SET queued_at = %s WHERE key = %s

-- name: restate
UPDATE task SET assigned_to = %s, doc = %s WHERE key = %s

-- name: open_children
SELECT id FROM task WHERE scope = %s AND parent = %s AND status NOT IN ('done', 'canceled') LIMIT 5

-- Links and their consequences

-- name: has_dependents
SELECT 1 FROM link WHERE on_task = %s AND kind = 'blocks' LIMIT 1

-- name: release_dependents
SELECT release_dependents(%s, %s)

-- name: lock_dependents
-- In the order of keys.
SELECT 1 FROM task WHERE key IN (SELECT task FROM link WHERE on_task = %s AND kind = 'blocks')
ORDER BY key FOR NO KEY UPDATE

-- name: gate_dependents
-- A finished prerequisite was opened again.
UPDATE task SET blockers = blockers + 1, claimable = false
WHERE key IN (SELECT task FROM link WHERE on_task = %s AND kind = 'blocks')

-- name: gated_dependents
SELECT {task} FROM task WHERE key IN (SELECT task FROM link WHERE on_task = %s AND kind = 'blocks')
ORDER BY key FOR NO KEY UPDATE

-- name: links_between
SELECT link.task, link.on_task, link.kind
FROM unnest(%s::bigint[], %s::bigint[]) AS pair (task, on_task)
JOIN link ON link.task = pair.task AND link.on_task = pair.on_task

-- name: copy_links
COPY link (task, on_task, kind, weight, detected_by, confidence) FROM STDIN

-- name: put_links
INSERT INTO link (task, on_task, kind, weight, detected_by, confidence)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::float8[], %s::text[], %s::float8[])
ON CONFLICT (task, on_task) DO UPDATE SET
    kind = excluded.kind, weight = excluded.weight, detected_by = excluded.detected_by, confidence = excluded.confidence

-- name: count_links
-- Apply new and removed links to their dependents. Such a task no longer matches its plan entry.
UPDATE task SET
    blockers = blockers + given.change,
    claimable = (blockers + given.change = 0 AND wake_at IS NULL
                 AND (status = 'ready' OR (status = 'active' AND holder = 'agent'))),
    has_prerequisites = has_prerequisites OR given.inputs,
    last_event = given.last_event,
    plan_digest = given.plan_digest
FROM unnest(%s::bigint[], %s::integer[], %s::boolean[], %s::bigint[], %s::bigint[])
    AS given (key, change, inputs, last_event, plan_digest)
WHERE task.key = given.key

-- name: add_link
SELECT add_link($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: drop_link
DELETE FROM link WHERE task = %s AND on_task = %s AND kind = %s RETURNING kind, weight, detected_by, confidence

-- name: ungate
-- A link was removed; the task no longer matches its plan entry.
UPDATE task SET
    blockers = blockers + %s,
    claimable = (blockers + %s = 0 AND wake_at IS NULL
                 AND (status = 'ready' OR (status = 'active' AND holder = 'agent'))),
    plan_digest = NULL
WHERE key = %s

-- name: ids_among
SELECT id FROM task WHERE scope = %s AND id = ANY (%s::text[])

-- name: links_of
-- From either end, each link once.
SELECT a.id, b.id, link.kind, link.weight, link.detected_by, link.confidence
FROM link JOIN task AS a ON a.key = link.task JOIN task AS b ON b.key = link.on_task
WHERE link.task = ANY (%(keys)s::bigint[]) OR link.on_task = ANY (%(keys)s::bigint[]) ORDER BY a.id, b.id

-- name: links_from
SELECT a.id, b.id, link.kind, link.weight, link.detected_by, link.confidence
FROM unnest(%(ids)s::text[]) AS wanted (id) JOIN task AS a ON a.scope = %(scope)s AND a.id = wanted.id
JOIN link ON link.task = a.key JOIN task AS b ON b.key = link.on_task

-- name: links_in_scope
SELECT a.id, b.id, link.kind, link.weight, link.detected_by, link.confidence
FROM task AS a JOIN link ON link.task = a.key JOIN task AS b ON b.key = link.on_task
WHERE a.scope = %s ORDER BY a.id, b.id

-- name: ways_round
-- The first pair of a task and a new prerequisite that closes a cycle, and the side on which the path was found.
SELECT pair.later, pair.first, found.side
FROM unnest(%s::bigint[], %s::bigint[]) AS pair (later, first) CROSS JOIN LATERAL way_round(pair.first, pair.later) AS found (side)
WHERE found.side IS NOT NULL LIMIT 1

-- name: edges_after
-- Every edge from a task or its transitive dependents.
SELECT here.key, link.task FROM all_after(%(key)s) AS here JOIN link ON link.on_task = here.key WHERE link.kind <> 'parallel_ok'
UNION ALL
SELECT here.key, parent.key FROM all_after(%(key)s) AS here JOIN task AS child ON child.key = here.key
JOIN task AS parent ON parent.scope = child.scope AND parent.id = child.parent

-- name: edges_before
SELECT here.key, link.on_task FROM all_before(%(key)s) AS here JOIN link ON link.task = here.key
WHERE link.kind <> 'parallel_ok'
UNION ALL
SELECT here.key, child.key FROM all_before(%(key)s) AS here JOIN task AS parent ON parent.key = here.key
JOIN task AS child ON child.scope = parent.scope AND child.parent = parent.id

-- name: edges_in_scope
-- Edges of the order as keys, parents included (a parent comes after its children).
SELECT link.task, link.on_task FROM task AS a JOIN link ON link.task = a.key
WHERE a.scope = %(scope)s AND link.kind <> 'parallel_ok'
UNION ALL
SELECT parent.key, child.key FROM task AS child
JOIN task AS parent ON parent.scope = child.scope AND parent.id = child.parent
WHERE child.scope = %(scope)s AND child.parent IS NOT NULL

-- name: ids_of
SELECT key, id FROM task WHERE key = ANY (%s::bigint[])

-- name: keys_of
SELECT id, key FROM task WHERE scope = %s AND id = ANY (%s::text[])

-- name: tasks_with_words
-- A superset of the hits: words are matched anywhere in the row, and only ASCII ones, because `doc` is JSON.
WITH note AS (
    SELECT task, array_agg(reason ORDER BY seq) AS texts FROM event
    WHERE scope = %(scope)s AND verb = 'comment' AND reason IS NOT NULL GROUP BY task
)
SELECT {task}, note.texts FROM task LEFT JOIN note ON note.task = task.id
WHERE scope = %(scope)s AND NOT EXISTS (
    SELECT FROM unnest(%(words)s::text[]) AS word
    WHERE position(word IN lower(id || ' ' || doc::text || ' ' || coalesce(array_to_string(note.texts, ' '), ''))) = 0
)

-- name: tasks_in_scope
SELECT {task} FROM task WHERE scope = %s AND (%s OR status NOT IN ('done', 'canceled')) ORDER BY id

-- Plans

-- name: differing
-- Plan entries that differ from their tasks, entries of finished tasks, and new entries (no status).
SELECT wanted.id, task.status
FROM unnest(%s::text[], %s::bigint[]) AS wanted (id, digest)
LEFT JOIN task ON task.scope = %s AND task.id = wanted.id
WHERE task.key IS NULL OR task.plan_digest IS DISTINCT FROM wanted.digest OR task.status IN ('done', 'canceled')

-- name: tasks_named
SELECT {task} FROM unnest(%s::text[]) AS wanted (id) JOIN task ON task.scope = %s AND task.id = wanted.id

-- name: lock_named
-- The same, locked for a change.
SELECT {task} FROM unnest(%s::text[]) AS wanted (id) JOIN task ON task.scope = %s AND task.id = wanted.id
ORDER BY task.key FOR NO KEY UPDATE OF task

-- name: tasks_of_specs
SELECT {task} FROM task WHERE scope = %s AND spec_ref = ANY (%s::text[]) AND status NOT IN ('done', 'canceled')
  AND NOT id = ANY (%s::text[])
ORDER BY key FOR NO KEY UPDATE

-- Events

-- name: record
-- An event about a task, at the end of its chain.
WITH recorded AS (
    INSERT INTO event ({recorded}, previous)
    SELECT {recorded?}, (SELECT last_event FROM task WHERE scope = %s AND id = %s)
    RETURNING seq, scope, task
)
UPDATE task SET last_event = recorded.seq FROM recorded WHERE task.scope = recorded.scope AND task.id = recorded.task

-- name: last_events
SELECT id, last_event FROM task WHERE scope = %s AND id = ANY (%s::text[])

-- name: write_last_events
UPDATE task SET last_event = given.seq FROM unnest(%s::text[], %s::bigint[]) AS given (id, seq)
WHERE task.scope = %s AND task.id = given.id

-- name: record_alone
-- An event about no task in particular.
INSERT INTO event ({recorded}) VALUES ({recorded?})

-- name: events
SELECT {event} FROM event WHERE seq > %(after)s AND (%(scope)s IS NULL OR scope = %(scope)s) ORDER BY seq LIMIT %(limit)s

-- name: newest_events
SELECT {event} FROM event WHERE seq > %(after)s AND (%(scope)s IS NULL OR scope = %(scope)s)
ORDER BY seq DESC LIMIT %(limit)s

-- name: events_of_task
-- Back along the chain from the newest.
WITH RECURSIVE chain (seq) AS (
    SELECT last_event FROM task WHERE scope = %(scope)s AND id = %(task)s
    UNION ALL
    SELECT event.previous FROM chain JOIN event ON event.seq = chain.seq
)
SELECT {event} FROM chain JOIN event ON event.seq = chain.seq WHERE event.seq > %(after)s ORDER BY event.seq LIMIT %(limit)s

-- name: newest_events_of_task
WITH RECURSIVE chain (seq, place) AS (
    SELECT last_event, 1 FROM task WHERE scope = %(scope)s AND id = %(task)s AND %(limit)s > 0
    UNION ALL
    SELECT event.previous, chain.place + 1 FROM chain JOIN event ON event.seq = chain.seq
    WHERE chain.place < %(limit)s
)
SELECT {event} FROM chain JOIN event ON event.seq = chain.seq WHERE event.seq > %(after)s ORDER BY event.seq DESC

-- name: events_by_name
-- For a deleted task, or in any scope: scan the events.
SELECT {event} FROM event
WHERE (%(scope)s IS NULL OR scope = %(scope)s) AND task = %(task)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- name: newest_events_by_name
SELECT {event} FROM event
WHERE (%(scope)s IS NULL OR scope = %(scope)s) AND task = %(task)s AND seq > %(after)s ORDER BY seq DESC LIMIT %(limit)s

-- Counting

-- name: counts
-- Counted from indexes alone. Done tasks are the rest of all.
SELECT 'all', NULL::text, count(*), 0, 0, 0, NULL::timestamptz FROM task WHERE scope = ANY (%(scopes)s::text[])
UNION ALL
SELECT 'resting', status, count(*), 0, 0, 0, NULL::timestamptz
FROM task WHERE NOT claimable AND wake_at IS NULL AND status <> 'done' AND scope = ANY (%(scopes)s::text[]) GROUP BY status
UNION ALL
SELECT 'opened', NULL, count(*), 0, 0, 0, NULL FROM task WHERE claimable AND scope = ANY (%(scopes)s::text[])
UNION ALL
SELECT 'woken', NULL, count(*), 0, 0, 0, NULL
FROM task WHERE status = 'active' AND wake_at IS NULL AND claimable AND scope = ANY (%(scopes)s::text[])
UNION ALL
SELECT 'timed', status, count(*), count(*) FILTER (WHERE blockers > 0),
    count(*) FILTER (WHERE wake_at <= desk_now() AND blockers = 0 AND NOT (
        status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries)),
    count(*) FILTER (WHERE status = 'ready' AND blockers = 0 AND wake_at > desk_now()),
    min(wake_at) FILTER (WHERE wake_at > desk_now())
FROM task WHERE status IN ('active', 'ready') AND wake_at IS NOT NULL AND scope = ANY (%(scopes)s::text[]) GROUP BY status

-- Agents

-- name: register
-- A name can be used again after its agent is gone.
INSERT INTO agent (id, host, pid, started_at, status) VALUES (%s, %s, %s, desk_now(), 'active')
ON CONFLICT (id) DO UPDATE SET
    host = excluded.host, pid = excluded.pid, started_at = excluded.started_at, status = 'active', ended_at = NULL
    WHERE agent.status <> 'active'
RETURNING id, host, pid, started_at, status, ended_at

-- name: deregister
UPDATE agent SET status = 'gone', ended_at = coalesce(ended_at, desk_now()) WHERE id = %s
RETURNING id, host, pid, started_at, status, ended_at

-- name: agents
SELECT id, host, pid, started_at, status, ended_at FROM agent ORDER BY started_at, id

-- Members of the fleet

-- name: put_member
INSERT INTO member (agent, role, can, task_limit, enrolled_at, seen_at) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (agent) DO UPDATE SET role = excluded.role, can = excluded.can, task_limit = excluded.task_limit

-- name: drop_member
DELETE FROM member WHERE agent = %s

-- name: lock_member
SELECT task_limit, seen_at FROM member WHERE agent = %s FOR UPDATE

-- name: see_member
UPDATE member SET seen_at = %s WHERE agent = %s

-- name: held_by
-- The live leases of an agent.
SELECT count(*) FROM task WHERE status = 'active' AND holder = 'agent' AND wake_at > %s AND agent = %s

-- name: members
-- One or all, with the number of live leases and of claimable tasks assigned to each.
SELECT agent, role, can, task_limit, enrolled_at, seen_at,
    (SELECT count(*) FROM task
     WHERE status = 'active' AND holder = 'agent' AND wake_at > %(now)s AND task.agent = member.agent),
    (SELECT count(*) FROM task
     WHERE assigned_to = member.agent AND status IN ('ready', 'active') AND (claimable OR (wake_at <= %(now)s
       AND blockers = 0 AND NOT (status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries))))
FROM member WHERE %(agent)s IS NULL OR agent = %(agent)s ORDER BY agent

-- Vectors

-- name: lock_vectors
SELECT pg_advisory_xact_lock(hashtextextended('dibs vectors ' || current_schema(), 0))

-- name: keep_tasks
-- They cannot be deleted until the end of the transaction.
SELECT id, key FROM task WHERE scope = %s AND id = ANY (%s::text[]) ORDER BY key FOR KEY SHARE

-- name: vector_length
-- All vectors have the same length.
SELECT octet_length(unit) / 4 FROM vector LIMIT 1

-- name: put_vectors
INSERT INTO vector (task, unit) SELECT * FROM unnest(%s::bigint[], %s::bytea[])
ON CONFLICT (task) DO UPDATE SET unit = excluded.unit

-- name: drop_vectors
DELETE FROM vector WHERE task = ANY (%s::bigint[])

-- name: vectors
SELECT task.id, vector.unit FROM task JOIN vector ON vector.task = task.key
WHERE task.scope = %s AND (%s OR task.status NOT IN ('done', 'canceled'))

-- Settings

-- name: settings
SELECT name, value FROM setting WHERE scope = %s ORDER BY name

-- name: put_setting
INSERT INTO setting (scope, name, value) VALUES (%s, %s, %s)
ON CONFLICT (scope, name) DO UPDATE SET value = excluded.value

-- name: new_setting
INSERT INTO setting (scope, name, value) VALUES (%s, %s, %s) ON CONFLICT (scope, name) DO NOTHING

-- name: drop_setting
DELETE FROM setting WHERE scope = %s AND name = %s

-- Output of attempts

-- name: output_end
SELECT coalesce(max(start + size), 0) FROM output WHERE task = %s AND attempt = %s

-- name: put_output
INSERT INTO output (task, attempt, start, size, at, text) VALUES (%s, %s, %s, %s, %s, %s)

-- name: drop_middle_of_output
-- Whole pieces between the head and the tail that are kept.
DELETE FROM output WHERE task = %s AND attempt = %s AND start >= %s AND start + size <= %s

-- name: drop_early_output
DELETE FROM output WHERE task = %s AND attempt <= %s

-- name: output_from
SELECT start, text FROM output WHERE task = %s AND attempt = %s AND start >= %s ORDER BY start

-- name: output_attempts
SELECT DISTINCT attempt FROM output WHERE task = %s ORDER BY attempt

-- name: prune_output
DELETE FROM output WHERE ctid = ANY (ARRAY(SELECT ctid FROM output WHERE at < %s LIMIT %s))

-- Maintenance

-- name: prune_events
-- Delete a limited number of the oldest events. The newest event stays, because readers continue from its number.
DELETE FROM event WHERE seq IN (
    SELECT seq FROM (SELECT seq, at FROM event ORDER BY seq LIMIT %s) AS oldest WHERE at < %s
) AND seq < (SELECT max(seq) FROM event)

-- name: highest_key
SELECT coalesce(max(key), 0) FROM task

-- name: scopes_between
SELECT DISTINCT scope FROM task WHERE key > %s AND key <= %s ORDER BY scope

-- name: prunable_tasks
-- Finished before the date, without children and without links to unfinished tasks. Locked, so that it stays finished.
SELECT key FROM task AS old
WHERE key > %s AND key <= %s AND status IN ('done', 'canceled') AND finished_at < %s
  AND NOT EXISTS (SELECT FROM link JOIN task AS other ON other.key = link.task
                  WHERE link.on_task = old.key AND other.status NOT IN ('done', 'canceled'))
  AND NOT EXISTS (SELECT FROM task AS child WHERE child.scope = old.scope AND child.parent = old.id)
ORDER BY key FOR UPDATE SKIP LOCKED

-- name: drop_links_of
DELETE FROM link WHERE task = ANY (%(keys)s::bigint[]) OR on_task = ANY (%(keys)s::bigint[])

-- name: drop_tasks
DELETE FROM task WHERE key = ANY (%s::bigint[])

-- name: dump_tasks
SELECT {task} FROM task ORDER BY key

-- name: dump_links
SELECT a.scope, a.id, b.id, link.kind, link.weight, link.detected_by, link.confidence
FROM link JOIN task AS a ON a.key = link.task JOIN task AS b ON b.key = link.on_task ORDER BY link.task, link.on_task

-- name: dump_settings
SELECT scope, name, value FROM setting ORDER BY scope, name

-- name: dump_events
SELECT {event} FROM event ORDER BY seq

-- name: recount_blockers
UPDATE task SET blockers = counted.number
FROM (
    SELECT t.key, count(before.key) AS number
    FROM task AS t
    LEFT JOIN link ON link.task = t.key AND link.kind = 'blocks'
    LEFT JOIN task AS before ON before.key = link.on_task AND before.status NOT IN ('done', 'canceled')
    GROUP BY t.key
) AS counted
WHERE counted.key = task.key AND task.blockers <> counted.number

-- name: reflag
-- Recompute the flags.
UPDATE task SET has_prerequisites = derived.prerequisites, has_dependents = derived.dependents, has_children = derived.children
FROM (
    SELECT key,
        EXISTS (SELECT FROM link WHERE link.task = t.key AND link.kind <> 'parallel_ok') AS prerequisites,
        EXISTS (SELECT FROM link WHERE link.on_task = t.key AND link.kind = 'blocks') AS dependents,
        EXISTS (SELECT FROM task AS child WHERE child.scope = t.scope AND child.parent = t.id) AS children
    FROM task AS t
) AS derived
WHERE derived.key = task.key
  AND (has_prerequisites, has_dependents, has_children)
      IS DISTINCT FROM (derived.prerequisites, derived.dependents, derived.children)

-- name: reschedule
-- Recompute claimable and wake_at, as `schedule_of` in rows.py does for one task.
UPDATE task SET claimable = derived.claimable, wake_at = derived.wake_at
FROM (
    SELECT key, (blockers = 0 AND wake IS NULL AND open_to_all) AS claimable, wake AS wake_at
    FROM (
        SELECT key, blockers,
            CASE WHEN status = 'ready' AND not_before > %(now)s THEN not_before
                 WHEN status = 'active' AND holder = 'agent' THEN expires_at END AS wake,
            status = 'ready' OR (status = 'active' AND holder IS NOT DISTINCT FROM 'agent') AS open_to_all
        FROM task
    ) AS judged
) AS derived
WHERE derived.key = task.key
  AND (task.claimable <> derived.claimable OR task.wake_at IS DISTINCT FROM derived.wake_at)

-- name: lock_tables
-- Exclusive, because the repaired rows must not change during the repair. Readers are not blocked.
LOCK TABLE task, link IN SHARE ROW EXCLUSIVE MODE

-- name: lock_content
-- Every transaction that writes has read `store` at its beginning; calls that are their own transactions have not. A
-- read-only transaction continues with the old content.
LOCK TABLE store IN ACCESS EXCLUSIVE MODE; LOCK TABLE task, link, setting, event IN EXCLUSIVE MODE

-- name: drop_content
DELETE FROM vector; DELETE FROM link; DELETE FROM task; DELETE FROM setting; DELETE FROM event

-- name: next_generation
UPDATE store SET generation = generation + 1

-- name: check_blockers
SELECT t.scope || '/' || t.id FROM task AS t
LEFT JOIN link ON link.task = t.key AND link.kind = 'blocks'
LEFT JOIN task AS before ON before.key = link.on_task AND before.status NOT IN ('done', 'canceled')
GROUP BY t.key HAVING t.blockers <> count(before.key)

-- name: check_flags
-- An unneeded flag costs a query; a missing one strands a dependent.
SELECT t.scope || '/' || t.id FROM task AS t WHERE
    NOT has_prerequisites AND EXISTS (SELECT FROM link WHERE link.task = t.key AND link.kind <> 'parallel_ok')
    OR NOT has_dependents AND EXISTS (SELECT FROM link WHERE link.on_task = t.key AND link.kind = 'blocks')
    OR NOT has_children AND EXISTS (SELECT FROM task AS child WHERE child.scope = t.scope AND child.parent = t.id)

-- name: check_copies
SELECT scope || '/' || id FROM task WHERE
    (created_at, category, spec_ref, parent, assigned_to, max_retries, priority, override_rank)
        IS DISTINCT FROM (
            (doc ->> 'created_at')::timestamptz, doc ->> 'category', doc ->> 'spec_ref', doc ->> 'parent',
            doc ->> 'assigned_to', (doc ->> 'max_retries')::integer, coalesce((doc ->> 'priority')::float8, 2),
            CASE WHEN doc ->> 'override' = 'true' THEN 0 ELSE 1 END)
    OR class_rank <> array_position(
        ARRAY['expedite', 'fixed_date', 'standard', 'intangible'], coalesce(doc ->> 'service_class', 'standard'))
    OR to_jsonb(labels) IS DISTINCT FROM (doc -> 'labels')::jsonb
    OR to_jsonb(requires) IS DISTINCT FROM (doc -> 'requires')::jsonb

-- name: check_schedule
-- A task that is due but not yet woken is fine: the next claim wakes it.
SELECT scope || '/' || id FROM task WHERE
    claimable <> (blockers = 0 AND wake_at IS NULL
                  AND (status = 'ready' OR (status = 'active' AND coalesce(holder, '') = 'agent')))
    OR wake_at IS DISTINCT FROM (CASE
        WHEN status = 'ready' AND not_before > %(now)s THEN not_before
        WHEN status = 'ready' AND wake_at IS NOT NULL THEN not_before
        WHEN status = 'active' AND holder = 'agent' AND expires_at > %(now)s THEN expires_at
        WHEN status = 'active' AND holder = 'agent' AND wake_at IS NOT NULL THEN expires_at END)

-- name: check_order
SELECT scope || '/' || id FROM task
WHERE (status IN ('done', 'canceled')) <> (finished_at IS NOT NULL) OR class_rank NOT BETWEEN 1 AND 4
   OR override_rank NOT IN (0, 1)

-- name: check_leases
SELECT scope || '/' || id FROM task WHERE
    (status = 'active') <> (holder IS NOT NULL)
    OR (holder IS NOT NULL AND (token IS NULL OR agent IS NULL OR claimed_at IS NULL OR attempt < 1))
    OR (holder IS NULL AND (agent IS NOT NULL OR expires_at IS NOT NULL))
    OR (holder = 'human' AND expires_at IS NOT NULL)

-- name: check_attempts
SELECT task.scope || '/' || task.id
FROM task JOIN event ON event.scope = task.scope AND event.task = task.id
WHERE event.attempt > task.attempt AND event.at >= task.created_at -- older ones are of a pruned task with this id
GROUP BY task.key

-- name: check_chain
SELECT task.scope || '/' || task.id
FROM (SELECT scope, task AS id, max(seq) AS seq FROM event GROUP BY scope, task) AS known
JOIN task ON task.scope = known.scope AND task.id = known.id WHERE task.last_event IS DISTINCT FROM known.seq

-- name: check_orphan_links
SELECT link.task || ' → ' || link.on_task FROM link
WHERE NOT EXISTS (SELECT FROM task WHERE key = link.task) OR NOT EXISTS (SELECT FROM task WHERE key = link.on_task)

-- name: check_cross_links
SELECT a.scope || '/' || a.id || ' → ' || b.scope || '/' || b.id
FROM link JOIN task AS a ON a.key = link.task JOIN task AS b ON b.key = link.on_task WHERE a.scope <> b.scope

-- name: check_parents
SELECT child.scope || '/' || child.id FROM task AS child WHERE child.parent IS NOT NULL
  AND NOT EXISTS (SELECT FROM task AS parent WHERE parent.scope = child.scope AND parent.id = child.parent)

-- name: check_vectors
SELECT task.scope || '/' || task.id FROM vector JOIN task ON task.key = vector.task
WHERE octet_length(vector.unit) <> (SELECT octet_length(unit) FROM vector LIMIT 1) OR octet_length(vector.unit) %% 4 <> 0

-- name: orphan_children
SELECT child.id, child.parent FROM task AS child WHERE child.scope = %s AND child.parent IS NOT NULL
  AND NOT EXISTS (SELECT FROM task AS parent WHERE parent.scope = child.scope AND parent.id = child.parent) LIMIT 1

-- name: drop_orphan_links
DELETE FROM link
WHERE NOT EXISTS (SELECT FROM task WHERE key = link.task) OR NOT EXISTS (SELECT FROM task WHERE key = link.on_task)

-- name: drop_orphan_parents
UPDATE task SET parent = NULL, doc = (doc::jsonb - 'parent')::json WHERE parent IS NOT NULL
  AND NOT EXISTS (SELECT FROM task AS parent WHERE parent.scope = task.scope AND parent.id = task.parent)

-- name: health
-- Rows that wait for a vacuum, and the age of the oldest snapshot. Both slow down a busy table.
SELECT coalesce((SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = to_regclass('task')), 0),
    coalesce((SELECT n_live_tup FROM pg_stat_user_tables WHERE relid = to_regclass('task')), 0),
    coalesce((SELECT extract(epoch FROM max(statement_timestamp() - xact_start)) FROM pg_stat_activity
              WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()), 0)::bigint,
    current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync'), id, generation
FROM store
