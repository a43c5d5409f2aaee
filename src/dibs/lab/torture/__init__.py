"""The race, crash and fault lab: workers at a store of their own, faults from outside, and a check of what they saw."""
