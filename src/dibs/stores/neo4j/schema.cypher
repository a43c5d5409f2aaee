// Constraints and indexes, shared by all desks of a database. dibs finds its nodes by the label Item. Only work also has
// the label Task; messages, notes, mail, locks and tokens do not. Composite indexes hold only nodes with all of their
// properties. Tasks have `place` and `wakes_at` only while these matter, so both indexes are short.

// name: desk_name
CREATE CONSTRAINT dibs_desk IF NOT EXISTS FOR (d:Desk) REQUIRE d.name IS UNIQUE

// name: scope_name
CREATE CONSTRAINT dibs_scope IF NOT EXISTS FOR (s:Scope) REQUIRE (s.desk, s.name) IS UNIQUE

// name: item_id
CREATE CONSTRAINT dibs_item IF NOT EXISTS FOR (t:Item) REQUIRE (t.desk, t.sender_hash, t.id) IS UNIQUE

// name: event_seq
CREATE CONSTRAINT dibs_event IF NOT EXISTS FOR (e:Event) REQUIRE (e.desk, e.seq) IS UNIQUE

// name: agent_id
CREATE CONSTRAINT dibs_agent IF NOT EXISTS FOR (a:Agent) REQUIRE (a.desk, a.id) IS UNIQUE

// name: settings
CREATE CONSTRAINT dibs_settings IF NOT EXISTS FOR (c:UserConfig) REQUIRE (c.desk, c.sender_hash) IS UNIQUE

// name: imports
CREATE CONSTRAINT dibs_import IF NOT EXISTS FOR (i:Import) REQUIRE (i.desk, i.name) IS UNIQUE

// name: discarded
// Tasks of a replaced store, until they are deleted.
CREATE INDEX dibs_discarded IF NOT EXISTS FOR (t:Discarded) ON (t.desk)

// name: queue
// Claimable tasks, in order.
CREATE INDEX dibs_queue IF NOT EXISTS FOR (t:Item) ON (t.desk, t.sender_hash, t.place)

// name: wakes
// Tasks that become claimable at a time.
CREATE INDEX dibs_wakes IF NOT EXISTS FOR (t:Item) ON (t.desk, t.wakes_at)

// name: token
CREATE INDEX dibs_token IF NOT EXISTS FOR (t:Item) ON (t.desk, t.claim_attempt_id)

// name: spec
CREATE INDEX dibs_spec IF NOT EXISTS FOR (t:Item) ON (t.desk, t.sender_hash, t.spec_ref)

// name: finished
CREATE INDEX dibs_finished IF NOT EXISTS FOR (t:Item) ON (t.desk, t.sender_hash, t.completed_at)

// name: status
CREATE INDEX dibs_status IF NOT EXISTS FOR (t:Item) ON (t.desk, t.sender_hash, t.dibs_status)

// name: assigned
CREATE INDEX dibs_assigned IF NOT EXISTS FOR (t:Item) ON (t.dibs_assigned_to, t.dibs_status)

// name: history
CREATE INDEX dibs_history IF NOT EXISTS FOR (e:Event) ON (e.desk, e.task_id, e.seq)

// name: sync_run
CREATE INDEX dibs_sync_run IF NOT EXISTS FOR (s:SyncEvent) ON (s.desk, s.id)

// name: sync_change
CREATE INDEX dibs_sync_change IF NOT EXISTS FOR (c:SyncChange) ON (c.desk, c.sync_event_id)

// For kurultai's queries, which use these names.

// name: task_sender_status
CREATE INDEX task_sender_status IF NOT EXISTS FOR (t:Task) ON (t.sender_hash, t.status)

// name: task_agent_status
CREATE INDEX task_agent_status IF NOT EXISTS FOR (t:Task) ON (t.assigned_to, t.status)

// name: task_window
CREATE INDEX task_window IF NOT EXISTS FOR (t:Task) ON (t.window_expires_at)

// name: task_priority
CREATE INDEX task_priority IF NOT EXISTS FOR (t:Task) ON (t.priority_weight, t.created_at)

// name: depends_on_type
CREATE INDEX depends_on_type IF NOT EXISTS FOR ()-[d:DEPENDS_ON]->() ON (d.type)

// name: sync_event_sender
CREATE INDEX sync_event_sender IF NOT EXISTS FOR (s:SyncEvent) ON (s.sender_hash, s.triggered_at)

// name: sync_change_task
CREATE INDEX sync_change_task IF NOT EXISTS FOR (c:SyncChange) ON (c.task_id)

// name: task_embedding
CREATE VECTOR INDEX task_embedding IF NOT EXISTS FOR (t:Task) ON (t.embedding)
OPTIONS {indexConfig: {`vector.dimensions`: 384, `vector.similarity_function`: 'cosine'}}

// name: task_fulltext
CREATE FULLTEXT INDEX task_fulltext IF NOT EXISTS FOR (t:Task) ON EACH [t.title, t.description]
