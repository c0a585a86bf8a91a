"""Checks of memories: list, add, change, remove, and run now."""

from __future__ import annotations

from analysis.checks import queries, services
from analysis.checks.operations import AddCheck, EditCheck, ListChecks, OneCheck, RemoveCheck, RunCheck
from analysis.checks.responses import CheckResponse, ChecksResponse, RemovedResponse, check_response
from foundation.people.caller import Caller
from memory_project.rest.endpoints import Endpoint, route

TAG = "memories"


def _list(caller: Caller, operation: ListChecks) -> ChecksResponse:
    record = services.readable(caller, operation.record_id)
    return {"checks": [check_response(view) for view in queries.views_of(caller, record)]}


def _get(caller: Caller, operation: OneCheck) -> CheckResponse:
    record = services.readable(caller, operation.record_id)
    return check_response(queries.view_of(caller, record, operation.check_id))


def _add(caller: Caller, operation: AddCheck) -> CheckResponse:
    return check_response(queries.shown_to(caller, services.add_check(caller, operation)))


def _edit(caller: Caller, operation: EditCheck) -> CheckResponse:
    return check_response(queries.shown_to(caller, services.edit_check(caller, operation)))


def _remove(caller: Caller, operation: RemoveCheck) -> RemovedResponse:
    services.remove_check(caller, operation)
    return {"id": operation.check_id.hex, "message": "removed"}


def _run(caller: Caller, operation: RunCheck) -> CheckResponse:
    return check_response(queries.shown_to(caller, services.run_check(caller, operation)))


urlpatterns = [
    route(
        TAG,
        "memories/<id:record_id>/checks/",
        get=Endpoint("list_checks", _list, "memory_manage", "get"),
        post=Endpoint("add_check", _add, "memory_manage", "update", status=201),
    ),
    route(
        TAG,
        "memories/<id:record_id>/checks/<id:check_id>/",
        get=Endpoint("get_check", _get, "memory_manage", "get"),
        patch=Endpoint("update_check", _edit, "memory_manage", "update"),
        delete=Endpoint("remove_check", _remove, "memory_manage", "update"),
    ),
    route(
        TAG,
        "memories/<id:record_id>/checks/<id:check_id>/run/",
        post=Endpoint("run_check", _run, "memory_manage", "update"),
    ),
]
