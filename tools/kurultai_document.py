"""How dibs treats each statement of kurultai's document: a table, and the page generated from it.

    python tools/kurultai_document.py > docs/reference/kurultai-document.md

Each statement is `true`, `resolved` (the document is silent, contradicts itself or is wrong; the reason says how dibs
decides) or `changed` (dibs differs, for the reason). Each names a test that would fail otherwise;
tests/protocols/kurultai/test_document.py checks the page and the names of the tests.
"""

from __future__ import annotations

from typing import NamedTuple


class Statement(NamedTuple):
    says: str
    mark: str
    test: str
    why: str = ""


TRUE, RESOLVED, CHANGED = "true", "resolved", "changed"

SEED = "protocols/kurultai/test_seed.py::"
QUERIES = "protocols/kurultai/test_queries.py::"
GRAPH = "stores/neo4j/test_the_document.py::"
POLICY = "protocols/kurultai/test_policy.py::"
RULES = "sync/notion/test_rules.py::"
FLOWS = "sync/notion/test_flows.py::"
DAY = "protocols/kurultai/test_walkthrough.py::test_day_with_neo4j_and_notion_down_once"

# The sections of the document, in its order. Those without statements of their own are named with an empty list.
SECTIONS: dict[str, list[Statement]] = {
    "Prerequisites": [
        Statement("Six agents with names and roles", TRUE, SEED + "test_the_fleet_is_six_agents_with_names_and_a_limit_of_two"),
        Statement("The base module OperationalMemory claims and completes tasks", TRUE, SEED + "test_task_goes_from_pending_to_completed"),
        Statement("It is implemented on Neo4j", CHANGED, "protocols/kurultai/test_alike.py::test_all_stores_end_with_the_same_state", "PostgreSQL and SQLite work as well."),
    ],
    "Integration Diagram": [],
    "Executive Summary": [Statement("Requests are batched, ordered by dependencies and run in parallel", TRUE, DAY)],
    "Key Innovation": [Statement("Users keep control by explicit commands", TRUE, "chat/desk/test_steering.py::test_priority_command_puts_one_task_first")],
    "Problem Statement": [],
    "Current System Limitations": [],
    "Desired Behavior": [Statement("Related outputs come together, independent ones as they end", TRUE, "chat/desk/test_delivery.py::test_three_related_messages_get_one_unified_answer")],
    "Architecture": [],
    "System Overview": [
        Statement("Relationships `BLOCKS`, `FEEDS_INTO`, `PARALLEL_OK`", RESOLVED, GRAPH + "test_link_has_the_properties_of_the_document", "Its schema has one relationship, `DEPENDS_ON`, with a `type`; the diagram's arrows are the types."),
        Statement("The executor repeats until all tasks are completed", RESOLVED, SEED + "test_a_task_is_escalated_when_its_retries_run_out", "It ends when all are done, canceled or escalated; otherwise a failing task would never end it."),
    ],
    "Neo4j Schema Extensions": [],
    "Extension: Task for Dependency Tracking": [
        Statement("The fields of `:Task`", TRUE, SEED + "test_a_task_has_every_field_of_the_document"),
        Statement("`id` is a uuid", TRUE, SEED + "test_id_is_a_uuid_with_a_typed_prefix"),
        Statement("The id of a task from the chat", CHANGED, "protocols/kurultai/test_document.py::test_chat_task_has_a_short_id", "Six letters and digits, which people can type; tasks from `create` and from Notion have a uuid."),
        Statement("`priority_weight` is 0.0 to 1.0, 0.5 by default", TRUE, SEED + "test_missing_priority_weight_is_a_half"),
        Statement("`external_priority_source` is notion, user or auto", TRUE, SEED + "test_priority_source_is_the_last_writer"),
        Statement("Five base statuses; paused and aborted are `blocked` with that reason", TRUE, GRAPH + "test_every_status_survives_the_graph"),
        Statement("`ready` maps to pending", TRUE, POLICY + "test_other_words_map_to_the_five"),
        Statement("backlog and review", RESOLVED, POLICY + "test_every_status_comes_back_from_its_word_and_its_reason", "The document lacks these statuses; they are `blocked` with that reason."),
    ],
    "Dependency (Relationship)": [
        Statement("`DEPENDS_ON` has type, weight, detected_by and confidence", TRUE, SEED + "test_a_dependency_carries_type_weight_detected_by_and_confidence"),
        Statement("The table's direction is A → B for “A before B”", RESOLVED, "protocols/kurultai/test_graph.py::test_dependency_points_from_dependent_to_prerequisite", "As in its queries, every dependency points from the dependent to the prerequisite."),
        Statement("`feeds_into` informs and does not block", TRUE, SEED + "test_feeds_into_and_parallel_ok_do_not_block"),
    ],
    "Indexes": [
        Statement("The indexes of the document", TRUE, GRAPH + "test_every_index_of_the_document_exists"),
        Statement("The statement for the vector index", RESOLVED, GRAPH + "test_every_index_of_the_document_exists", "It is not valid Cypher; dibs uses `CREATE VECTOR INDEX`."),
    ],
    "Neo4j Version Requirements": [],
    "Dependency Detection Algorithm": [],
    "Step 1: Intent Window Buffering": [
        Statement("A window of 45 seconds", TRUE, "chat/test_window_rules.py::test_first_window_stays_open_for_45_seconds"),
        Statement("Above 100 messages the oldest are dropped", RESOLVED, "chat/test_window_rules.py::test_the_hundredth_message_fills_the_window", "The hundredth message closes the window; nothing is dropped."),
        Statement("The window is checked when a message comes", RESOLVED, "chat/desk/test_windows.py::test_window_closes_for_all_its_messages_at_once", "A timer closes it, so that the last burst does not wait for a next message."),
    ],
    "Custom Exception Classes": [
        Statement("TaskDependencyError, CycleDetectedError, DependencyNotFoundError", TRUE, SEED + "test_a_dependency_needs_both_its_tasks"),
        Statement("NotionSyncError", TRUE, "protocols/kurultai/test_document.py::test_failed_sync_raises_notion_sync_error"),
    ],
    "Step 2: Semantic Similarity Analysis": [
        Statement("Above 0.75, analysis blocks code", TRUE, "chat/test_analyst.py::test_close_tasks_with_consecutive_types_get_a_link"),
        Statement("The order of the pair decides the direction", RESOLVED, "chat/test_analyst.py::test_close_tasks_with_consecutive_types_get_a_link", "Analysis comes first in either order."),
    ],
    "Step 3: Topological Sort with Priority": [
        Statement("Ready tasks have no uncompleted `blocks`", TRUE, SEED + "test_a_dependent_is_ready_when_no_unfinished_blocker_is_left"),
        Statement("At most 50 ready tasks", TRUE, SEED + "test_ready_returns_50_tasks_by_default"),
        Statement("Two tasks at a time for each agent", TRUE, SEED + "test_agent_limit_holds_over_all_senders"),
        Statement("`get_current_load` counts by `assigned_to` and status", TRUE, QUERIES + "test_document_queries_return_what_the_commands_list"),
        Statement("Routing by deliverable, else the analyst", TRUE, POLICY + "test_every_deliverable_is_routed_to_an_agent"),
        Statement("An agent takes what is routed to it", TRUE, SEED + "test_an_agent_claims_what_its_role_covers"),
        Statement("`TaskDispatch` records a dispatch", TRUE, GRAPH + "test_only_a_successful_claim_is_a_dispatch"),
        Statement("A single query makes the cycle check atomic", RESOLVED, "protocols/kurultai/test_rings.py::test_concurrent_cycle_refuses_exactly_one_dependency", "Two concurrent opposite dependencies would both pass; dibs locks the sender first."),
    ],
    "User Priority Override System": [],
    "Natural Language Priority Commands": [
        Statement("“Priority: X first” makes X first", TRUE, "chat/desk/test_steering.py::test_priority_command_puts_one_task_first"),
        Statement("“Do X before Y” makes a dependency", TRUE, "chat/desk/test_steering.py::test_before_command_links_two_tasks"),
        Statement("“Focus on X, pause others”", TRUE, "chat/desk/test_steering.py::test_focus_spares_prerequisites_and_claimed_tasks"),
    ],
    "Implementation": [
        Statement("Commands are found anywhere in a message", RESOLVED, "chat/desk/test_steering.py::test_text_resembling_a_command_is_stored_as_message", "A command is the whole message; “do tomorrow before noon” is not one."),
        Statement("Every change of priority is audited", TRUE, SEED + "test_priority_changes_are_audited"),
    ],
    "Notion Integration: External Priority Source": [],
    "Overview": [Statement("A person edits in Notion and sends “Sync from Notion”", TRUE, FLOWS + "test_changed_priority_arrives_with_the_command")],
    "Notion Database Schema": [],
    "Required Properties": [],
    "Status Values (Must Match)": [],
    "Priority Values (Mapping)": [],
    "Sync Command": [],
    "Reconciliation Algorithm (Safe by Default)": [
        Statement("Tasks in progress are never interrupted", TRUE, RULES + "test_work_in_progress_is_not_interrupted"),
        Statement("Completed tasks are never reverted", TRUE, RULES + "test_completed_task_is_never_reverted"),
        Statement("No task becomes ready before its blockers are done", TRUE, RULES + "test_nothing_is_set_free_before_its_time"),
    ],
    "Notion Sync Schema (NEW nodes for v0.1)": [],
    "Sync Audit Trail": [
        Statement("SyncEvent, SyncChange and their relationships", TRUE, GRAPH + "test_sync_has_the_nodes_of_the_document"),
        Statement("A failed sync is recorded as `failed`", TRUE, RULES + "test_a_sync_that_fails_leaves_a_record_with_the_error"),
    ],
    "Per-User Configuration (NEW node for v0.1)": [Statement("The settings of a sender", TRUE, SEED + "test_sender_has_every_setting_of_the_document")],
    "Security Classes": [
        Statement("A sender never reaches another's tasks", TRUE, SEED + "test_no_call_reaches_another_senders_task"),
        Statement("100 tasks an hour, 50 a batch", TRUE, "chat/desk/test_settings.py::test_unset_options_have_their_defaults"),
        Statement("Ten polls an hour for each user", RESOLVED, "sync/notion/test_turns.py::test_hourly_quota_ignores_idle_polls", "Only polls that change tasks count, because ten polls take ten minutes; syncs on request are counted separately."),
    ],
    "Notion API Client": [Statement("Requests are retried, also after a 429", TRUE, "sync/notion/test_requests.py::test_notion_is_asked_again_when_it_asks_to_wait")],
    "Sync Result Format": [Statement("Created, updated, skipped, and the estimate", TRUE, FLOWS + "test_several_changes_and_a_task_that_notion_does_not_know")],
    "Configuration": [Statement("Polling can be switched off for all", TRUE, "sync/notion/test_polling.py::test_it_can_be_switched_off_for_all")],
    "Ögedei's Continuous Notion Polling": [],
    "Data Models": [],
    "Polling Engine": [Statement("Changes are found without a request", TRUE, FLOWS + "test_the_poller_brings_the_same_without_being_asked")],
    "Change Detection": [
        Statement("NEW_TASK is sent to Kublai for review", TRUE, RULES + "test_polled_row_is_reviewed_by_router_and_sender"),
        Statement("DELETED is a soft delete", TRUE, RULES + "test_deleted_row_blocks_its_task_until_restored"),
    ],
    "Example User Flow": [Statement("The full example", TRUE, FLOWS + "test_several_changes_and_a_task_that_notion_does_not_know")],
    "Security Considerations": [Statement("Only rows with the sender's hash are read", TRUE, "sync/notion/test_senders.py::test_rows_of_other_senders_are_ignored")],
    "Synthesis & Delivery Modes": [],
    "Mode 1: Unified Delivery (Related Tasks)": [Statement("Related tasks get one answer", TRUE, "chat/desk/test_delivery.py::test_three_related_messages_get_one_unified_answer")],
    "Mode 2: Streaming Delivery (Independent Tasks)": [],
    "Mode 3: Hybrid (Mixed Dependencies)": [],
    "Implementation Phases": [],
    "Phase 1: Core DAG (Week 1)": [],
    "Phase 2: Smart Detection (Week 2)": [],
    "Phase 3: User Control (Week 3)": [],
    "Phase 4: Notion Integration (Week 4)": [],
    "Phase 5: Optimization (Week 5)": [],
    "Open Questions": [
        Statement("Window duration", RESOLVED, "chat/test_window_rules.py::test_window_adapts_to_typing_speed", "45 seconds, adapted to the sender between 30 and 60."),
        Statement("Failure of a blocking task", RESOLVED, SEED + "test_on_abort_decides_about_dependents", "Dependents are escalated, unless `KURULTAI_ON_ABORT` says otherwise."),
        Statement("Merge or keep at 0.90", RESOLVED, "chat/desk/test_reading.py::test_repeated_request_is_merged_and_can_be_restored", "Merged, and it can be undone."),
    ],
    "Appendix: Example Cypher Queries": [],
    "Get Current DAG for User": [Statement("The query", TRUE, QUERIES + "test_document_queries_return_what_the_commands_list")],
    "Find Ready Tasks": [Statement("The query", TRUE, QUERIES + "test_document_queries_return_what_the_commands_list")],
    "Update After Task Completion": [Statement("The query", RESOLVED, QUERIES + "test_third_query_of_the_appendix_is_not_cypher", "It does not parse, and would revive paused tasks. [The corrected one](neo4j-queries.md#after-a-task-is-completed) works like `complete`.")],
    "Related Documents": [],
    "Implementation Order (Must follow this sequence)": [],
    "Supporting Documents": [],
    "Integration Summary": [],
}  # fmt: skip


def page() -> str:
    counts = {
        mark: sum(one.mark == mark for those in SECTIONS.values() for one in those)
        for mark in (TRUE, RESOLVED, CHANGED)
    }
    lines = [
        "# kurultai's document, statement by statement",
        "",
        f"This page is for people who compare dibs with the document “Kurultai v0.1: Task Dependency Engine”. Of its statements, {counts[TRUE]} are true. Below are the others:",
        f"{counts[RESOLVED]} are resolved, because the document is silent, contradicts itself or is wrong; in {counts[CHANGED]}, dibs differs. Each statement has a test;",
        "`tools/kurultai_document.py` lists all of them, and generates this page.",
    ]
    for section, statements in SECTIONS.items():
        unlike = [one for one in statements if one.mark != TRUE]
        if unlike:
            lines += ["", f"**{section}**", ""]
        lines += [f"- {one.says}. {one.mark.capitalize()}: {one.why}" for one in unlike]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
