-- Every statement of the SQLite store. {task}, {moving}, {stated} and {event} are replaced by the column lists in rows.py,
-- {moving?} and {stated?} by as many parameters, {open} by the value of opens_at for "claimable now". {fits} holds the
-- conditions of a listing, {matches} those of a filter, {order} the order, {beyond} the condition for later places in it.

-- name: task_by_id
SELECT {task} FROM task WHERE scope = ? AND id = ?

-- name: task_to_move
-- Also whether the task has an unfinished child, and whether it has a dependent: most have neither.
SELECT {task},
    EXISTS (SELECT 1 FROM task AS child INDEXED BY task_parent
            WHERE child.scope = task.scope AND child.parent = task.id AND child.status NOT IN ('done', 'canceled')),
    EXISTS (SELECT 1 FROM link WHERE link.on_task = task.key AND link.kind = 'blocks')
FROM task WHERE scope = ? AND id = ?

-- name: task_by_key
SELECT {task} FROM task WHERE key = ?

-- name: ids_by_prefix
-- A range over the unique index; the upper end is the prefix followed by the largest character.
SELECT id FROM task WHERE scope = :scope AND id >= :prefix AND id < :prefix || char(1114111) ORDER BY id LIMIT :limit

-- name: key_of
SELECT key FROM task WHERE scope = ? AND id = ?

-- name: scopes
-- A loose scan: one probe per scope instead of one per task.
WITH RECURSIVE seen (scope) AS (
    SELECT min(scope) FROM task
    UNION ALL
    SELECT (SELECT min(scope) FROM task WHERE scope > seen.scope) FROM seen WHERE seen.scope IS NOT NULL
)
SELECT scope FROM seen WHERE scope IS NOT NULL

-- name: scopes_with_work
-- Scopes with claimable tasks, again one probe each, or with due tasks that the next claim wakes.
WITH RECURSIVE seen (scope) AS (
    SELECT min(scope) FROM task INDEXED BY task_queue WHERE opens_at = {open}
    UNION ALL
    SELECT (SELECT min(scope) FROM task INDEXED BY task_queue WHERE opens_at = {open} AND scope > seen.scope)
    FROM seen WHERE seen.scope IS NOT NULL
)
SELECT scope FROM seen WHERE scope IS NOT NULL
UNION
SELECT scope FROM task INDEXED BY task_queue WHERE opens_at <= :now AND blockers = 0
  AND NOT (status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries)
ORDER BY scope

-- name: added_since
SELECT created_at FROM task WHERE scope = ? AND created_at > ? ORDER BY created_at

-- name: find_open
-- A listing merges three sorted parts: claimable tasks, tasks that become claimable later, and tasks aside from the queue.
-- Of each part, it reads no more rows than it shows.
SELECT {task} FROM task INDEXED BY task_queue
WHERE opens_at = {open} AND scope = :scope AND {beyond} AND aside IS NULL AND {fits}
ORDER BY class_rank, override_rank, priority, queued_at, id LIMIT :limit

-- name: find_aside
SELECT {task} FROM task INDEXED BY task_aside
WHERE aside = :status AND scope = :scope AND {beyond} AND {fits}
ORDER BY class_rank, override_rank, priority, queued_at, id LIMIT :limit

-- name: find_in_order
-- A listing that includes finished tasks reads one index in order, and skips the few tasks of other statuses.
SELECT {task} FROM task INDEXED BY task_order
WHERE scope = :scope AND {beyond} AND status IN (SELECT value FROM json_each(:statuses)) AND {fits}
ORDER BY class_rank, override_rank, priority, queued_at, id LIMIT :limit

-- name: find_timed
-- In order of time: as many as there are leases, and tasks that are not due.
SELECT {task} FROM task INDEXED BY task_queue
WHERE opens_at < {open} AND scope IN (SELECT value FROM json_each(:scopes)) AND {beyond}
  AND status IN (SELECT value FROM json_each(:statuses)) AND {fits}
ORDER BY {order} LIMIT :limit

-- name: find_by_index
-- One parent, spec or agent has few tasks.
SELECT {task} FROM task
WHERE task.key IN (
    SELECT key FROM task INDEXED BY task_parent
    WHERE :by = 'parent' AND parent = :parent AND scope IN (SELECT value FROM json_each(:scopes))
    UNION ALL
    SELECT key FROM task INDEXED BY task_spec
    WHERE :by = 'spec_ref' AND spec_ref = :spec_ref AND scope IN (SELECT value FROM json_each(:scopes))
    UNION ALL
    SELECT key FROM task INDEXED BY task_assigned
    WHERE :by = 'assigned_to' AND assigned_to = :assigned_to AND status IN (SELECT value FROM json_each(:statuses))
  )
  AND scope IN (SELECT value FROM json_each(:scopes)) AND status IN (SELECT value FROM json_each(:statuses))
  AND {beyond} AND {fits}
ORDER BY {order} LIMIT :limit

-- name: insert_task
INSERT INTO task (scope, id, created_at, origin, {stated}, {moving}, last_event)
VALUES (?, ?, ?, ?, {stated?}, {moving?}, ?)

-- name: write_move
UPDATE task SET ({moving}) = ({moving?}), last_event = ? WHERE key = ?

-- name: write_edit
UPDATE task SET ({stated}) = ({stated?}), not_before = ?, updated_at = ?, opens_at = ?, aside = ?, last_event = ?
WHERE key = ?

-- name: requeue
UPDATE task SET queued_at = ? WHERE key = ?

-- name: restate
UPDATE task SET assigned_to = ?, extra = ? WHERE key = ?

-- name: anything_due
SELECT 1 FROM task INDEXED BY task_queue WHERE opens_at <= ? LIMIT 1

-- name: due_without_retry
-- Expired leases without a retry left.
SELECT {task} FROM task INDEXED BY task_queue
WHERE opens_at <= ? AND status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries

-- name: wake
-- Open the due tasks. The next claim replaces their token and lease.
UPDATE task INDEXED BY task_queue SET
    opens_at = CASE WHEN blockers = 0 THEN {open} END, aside = CASE WHEN status = 'active' OR blockers > 0 THEN status END
WHERE opens_at <= ?

-- name: claim_head
-- The first open tasks of a scope that the asker fits, straight off the queue; none while something is due that a claim
-- has to wake first, nor for a member of the fleet whose limit was not looked at. Last comes whether it has links. One
-- statement for all these questions, and numbered parameters (scope, agent, can, limit, now, bounded, filter), as this is the
-- path of every claim.
SELECT {task}, EXISTS (SELECT 1 FROM link WHERE link.task = task.key) FROM task INDEXED BY task_queue
WHERE opens_at = {open} AND scope = ?1
  AND NOT EXISTS (SELECT 1 FROM task INDEXED BY task_queue WHERE opens_at <= ?5)
  AND (?6 OR NOT EXISTS (SELECT 1 FROM member WHERE agent = ?2))
  AND (assigned_to IS NULL OR assigned_to = ?2)
  AND (requires = '[]' OR ?3 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(task.requires) AS need WHERE need.value NOT IN (SELECT value FROM json_each(?3))))
  AND {matches?}
ORDER BY class_rank, override_rank, priority, queued_at, id
LIMIT ?4

-- name: due_head
-- The same over tasks that are due but not yet woken, because readers write nothing.
SELECT {task} FROM task INDEXED BY task_queue
WHERE opens_at <= ?5 AND scope = ?1 AND blockers = 0
  AND NOT (status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries)
  AND (assigned_to IS NULL OR assigned_to = ?2)
  AND (requires = '[]' OR ?3 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(task.requires) AS need WHERE need.value NOT IN (SELECT value FROM json_each(?3))))
  AND {matches?}
ORDER BY class_rank, override_rank, priority, queued_at, id
LIMIT ?4

-- name: assigned_head
-- The first tasks assigned to the agent, open or due, in one scope or in all.
SELECT {task}, EXISTS (SELECT 1 FROM link WHERE link.task = task.key) FROM task INDEXED BY task_assigned
WHERE assigned_to = :agent AND status IN ('ready', 'active') AND (:scope IS NULL OR scope = :scope)
  AND (opens_at = {open} OR (opens_at <= :now AND blockers = 0
       AND NOT (status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries)))
  AND (:can IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(task.requires) AS need WHERE need.value NOT IN (SELECT value FROM json_each(:can))))
  AND {matches}
ORDER BY class_rank, override_rank, priority, queued_at, id, scope
LIMIT :limit

-- name: held_under
-- By its token: among what is leased, or else among what was woken since.
SELECT {task} FROM task WHERE token = :token AND status = 'active' AND key IN (
    SELECT key FROM task INDEXED BY task_queue WHERE opens_at < {open}
    UNION ALL
    SELECT key FROM task INDEXED BY task_aside WHERE aside = 'active')

-- name: inputs
-- The inputs of a task: results of its finished prerequisites.
SELECT before.id, before.title, before.result, before.artifacts
FROM link JOIN task AS before ON before.key = link.on_task
WHERE link.task = ? AND link.kind <> 'parallel_ok' AND before.status = 'done'
ORDER BY before.id

-- name: open_children
SELECT id FROM task INDEXED BY task_parent WHERE scope = ? AND parent = ? AND status NOT IN ('done', 'canceled') LIMIT 5

-- name: release_dependents
-- A prerequisite is finished. A dependent without other unfinished prerequisites is open if its own state allows it.
UPDATE task SET
    blockers = blockers - 1,
    opens_at = CASE WHEN blockers = 1 AND opens_at IS NULL AND (status = 'ready' OR (status = 'active' AND holder = 'agent'))
                    THEN {open} ELSE opens_at END,
    aside = CASE WHEN blockers = 1 AND status = 'ready' THEN NULL ELSE aside END
WHERE key IN (SELECT task FROM link WHERE on_task = ? AND kind = 'blocks')
RETURNING id, opens_at IS {open}

-- name: gate_dependents
-- A finished prerequisite was opened again.
UPDATE task SET
    blockers = blockers + 1, opens_at = nullif(opens_at, {open}), aside = CASE WHEN opens_at = {open} THEN status ELSE aside END
WHERE key IN (SELECT task FROM link WHERE on_task = ? AND kind = 'blocks')

-- name: gated_dependents
SELECT {task} FROM task WHERE key IN (SELECT task FROM link WHERE on_task = ? AND kind = 'blocks') ORDER BY id

-- name: gate
UPDATE task SET
    blockers = blockers + 1, opens_at = nullif(opens_at, {open}), aside = CASE WHEN opens_at = {open} THEN status ELSE aside END
WHERE key = ?

-- name: ungate
UPDATE task SET
    blockers = blockers - 1,
    opens_at = CASE WHEN blockers = 1 AND opens_at IS NULL AND (status = 'ready' OR (status = 'active' AND holder = 'agent'))
                    THEN {open} ELSE opens_at END,
    aside = CASE WHEN blockers = 1 AND status = 'ready' THEN NULL ELSE aside END
WHERE key = ?

-- name: link_between
SELECT kind FROM link WHERE task = ? AND on_task = ?

-- name: put_link
INSERT INTO link (task, on_task, kind, weight, detected_by, confidence) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (task, on_task) DO UPDATE SET
    kind = excluded.kind, weight = excluded.weight, detected_by = excluded.detected_by, confidence = excluded.confidence

-- name: put_link_by_id
INSERT INTO link (task, on_task, kind, weight, detected_by, confidence)
SELECT a.key, b.key, :kind, :weight, :detected_by, :confidence FROM task AS a, task AS b
WHERE a.scope = :scope AND a.id = :task AND b.scope = :scope AND b.id = :on

-- name: drop_link
DELETE FROM link WHERE task = ? AND on_task = ? AND kind = ? RETURNING kind, weight, detected_by, confidence

-- name: links_of
-- From either end, each link once.
WITH found (task, on_task, kind, weight, detected_by, confidence) AS (
    SELECT * FROM link WHERE task IN (SELECT value FROM json_each(:keys))
    UNION
    SELECT * FROM link WHERE on_task IN (SELECT value FROM json_each(:keys))
)
SELECT a.id, b.id, found.kind, found.weight, found.detected_by, found.confidence
FROM found JOIN task AS a ON a.key = found.task JOIN task AS b ON b.key = found.on_task ORDER BY a.id, b.id

-- name: links_from
SELECT a.id, b.id, link.kind, link.weight, link.detected_by, link.confidence
FROM json_each(:ids) AS wanted
CROSS JOIN task AS a ON a.scope = :scope AND a.id = wanted.value
JOIN link ON link.task = a.key JOIN task AS b ON b.key = link.on_task

-- name: links_in_scope
SELECT a.id, b.id, link.kind, link.weight, link.detected_by, link.confidence
FROM task AS a JOIN link ON link.task = a.key JOIN task AS b ON b.key = link.on_task
WHERE a.scope = ? ORDER BY a.id, b.id

-- name: edges_in_scope
-- Edges of the order as keys, parents included (a parent comes after its children).
SELECT link.task, link.on_task FROM task AS a JOIN link ON link.task = a.key
WHERE a.scope = :scope AND link.kind <> 'parallel_ok'
UNION ALL
SELECT parent.key, child.key FROM task AS child JOIN task AS parent ON parent.scope = child.scope AND parent.id = child.parent
WHERE child.scope = :scope AND child.parent IS NOT NULL

-- name: step_before
-- One layer of a walk: the tasks directly before any of these.
SELECT link.task, link.on_task FROM json_each(:keys) AS at JOIN link ON link.task = at.value WHERE link.kind <> 'parallel_ok'
UNION ALL
SELECT parent.key, child.key FROM json_each(:keys) AS at JOIN task AS parent ON parent.key = at.value
JOIN task AS child INDEXED BY task_parent ON child.scope = parent.scope AND child.parent = parent.id

-- name: step_after
-- One layer of a walk: the tasks directly after any of these.
SELECT link.on_task, link.task FROM json_each(:keys) AS at JOIN link INDEXED BY link_on ON link.on_task = at.value
WHERE link.kind <> 'parallel_ok'
UNION ALL
SELECT child.key, parent.key FROM json_each(:keys) AS at JOIN task AS child ON child.key = at.value
JOIN task AS parent ON parent.scope = child.scope AND parent.id = child.parent

-- name: ids_of
SELECT key, id FROM task WHERE key IN (SELECT value FROM json_each(?))

-- name: tasks_in_scope
SELECT {task} FROM task WHERE scope = :scope AND (:finished OR status NOT IN ('done', 'canceled')) ORDER BY id

-- name: tasks_with_words
-- A superset of what a search finds: the words are looked for anywhere, and only those in ASCII, which `lower` knows.
WITH note AS (
    SELECT task, json_group_array(reason) AS texts FROM event
    WHERE scope = :scope AND verb = 'comment' AND reason IS NOT NULL GROUP BY task
)
SELECT {task}, note.texts FROM task LEFT JOIN note ON note.task = task.id
WHERE scope = :scope AND NOT EXISTS (
    SELECT 1 FROM json_each(:words) AS word
    WHERE instr(lower(id || ' ' || title || ' ' || coalesce(description, '') || ' ' || coalesce(labels, '') || ' '
        || coalesce(category, '') || ' ' || coalesce(steps, '') || ' ' || coalesce(note.texts, '')), word.value) = 0
)

-- name: tasks_named
SELECT {task} FROM json_each(:ids) AS wanted CROSS JOIN task ON task.scope = :scope AND task.id = wanted.value

-- name: tasks_of_specs
SELECT {task} FROM json_each(:specs) AS wanted
CROSS JOIN task INDEXED BY task_spec ON task.scope = :scope AND task.spec_ref = wanted.value

-- name: insert_event
INSERT INTO event (at, scope, task, verb, outcome, agent, run, attempt, source, target, reason, detail, previous)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: last_event_of
SELECT last_event FROM task WHERE scope = ? AND id = ?

-- name: write_last_event
UPDATE task SET last_event = ? WHERE scope = ? AND id = ?

-- name: events
SELECT {event} FROM event WHERE seq > :after AND (:scope IS NULL OR scope = :scope) ORDER BY seq LIMIT :limit

-- name: events_of_task
-- Back along the chain from the newest.
WITH RECURSIVE chain (seq) AS (
    SELECT last_event FROM task WHERE scope = :scope AND id = :task
    UNION ALL
    SELECT event.previous FROM chain JOIN event ON event.seq = chain.seq
)
SELECT {event} FROM chain JOIN event ON event.seq = chain.seq WHERE event.seq > :after ORDER BY event.seq LIMIT :limit

-- name: newest_events
SELECT {event} FROM event WHERE seq > :after AND (:scope IS NULL OR scope = :scope) ORDER BY seq DESC LIMIT :limit

-- name: events_by_name
-- For a deleted task, or in any scope: scan the events.
SELECT {event} FROM event
WHERE (:scope IS NULL OR scope = :scope) AND task = :task AND seq > :after ORDER BY seq LIMIT :limit

-- name: newest_events_by_name
SELECT {event} FROM event
WHERE (:scope IS NULL OR scope = :scope) AND task = :task AND seq > :after ORDER BY seq DESC LIMIT :limit

-- name: newest_events_of_task
WITH RECURSIVE chain (seq) AS (
    SELECT last_event FROM task WHERE scope = :scope AND id = :task
    UNION ALL
    SELECT event.previous FROM chain JOIN event ON event.seq = chain.seq
    LIMIT :limit
)
SELECT {event} FROM chain JOIN event ON event.seq = chain.seq WHERE event.seq > :after ORDER BY event.seq DESC

-- name: tallies
-- Triggers maintain these counts.
SELECT state, sum(number) FROM tally WHERE scope IN (SELECT value FROM json_each(:scopes)) GROUP BY state

-- name: count_woken
-- Expired leases that a claim has woken: their status is still active, but they are open.
SELECT count(*) FROM task INDEXED BY task_aside
WHERE aside = 'active' AND scope IN (SELECT value FROM json_each(:scopes)) AND opens_at = {open}

-- name: count_timed
-- How many wait for others as well, how many are due but not yet woken by a claim, how many are not due, and the next
-- end of a lease or day that a task was put off to.
SELECT status, count(*), sum(blockers > 0),
    sum(opens_at <= :now AND blockers = 0
        AND NOT (status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries)),
    sum(opens_at > :now AND status = 'ready' AND blockers = 0), min(CASE WHEN opens_at > :now THEN opens_at END)
FROM task INDEXED BY task_queue
WHERE opens_at < {open} AND scope IN (SELECT value FROM json_each(:scopes)) GROUP BY status

-- name: agent_by_id
SELECT id, host, pid, started_at, status, ended_at FROM agent WHERE id = ?

-- name: agents
SELECT id, host, pid, started_at, status, ended_at FROM agent ORDER BY started_at, id

-- name: put_agent
-- A name can be used again after its agent is gone.
INSERT OR REPLACE INTO agent (id, host, pid, started_at, status, ended_at) VALUES (?, ?, ?, ?, ?, ?)

-- name: put_member
INSERT INTO member (agent, role, can, task_limit, enrolled_at, seen_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (agent) DO UPDATE SET role = excluded.role, can = excluded.can, task_limit = excluded.task_limit

-- name: drop_member
DELETE FROM member WHERE agent = ?

-- name: see_member
UPDATE member SET seen_at = ? WHERE agent = ?

-- name: limit_of
-- Also the number of its live leases.
SELECT task_limit, seen_at, (
    SELECT count(*) FROM task INDEXED BY task_queue
    WHERE opens_at > :now AND opens_at < {open} AND task.status = 'active' AND task.agent = member.agent)
FROM member WHERE agent = :agent

-- name: members
-- One or all, with the number of live leases and of free tasks assigned to each.
SELECT agent, role, can, task_limit, enrolled_at, seen_at,
    (SELECT count(*) FROM task INDEXED BY task_queue
     WHERE opens_at > :now AND opens_at < {open} AND task.status = 'active' AND task.agent = member.agent),
    (SELECT count(*) FROM task INDEXED BY task_assigned
     WHERE assigned_to = member.agent AND status IN ('ready', 'active') AND (opens_at = {open} OR (opens_at <= :now
       AND blockers = 0 AND NOT (status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries))))
FROM member WHERE :agent IS NULL OR agent = :agent ORDER BY agent

-- name: vector_length
-- All vectors have the same length.
SELECT length(unit) / 4 FROM vector LIMIT 1

-- name: put_vector
INSERT INTO vector (task, unit) VALUES (?, ?) ON CONFLICT (task) DO UPDATE SET unit = excluded.unit

-- name: drop_vector
DELETE FROM vector WHERE task = ?

-- name: vectors
SELECT task.id, vector.unit FROM task JOIN vector ON vector.task = task.key
WHERE task.scope = :scope AND (:finished OR task.status NOT IN ('done', 'canceled'))

-- name: settings
SELECT name, value FROM setting WHERE scope = ? ORDER BY name

-- name: put_setting
INSERT INTO setting (scope, name, value) VALUES (?, ?, ?)
ON CONFLICT (scope, name) DO UPDATE SET value = excluded.value

-- name: new_setting
INSERT INTO setting (scope, name, value) VALUES (?, ?, ?) ON CONFLICT (scope, name) DO NOTHING

-- name: drop_setting
DELETE FROM setting WHERE scope = ? AND name = ?

-- name: output_end
SELECT coalesce(max(start + size), 0) FROM output WHERE task = ? AND attempt = ?

-- name: put_output
INSERT INTO output (task, attempt, start, size, at, text) VALUES (?, ?, ?, ?, ?, ?)

-- name: drop_middle_of_output
-- Whole pieces between the head and the tail that are kept.
DELETE FROM output WHERE task = ? AND attempt = ? AND start >= ? AND start + size <= ?

-- name: drop_early_output
DELETE FROM output WHERE task = ? AND attempt <= ?

-- name: output_from
SELECT start, text FROM output WHERE task = ? AND attempt = ? AND start >= ? ORDER BY start

-- name: output_attempts
SELECT DISTINCT attempt FROM output WHERE task = ? ORDER BY attempt

-- name: prune_output
DELETE FROM output WHERE rowid IN (SELECT rowid FROM output WHERE at < :before LIMIT :bite)

-- name: prune_events
-- Delete a limited number of the oldest events. The newest event stays, because numbering continues from it.
DELETE FROM event WHERE seq IN (SELECT seq FROM (SELECT seq, at FROM event ORDER BY seq LIMIT :bite) WHERE at < :before)
  AND seq < (SELECT max(seq) FROM event)

-- name: highest_key
SELECT coalesce(max(key), 0) FROM task

-- name: prunable_tasks
-- Old finished tasks in a range of keys, without an unfinished child or an unfinished task at the other end of a link.
SELECT key FROM task AS old
WHERE key > :low AND key <= :high AND finished_at < :before
  AND NOT EXISTS (SELECT 1 FROM link JOIN task AS other ON other.key = link.task
                  WHERE link.on_task = old.key AND other.status NOT IN ('done', 'canceled'))
  AND NOT EXISTS (SELECT 1 FROM task AS child WHERE child.scope = old.scope AND child.parent = old.id)
ORDER BY key DESC

-- name: drop_links_of
DELETE FROM link WHERE task = :key OR on_task = :key

-- name: drop_task
DELETE FROM task WHERE key = ?

-- name: dump_tasks
SELECT {task} FROM task ORDER BY key

-- name: dump_links
SELECT a.scope, a.id, b.id, link.kind, link.weight, link.detected_by, link.confidence
FROM link JOIN task AS a ON a.key = link.task JOIN task AS b ON b.key = link.on_task ORDER BY link.task, link.on_task

-- name: dump_settings
SELECT scope, name, value FROM setting ORDER BY scope, name

-- name: dump_events
SELECT {event} FROM event ORDER BY seq

-- name: status_of
SELECT status FROM task WHERE key = ?

-- name: recount_blockers
UPDATE task SET blockers = counted.number
FROM (
    SELECT t.key, (
        SELECT count(*) FROM link JOIN task AS before ON before.key = link.on_task
        WHERE link.task = t.key AND link.kind = 'blocks' AND before.status NOT IN ('done', 'canceled')
    ) AS number FROM task AS t
) AS counted
WHERE counted.key = task.key AND task.blockers <> counted.number

-- name: reschedule
-- Recompute opens_at and aside, as `schedule_of` in rows.py does for one task.
UPDATE task SET opens_at = derived.opens_at, aside = derived.aside
FROM (
    SELECT key, opens AS opens_at,
        CASE WHEN status <> 'done' AND (opens IS NULL OR (opens = {open} AND status = 'active')) THEN status END AS aside
    FROM (
        SELECT key, status,
            CASE WHEN status = 'ready' AND not_before > :now THEN not_before
                 WHEN status = 'active' AND holder = 'agent' THEN expires_at
                 WHEN status = 'ready' AND blockers = 0 THEN {open} END AS opens
        FROM task
    )
) AS derived
WHERE derived.key = task.key AND (task.opens_at IS NOT derived.opens_at OR task.aside IS NOT derived.aside)

-- name: check_blockers
SELECT scope || '/' || id FROM task AS t WHERE blockers <> (
    SELECT count(*) FROM link JOIN task AS before ON before.key = link.on_task
    WHERE link.task = t.key AND link.kind = 'blocks' AND before.status NOT IN ('done', 'canceled')
)

-- name: check_schedule
-- A task that is due but not yet woken is fine: the next claim wakes it.
SELECT scope || '/' || id FROM task WHERE
    opens_at IS NOT (CASE
        WHEN status = 'ready' AND not_before > :now THEN not_before
        WHEN status = 'ready' AND opens_at < {open} THEN not_before
        WHEN status = 'active' AND holder = 'agent' AND expires_at > :now THEN expires_at
        WHEN status = 'active' AND holder = 'agent' AND opens_at < {open} THEN expires_at
        WHEN blockers = 0 AND (status = 'ready' OR (status = 'active' AND holder = 'agent')) THEN {open} END)
    OR aside IS NOT (CASE
        WHEN status <> 'done' AND (opens_at IS NULL OR (opens_at = {open} AND status = 'active')) THEN status END)

-- name: check_order
SELECT scope || '/' || id FROM task
WHERE (status IN ('done', 'canceled')) <> (finished_at IS NOT NULL) OR class_rank NOT BETWEEN 1 AND 4 OR override_rank NOT IN (0, 1) OR queued_at <= 0 OR created_at <= 0

-- name: check_tally
WITH counted (scope, state, number) AS (
    SELECT scope, 'all', count(*) FROM task GROUP BY scope
    UNION ALL
    SELECT scope, 'open', count(*) FROM task WHERE opens_at = {open} GROUP BY scope
    UNION ALL
    SELECT scope, aside, count(*) FROM task WHERE aside IS NOT NULL GROUP BY scope, aside
)
SELECT DISTINCT scope FROM (
    SELECT scope, state, number FROM (SELECT * FROM counted EXCEPT SELECT scope, state, number FROM tally)
    UNION ALL
    SELECT scope, state, number FROM (SELECT scope, state, number FROM tally WHERE number <> 0 EXCEPT SELECT * FROM counted)
)

-- name: drop_tallies
DELETE FROM tally

-- name: recount_tallies
INSERT INTO tally
SELECT scope, 'all', count(*) FROM task GROUP BY scope
UNION ALL
SELECT scope, 'open', count(*) FROM task WHERE opens_at = {open} GROUP BY scope
UNION ALL
SELECT scope, aside, count(*) FROM task WHERE aside IS NOT NULL GROUP BY scope, aside

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
JOIN task ON task.scope = known.scope AND task.id = known.id WHERE task.last_event IS NOT known.seq

-- name: check_orphan_links
SELECT link.task || ' → ' || link.on_task FROM link
WHERE NOT EXISTS (SELECT 1 FROM task WHERE key = link.task) OR NOT EXISTS (SELECT 1 FROM task WHERE key = link.on_task)

-- name: check_cross_links
SELECT a.scope || '/' || a.id || ' → ' || b.scope || '/' || b.id
FROM link JOIN task AS a ON a.key = link.task JOIN task AS b ON b.key = link.on_task WHERE a.scope <> b.scope

-- name: check_parents
SELECT child.scope || '/' || child.id FROM task AS child WHERE child.parent IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM task AS parent WHERE parent.scope = child.scope AND parent.id = child.parent)

-- name: check_vectors
SELECT task.scope || '/' || task.id FROM vector JOIN task ON task.key = vector.task
WHERE length(vector.unit) <> (SELECT length(unit) FROM vector LIMIT 1) OR length(vector.unit) % 4 <> 0

-- name: orphan_children
SELECT child.id, child.parent FROM task AS child WHERE child.scope = :scope AND child.parent IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM task AS parent WHERE parent.scope = child.scope AND parent.id = child.parent) LIMIT 1

-- name: drop_orphan_links
DELETE FROM link WHERE NOT EXISTS (SELECT 1 FROM task WHERE key = link.task)
                    OR NOT EXISTS (SELECT 1 FROM task WHERE key = link.on_task)

-- name: drop_orphan_parents
UPDATE task SET parent = NULL WHERE parent IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM task AS parent WHERE parent.scope = task.scope AND parent.id = task.parent)

-- name: identity
SELECT id, generation FROM store

-- name: drop_all_links
DELETE FROM link

-- name: drop_all_tasks
DELETE FROM task

-- name: drop_all_settings
DELETE FROM setting

-- name: highest_event
SELECT coalesce(max(seq), 0) FROM event

-- name: drop_events_below
DELETE FROM event WHERE seq < ?

-- name: detach_event
UPDATE event SET scope = '', task = '' WHERE seq = ?

-- name: drop_followed_event
DELETE FROM event WHERE seq = ? AND seq < (SELECT max(seq) FROM event)

-- name: next_generation
UPDATE store SET generation = generation + 1
