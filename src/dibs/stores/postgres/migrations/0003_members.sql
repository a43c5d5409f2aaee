-- Who belongs to the fleet. Whoever claims under such a name is held to its limit, by who has its row locked.
CREATE TABLE member (
    agent       text COLLATE "C" PRIMARY KEY,
    role        text        NOT NULL,
    can         text[]      NOT NULL,
    task_limit  integer     NOT NULL,
    enrolled_at timestamptz NOT NULL,
    seen_at     timestamptz NOT NULL -- when it last asked for work
);

-- What waits for somebody in particular.
CREATE INDEX task_assigned ON task (assigned_to, status) WHERE assigned_to IS NOT NULL;

DROP FUNCTION claim_next(text, text, text, text, text[], interval, text[], boolean, boolean);

-- Claim the next tasks of a scope, or of any. One row without a task is the answer when expired leases without a retry
-- left must be dealt with first. Nothing found is looked at once more, waiting for whoever has a row locked: SKIP LOCKED
-- also passes over tasks that someone merely looks at.
-- One row that says "bounded" is the answer to a member of the fleet whose limit was not looked at.
CREATE FUNCTION claim_next(
    p_scope text, p_agent text, p_run text, p_holder text, p_tokens text[], p_lease interval, p_can text[],
    p_wake boolean DEFAULT true, p_patient boolean DEFAULT true, p_bounded boolean DEFAULT false
) RETURNS TABLE (told task, more json) LANGUAGE plpgsql AS $$
DECLARE
    moment CONSTANT timestamptz := desk_now();
    expires CONSTANT timestamptz := CASE WHEN p_holder = 'agent' THEN moment + p_lease END;
    keys bigint[];
BEGIN
    IF p_scope IS NOT NULL THEN
        -- The usual case in one statement: the head of a scope's queue, while nothing is due. Materialised: a join that
        -- asked for the head once more would get, and lease, the next ones too.
        RETURN QUERY
        WITH head AS MATERIALIZED (
            SELECT key, status, agent, last_event FROM task
            WHERE claimable AND scope = p_scope AND (assigned_to IS NULL OR assigned_to = p_agent) AND requires <@ p_can
              AND NOT (p_wake AND EXISTS (
                  SELECT FROM task AS due WHERE due.status IN ('active', 'ready') AND due.wake_at <= moment))
              AND (p_bounded OR NOT EXISTS (SELECT FROM member WHERE member.agent = p_agent))
            ORDER BY class_rank, override_rank, priority, queued_at, id
            LIMIT cardinality(p_tokens) FOR NO KEY UPDATE SKIP LOCKED
        ), before AS (
            SELECT head.*, row_number() OVER () AS place FROM head
        ), leased AS (
            UPDATE task SET
                status = 'active', updated_at = moment, started_at = moment, claimed_at = moment, expires_at = expires,
                attempt = task.attempt + 1, retries = task.retries + (before.status = 'active')::integer,
                token = p_tokens[before.place], agent = p_agent, run = p_run, holder = p_holder,
                reason = NULL, unblock_action = NULL, next_check_at = NULL, not_before = NULL, ended = NULL,
                finished_at = NULL, finished_by = NULL,
                claimable = false, wake_at = expires, last_event = nextval('event_seq_seq')
            FROM before WHERE task.key = before.key
            RETURNING task AS now, task.key, task.id, task.attempt, task.last_event,
                      before.status AS source, before.agent AS taken_from, before.last_event AS previous, before.place
        ), recorded AS (
            INSERT INTO event (seq, at, scope, task, verb, agent, run, attempt, source, target, detail, previous)
            SELECT leased.last_event, moment, p_scope, leased.id, 'claim', p_agent, p_run, leased.attempt, source, 'active',
                   CASE WHEN source = 'active' THEN json_build_object('taken_from', taken_from, 'forced', false)
                        ELSE '{}' END,
                   previous
            FROM leased
        )
        SELECT leased.now,
               -- All of this sees the moment before the rows were locked. A task that something happened to in between
               -- is looked at as it is now: `handoffs` is volatile for that.
               CASE WHEN EXISTS (SELECT FROM link WHERE link.task = leased.key)
                      OR NOT EXISTS (SELECT FROM task AS seen WHERE seen.key = leased.key
                                     AND seen.last_event IS NOT DISTINCT FROM leased.previous)
                    THEN handoffs(leased.key) END
        FROM leased ORDER BY leased.place;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF NOT p_bounded AND EXISTS (SELECT FROM member WHERE member.agent = p_agent) THEN
        more := '"bounded"';
        RETURN NEXT;
        RETURN;
    END IF;
    IF p_wake AND EXISTS (SELECT FROM task WHERE status IN ('active', 'ready') AND wake_at <= moment) THEN
        IF wake(moment, p_scope) THEN
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    IF p_scope IS NULL THEN
        keys := first_anywhere(p_agent, p_can, cardinality(p_tokens), false);
        IF keys = '{}' AND p_patient THEN
            PERFORM wake_locked(moment, NULL);
            keys := first_anywhere(p_agent, p_can, cardinality(p_tokens), true);
        END IF;
    ELSE
        keys := ARRAY(
            SELECT key FROM task
            WHERE claimable AND scope = p_scope AND (assigned_to IS NULL OR assigned_to = p_agent) AND requires <@ p_can
            ORDER BY class_rank, override_rank, priority, queued_at, id
            LIMIT cardinality(p_tokens) FOR NO KEY UPDATE SKIP LOCKED);
        IF keys = '{}' AND p_patient THEN
            PERFORM wake_locked(moment, p_scope);
            keys := ARRAY(
                SELECT key FROM task
                WHERE claimable AND scope = p_scope AND (assigned_to IS NULL OR assigned_to = p_agent) AND requires <@ p_can
                ORDER BY class_rank, override_rank, priority, queued_at, id LIMIT 1 FOR NO KEY UPDATE);
        END IF;
    END IF;
    IF keys <> '{}' THEN
        RETURN QUERY SELECT * FROM lease_out(
            keys, p_tokens[:cardinality(keys)], p_agent, p_run, p_holder, expires, moment);
    END IF;
END $$;

-- Claim named tasks, all or none; only the plain case. No rows means that someone has to look at each and say why.
-- Nor are there any for a member: its limit is looked at first.
CREATE OR REPLACE FUNCTION claim_named(
    p_scope text, p_ids text[], p_agent text, p_run text, p_tokens text[], p_lease interval, p_can text[]
) RETURNS TABLE (told task, more json) LANGUAGE plpgsql AS $$
DECLARE
    moment CONSTANT timestamptz := desk_now();
    locked bigint[];
BEGIN
    IF EXISTS (SELECT FROM member WHERE member.agent = p_agent) THEN
        RETURN;
    END IF;
    -- One order for everyone who locks several rows: by key.
    locked := ARRAY(
        SELECT key FROM task
        WHERE scope = p_scope AND id = ANY (p_ids) AND claimable
          AND (assigned_to IS NULL OR assigned_to = p_agent) AND requires <@ p_can
          AND NOT (status = 'active' AND max_retries IS NOT NULL AND retries >= max_retries)
        ORDER BY key FOR NO KEY UPDATE);
    IF cardinality(locked) = cardinality(p_ids) THEN
        locked := ARRAY(
            SELECT task.key FROM unnest(p_ids) WITH ORDINALITY AS given (id, place)
            JOIN task ON task.scope = p_scope AND task.id = given.id ORDER BY given.place);
        RETURN QUERY SELECT * FROM lease_out(locked, p_tokens, p_agent, p_run, 'agent', moment + p_lease, moment);
    END IF;
END $$;
