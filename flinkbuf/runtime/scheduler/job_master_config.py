"""What a job master is told about times and about its surroundings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobMasterConfig:
    """How a job master goes about it.

    Attributes
    ----------
    slot_request_timeout_ms : int
        How long it waits for task managers. Flink: ``slot.request.timeout``.
    heartbeat_interval_ms, heartbeat_timeout_ms : int
        How often it asks them, and how long one may be silent. Flink: ``heartbeat.interval``, ``heartbeat.timeout``.
    cancel_attempts, cancel_retry_ms : int
        How often an unconfirmed cancel is sent, and after which time again; then the manager counts as lost.
    release_timeout_ms : int
        How long a new run waits for the end of the one before it.
    managers_come_together : bool
        They start and end as one: losing one means beginning anew with all.
    can_restart_in_place : bool
        Whether tasks can start again in the processes that are there; not where these were given input they read once.
    """

    slot_request_timeout_ms: int = 300_000
    heartbeat_interval_ms: int = 10_000
    heartbeat_timeout_ms: int = 50_000
    cancel_attempts: int = 3
    cancel_retry_ms: int = 10_000
    release_timeout_ms: int = 30_000
    managers_come_together: bool = False
    can_restart_in_place: bool = True
