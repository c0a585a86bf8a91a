from __future__ import annotations

from django.urls import path

from knowledge.views import analyses, batches, catalog, chains, changesets, memories, proposals, review, stale
from memories import ids  # noqa: F401 - the converter <id:…>

urlpatterns = [
    path("", memories.my_knowledge, name="my-knowledge"),
    path("memories/new/", memories.create_memory, name="create-memory"),
    path("memories/<id:record_id>/", memories.memory, name="memory"),
    path("memories/<id:record_id>/edit/", memories.edit_memory, name="edit-memory"),
    path("memories/<id:record_id>/chain/", chains.one, name="chain"),
    path("memories/<id:record_id>/<slug:act>/", memories.change_memory, name="change-memory"),
    path("insights/", proposals.listing, name="my-insights"),
    path("knowledge/", catalog.knowledge, name="knowledge"),
    path("knowledge/entity/", catalog.entity, name="entity"),
    path("analyses/", analyses.listing, name="analyses"),
    path("analyses/export/", analyses.export, name="analysis-export"),
    path("analyses/actions/<id:action_id>/", analyses.action, name="analysis-action"),
    path("analyses/actions/<id:action_id>/resume/", analyses.resume, name="resume-action"),
    path("analyses/findings/<id:finding_id>/propose/", analyses.propose, name="propose-finding"),
    path("analyses/<int:key>/", analyses.one, name="analysis"),
    path("analyses/<int:key>/clear/", analyses.clear, name="clear-analysis"),
    path("stale/", stale.listing, name="stale-review"),
    path("corrections/", chains.listing, name="chains"),
    path("review/", review.queue, name="review"),
    path("review/all/", review.listing, name="review-list"),
    path("review/<id:insight_id>/", review.one, name="review-one"),
    path("review/<id:insight_id>/edit/", review.edit, name="review-edit"),
    path("review/<id:insight_id>/undo/", review.undo, name="review-undo"),
    path("review/<id:insight_id>/<slug:act>/", review.decide, name="review-decide"),
    path("batches/", batches.listing, name="start-batch"),
    path("batches/<id:batch_id>/", batches.one, name="batch"),
    path("batches/<id:batch_id>/go-on/", batches.go_on, name="batch-on"),
    path("batches/<id:batch_id>/undo/", batches.undo, name="undo-batch"),
    path("changesets/", changesets.listing, name="changesets"),
    path("changesets/<id:changeset_id>/", changesets.one, name="changeset"),
    path("changesets/<id:changeset_id>/roll-back/", changesets.roll_back, name="roll-back"),
    path("changesets/<id:changeset_id>/resume/", changesets.resume, name="resume-changeset"),
    path("changesets/<id:changeset_id>/replay/", changesets.replay, name="replay-changeset"),
    path("changesets/<id:changeset_id>/export/", changesets.export, name="export-changeset"),
]
