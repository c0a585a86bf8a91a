"""The caller's account, with its tokens and saved views."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, NotRequired

from django.db.models import QuerySet
from django.utils import timezone
from pydantic import Field
from typing_extensions import TypedDict

from foundation.operations.errors import NotFound
from foundation.operations.fields import OneOf, Text
from foundation.operations.operation import Operation
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from memory_project.accounts import saved_views, tokens
from memory_project.models import ApiToken, SavedView, User
from memory_project.rest.access import Access
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import Listing, each

TAG = "account"
MAX_DAYS = 3_650


class AccountResponse(TypedDict):
    email: str
    persona: str
    personas: list[str]
    rights: list[str]
    is_admin: bool


class TokenResponse(TypedDict):
    id: int
    name: str
    prefix: str
    person: str
    persona: str
    rights: list[str]
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None
    token: NotRequired[str]


class SavedViewResponse(TypedDict):
    id: int
    name: str
    page: str
    query: str
    created_at: str


class ShowAccount(Operation):
    """Show who you are on this connection"""


class CreateToken(Operation):
    """Create a token of your own; its text is shown only now"""

    name: Annotated[str, Text(1, 120)] = Field(description="Where it is used.")
    persona: Annotated[str, Text(0, 60)] = Field("", description="Its active persona; your default if not given.")
    rights: list[Annotated[str, OneOf(tokens.RIGHTS)]] = Field([], description="Only admins can give rights.")
    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = Field(tokens.DEFAULT_DAYS, description="When it expires.")
    calls_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    writes_per_day: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class RevokeToken(Operation):
    """Revoke a token"""

    token_id: int


class SaveView(Operation):
    """Save the filters of a list under a name"""

    name: Annotated[str, Text(1, 60)]
    page: Annotated[str, OneOf(saved_views.PAGES)] = Field(description="The list that it belongs to.")
    query: Annotated[str, Text(0, 2_000)] = Field("", description="The filters, as in the list's URL.")


class RemoveView(Operation):
    """Remove a saved view"""

    view_id: int


class RemovedResponse(TypedDict):
    removed: bool


def _account(caller: Caller, operation: ShowAccount) -> AccountResponse:
    return response_of(AccountResponse, caller, personas=sorted(caller.personas), rights=sorted(caller.rights))


def token_response(token: ApiToken, text: str = "") -> TokenResponse:
    return response_of(TokenResponse, token, person=token.user.email, token=text)


def _tokens(caller: Caller) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(user__email=caller.email).select_related("user")


def _create_token(caller: Caller, operation: CreateToken) -> TokenResponse:
    user = User.objects.get(email=caller.email)
    token, text = tokens.create_token(
        caller,
        user=user,
        expires_at=timezone.now() + timedelta(days=operation.days),
        **operation.values("name", "persona", "rights", "calls_per_minute", "writes_per_day"),
    )
    return token_response(token, text)


def _revoke_token(caller: Caller, operation: RevokeToken) -> TokenResponse:
    return token_response(tokens.revoke_token(caller, token_id=operation.token_id))


def _views(caller: Caller) -> QuerySet[SavedView]:
    return SavedView.objects.filter(person__email=caller.email)


def _view_response(row: SavedView) -> SavedViewResponse:
    return response_of(SavedViewResponse, row)


def _save_view(caller: Caller, operation: SaveView) -> SavedViewResponse:
    return _view_response(saved_views.save(caller, **operation.values()))


def _remove_view(caller: Caller, operation: RemoveView) -> RemovedResponse:
    if not saved_views.remove(caller, view_id=operation.view_id):
        raise NotFound("you have no such view", field="view_id")
    return {"removed": True}


TOKENS = Listing("list_tokens", _tokens, each(token_response), TokenResponse, summary="List your tokens")
VIEWS = Listing("list_views", _views, each(_view_response), SavedViewResponse, summary="List your saved views")
CREATE_TOKEN = Endpoint("create_token", _create_token, status=201, access=Access.ADMINISTRATION, is_secret=True)
REVOKE_TOKEN = Endpoint("revoke_token", _revoke_token, access=Access.ADMINISTRATION)

urlpatterns = [
    route(TAG, "me/", get=Endpoint("show_account", _account)),
    route(TAG, "tokens/", get=TOKENS, post=CREATE_TOKEN),
    route(TAG, "tokens/<int:token_id>/", delete=REVOKE_TOKEN),
    route(TAG, "views/", get=VIEWS, post=Endpoint("save_view", _save_view, status=201)),
    route(TAG, "views/<int:view_id>/", delete=Endpoint("remove_view", _remove_view)),
]
