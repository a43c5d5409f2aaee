"""Enrolled agents, dispatch of tasks to them, and the workers that run commands."""
