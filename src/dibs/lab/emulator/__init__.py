"""Notion, as far as dibs uses it, on loopback: its two generations of API, its limits, its lags and its accidents."""

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
