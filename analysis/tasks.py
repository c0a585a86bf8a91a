from __future__ import annotations

from analysis import actions, sessions


def delete_expired_sessions() -> int:
    return sessions.delete_expired_sessions()


def resume(action_id: str) -> str:
    return actions.resume_as_owner(action_id)
