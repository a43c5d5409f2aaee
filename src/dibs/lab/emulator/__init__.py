"""A local Notion for dibs and its tests: both generations of the API, with limits, lag and faults."""

from dibs.lab.emulator.emulator import (
    Database,
    Emulator,
    kurultai_schema,
    mesh_communication_log_schema,
    mesh_schema,
    mesh_task_log_schema,
    ntask_schema,
)

__all__ = [
    "Database",
    "Emulator",
    "kurultai_schema",
    "mesh_communication_log_schema",
    "mesh_schema",
    "mesh_task_log_schema",
    "ntask_schema",
]
