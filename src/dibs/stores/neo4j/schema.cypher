// What every desk of a database shares, each made if it is not there. Composite indexes hold only nodes that have all of
// their properties: `place` and `wakes_at` are there only while they mean something, so both indexes are short.

// name: desk_name
CREATE CONSTRAINT dibs_desk IF NOT EXISTS FOR (d:Desk) REQUIRE d.name IS UNIQUE

// name: scope_name
CREATE CONSTRAINT dibs_scope IF NOT EXISTS FOR (s:Scope) REQUIRE (s.desk, s.name) IS UNIQUE

// name: task_id
CREATE CONSTRAINT dibs_task IF NOT EXISTS FOR (t:Task) REQUIRE (t.desk, t.scope, t.id) IS UNIQUE

// name: event_seq
CREATE CONSTRAINT dibs_event IF NOT EXISTS FOR (e:Event) REQUIRE (e.desk, e.seq) IS UNIQUE

// name: agent_id
CREATE CONSTRAINT dibs_agent IF NOT EXISTS FOR (a:Agent) REQUIRE (a.desk, a.id) IS UNIQUE

// name: queue
// What can be claimed now, in the order in which it will be.
CREATE INDEX dibs_queue IF NOT EXISTS FOR (t:Task) ON (t.desk, t.scope, t.place)

// name: wakes
// What time will open.
CREATE INDEX dibs_wakes IF NOT EXISTS FOR (t:Task) ON (t.desk, t.wakes_at)

// name: token
CREATE INDEX dibs_token IF NOT EXISTS FOR (t:Task) ON (t.desk, t.token)

// name: spec
CREATE INDEX dibs_spec IF NOT EXISTS FOR (t:Task) ON (t.desk, t.scope, t.spec_ref)

// name: finished
CREATE INDEX dibs_finished IF NOT EXISTS FOR (t:Task) ON (t.desk, t.scope, t.finished_at)

// name: status
CREATE INDEX dibs_status IF NOT EXISTS FOR (t:Task) ON (t.desk, t.scope, t.status)

// name: assigned
CREATE INDEX dibs_assigned IF NOT EXISTS FOR (t:Task) ON (t.desk, t.assigned_to, t.status)

// name: history
CREATE INDEX dibs_history IF NOT EXISTS FOR (e:Event) ON (e.desk, e.task, e.seq)
