"""Headings of the page Tables, and the titles of the tables below each."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

# The tables of an app that is not listed here stand below the app's own name.
SECTIONS: Mapping[Promise, Mapping[str, Promise]] = {
    gettext_lazy("Memories"): {
        "memories.memoryrecord": gettext_lazy("Memories"),
        "memories.stalememory": gettext_lazy("Stale memories"),
        "memories.correction": gettext_lazy("Corrections"),
        "memories.period": gettext_lazy("Periods"),
        "memories.batch": gettext_lazy("Bulk actions"),
        "memories.tombstone": gettext_lazy("Erased memories"),
        "memories.samewords": gettext_lazy("Texts with the words of an erased memory"),
    },
    gettext_lazy("Review and catalog"): {
        "knowledge.insight": gettext_lazy("Insights"),
        "knowledge.changeset": gettext_lazy("Changesets"),
        "knowledge.catalogentity": gettext_lazy("Catalog entities"),
        "knowledge.catalogaspect": gettext_lazy("Catalog aspects"),
        "knowledge.entitybaseline": gettext_lazy("Entity baselines"),
        "knowledge.catalogcursor": gettext_lazy("Positions in the catalog’s events"),
    },
    gettext_lazy("People and access"): {
        "memory_project.user": gettext_lazy("People"),
        "memories.persona": gettext_lazy("Personas"),
        "memories.purpose": gettext_lazy("Purposes"),
        "auth.group": gettext_lazy("Roles"),
        "memory_project.companygroup": gettext_lazy("Groups of the company"),
        "memory_project.apitoken": gettext_lazy("API tokens"),
        "memory_project.serviceaccount": gettext_lazy("Service accounts"),
        "memory_project.auditevent": gettext_lazy("Audit events"),
    },
    gettext_lazy("Sources and webhooks"): {
        "analysis.declaredsource": gettext_lazy("Sources and warehouses"),
        "subscriptions.subscription": gettext_lazy("Subscriptions"),
        "subscriptions.subscriptionrun": gettext_lazy("Runs of subscriptions"),
        "subscriptions.subscriptionitem": gettext_lazy("Texts of subscriptions"),
        "gateway.declaredupstream": gettext_lazy("Upstream servers"),
        "memory_project.webhook": gettext_lazy("Chat channels"),
        "webhooks.endpoint": gettext_lazy("Webhooks"),
        "webhooks.delivery": gettext_lazy("Webhook deliveries"),
    },
    gettext_lazy("Analyses"): {
        "analysis.session": gettext_lazy("Analyses"),
        "analysis.action": gettext_lazy("Actions on sources"),
    },
    gettext_lazy("Knowledge graph"): {
        "graph.graph": gettext_lazy("Graphs"),
        "graph.entity": gettext_lazy("Graph entities"),
        "graph.reflection": gettext_lazy("Reflections"),
        "graph.upkeepproposal": gettext_lazy("Proposed maintenance"),
    },
    gettext_lazy("Conversations"): {
        "memories.conversationmemory": gettext_lazy("Conversation memories"),
        "conversation.userdecision": gettext_lazy("Decisions of people"),
        "conversation.cachedanswer": gettext_lazy("Cached answers"),
        "conversation.mergeproposal": gettext_lazy("Proposed merges"),
    },
    gettext_lazy("Background work"): {
        "django_q.schedule": gettext_lazy("Schedules"),
        "django_q.ormq": gettext_lazy("Queued tasks"),
        "django_q.success": gettext_lazy("Successful tasks"),
        "django_q.failure": gettext_lazy("Failed tasks"),
        "memories.job": gettext_lazy("Jobs"),
        "memories.indexjob": gettext_lazy("Index jobs"),
    },
}
# Tables with a page of their own, which does more than the list.
PAGES: Mapping[str, str] = {"memory_project.user": "admin:people"}
TITLES: Mapping[str, Promise] = {label: title for tables in SECTIONS.values() for label, title in tables.items()}
