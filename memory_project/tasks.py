from __future__ import annotations

import subprocess

from foundation.database import retention
from knowledge.debt import computation
from memories.retrieval import vector_index
from memories.use.citations import changes
from memory_project.__main__ import program
from memory_project.accounts import connected_apps
from memory_project.agents import conversations, unanswered
from memory_project.audit import entity_uses
from memory_project.exchange.exports import services as exports
from memory_project.exchange.imports import files as import_files
from memory_project.notifications import chat_channel, digest_and_alerts, notification_mails, validity
from memory_project.operating.doctor import machine_facts
from memory_project.operating.shared import shared_files


def delete_expired_rows() -> str:
    shared_files.note_folder()
    machine_facts.note_machine()
    import_files.delete_unknown()
    counts = retention.delete_expired() | connected_apps.delete_unused() | {"exports": exports.delete_expired()}
    return ", ".join(f"{count} of {table}" for table, count in counts.items() if count) or "nothing to delete"


def send_digest() -> str:
    return digest_and_alerts.send_digest()


def alert_about_reviews() -> str:
    return digest_and_alerts.alert_about_reviews()


def notify_ends() -> str:
    changes.note_ends()
    return validity.notify_ends()


def send_webhooks() -> str:
    return chat_channel.send_due()


def mail_overturned(decision_id: int, person_id: int) -> bool:
    return digest_and_alerts.mail_overturned(decision_id, person_id)


def mail_notifications() -> str:
    return notification_mails.send_due()


def mail_notification(notification_id: int) -> bool:
    # Earlier versions have queued this task. Now, mail_notifications finds what is due.
    return notification_mails.mail_one(notification_id)


def suggest_from_conversations() -> str:
    return conversations.stage_finished()


def suggest_open_questions() -> str:
    return unanswered.stage_questions_without_answers()


def compute_debt() -> str:
    return f"{entity_uses.count_new_calls()} calls read; {computation.compute()}"


def train_vector_index() -> str:
    """Train the vector index if it is due.

    A long training runs in a process of its own, because a task is stopped after ten minutes, and other tasks must not
    wait. If that process is killed, the next run of this task starts over.
    """
    state = vector_index.state()
    if not state.is_due or not state.is_too_long_for_a_task:
        return vector_index.train()
    if progress := vector_index.progress():
        return f"{state}; another process is building the vector index: {progress}"
    subprocess.Popen([*program(), "rebuild_search", "--vector-index"], stdin=subprocess.DEVNULL)
    return f"{state}; a process of its own builds the vector index with {state.lists_due} lists"
