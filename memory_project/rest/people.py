"""People and personas, for admins."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

import django_filters
from django.db.models import QuerySet
from pydantic import Field
from typing_extensions import TypedDict

from foundation.operations.errors import Forbidden, NotFound
from foundation.operations.fields import OneOf, Text
from foundation.operations.operation import Operation
from foundation.operations.responses import response_of
from foundation.people import personas
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.personas import ChangePersona, CreatePersona
from memory_project.accounts import people as accounts
from memory_project.models import User
from memory_project.rest.access import Access
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import FlagFilter, Listing, each

TAG = "administration"
ADMINISTRATION: dict[str, Any] = {"access": Access.ADMINISTRATION}
Names = list[Annotated[str, Text(1, 60)]]
Rights = list[Annotated[str, OneOf(tuple(accounts.GROUPS))]]


class PersonResponse(TypedDict):
    id: int
    email: str
    name: str
    is_active: bool
    is_admin: bool
    personas: list[str]
    rights: list[str]
    joined_at: str
    link: NotRequired[str]
    link_sent: NotRequired[bool]


class PersonaResponse(TypedDict):
    name: str
    title: str
    description: str
    is_default: bool
    memory_context: bool
    tools_allow: list[str]
    tools_deny: list[str]
    toolsets: list[str]
    calls_per_minute: int | None
    writes_per_day: int | None
    members: list[str]


class PersonasResponse(TypedDict):
    personas: list[PersonaResponse]


class PersonFilter(django_filters.FilterSet):
    email = django_filters.CharFilter()
    is_active = FlagFilter()
    persona = django_filters.CharFilter("personas__name")


class InvitePerson(Operation):
    """Create an account; returns the link to set a password"""

    email: Annotated[str, Text(3, 254)]
    name: Annotated[str, Text(0, 120)] = ""
    personas: Names = Field([], description="The first becomes the default.")
    rights: Rights = []


class ShowPerson(Operation):
    """Show a person"""

    person_id: int


class ChangePerson(ShowPerson):
    """Replace a person's personas and rights"""

    personas: Names
    rights: Rights


class Deactivate(ShowPerson):
    """Block a person's sign-in and revoke their tokens"""


class Activate(ShowPerson):
    """Let a person sign in again"""


class ListPersonas(Operation):
    """List the personas"""


def _people(caller: Caller) -> QuerySet[User]:
    _require_admin(caller)
    return User.objects.prefetch_related("groups", "personas")


def _person_response(person: User) -> PersonResponse:
    return response_of(
        PersonResponse,
        person,
        is_admin=person.is_superuser,
        personas=sorted(persona.name for persona in person.personas.all()),
        rights=accounts.rights_of(person),
        joined_at=person.date_joined,
        link=None,
        link_sent=None,
    )


def _person(caller: Caller, person_id: int) -> User:
    _require_admin(caller)
    person = User.objects.filter(pk=person_id).first()
    if person is None:
        raise NotFound("no such person", field="person_id")
    return person


def _invite(caller: Caller, operation: InvitePerson) -> PersonResponse:
    user, link, is_sent = accounts.invite(caller, **operation.values())
    return {**_person_response(user), "link": link, "link_sent": is_sent}


def _show_person(caller: Caller, operation: ShowPerson) -> PersonResponse:
    return _person_response(_person(caller, operation.person_id))


def _change_person(caller: Caller, operation: ChangePerson) -> PersonResponse:
    person = _person(caller, operation.person_id)
    accounts.change(caller, person=person, personas=operation.personas, rights=operation.rights)
    return _person_response(_person(caller, operation.person_id))


def _deactivate(caller: Caller, operation: Deactivate) -> PersonResponse:
    accounts.deactivate(caller, person=_person(caller, operation.person_id))
    return _person_response(_person(caller, operation.person_id))


def _activate(caller: Caller, operation: Activate) -> PersonResponse:
    accounts.activate(caller, person=_person(caller, operation.person_id))
    return _person_response(_person(caller, operation.person_id))


def _personas(caller: Caller, operation: ListPersonas) -> PersonasResponse:
    _require_admin(caller)
    rows = Persona.objects.prefetch_related("members").order_by("name")
    return {"personas": [_persona_response(row) for row in rows]}


def _create_persona(caller: Caller, operation: CreatePersona) -> PersonaResponse:
    return _persona_response(personas.create(caller, operation))


def _change_persona(caller: Caller, operation: ChangePersona) -> PersonaResponse:
    return _persona_response(personas.change(caller, operation))


def _persona_response(persona: Persona) -> PersonaResponse:
    members = sorted(str(person.email) for person in persona.members.all())
    return response_of(PersonaResponse, persona, members=members)


def _require_admin(caller: Caller) -> None:
    if not caller.is_admin:
        raise Forbidden("only admins manage people and personas")


PEOPLE = Listing(
    "list_people",
    _people,
    each(_person_response),
    PersonResponse,
    PersonFilter,
    by="date_joined",
    summary="List people",
    **ADMINISTRATION,
)

urlpatterns = [
    route(
        TAG,
        "people/",
        get=PEOPLE,
        post=Endpoint("invite_person", _invite, status=201, is_secret=True, **ADMINISTRATION),
    ),
    route(
        TAG,
        "people/<int:person_id>/",
        get=Endpoint("show_person", _show_person, **ADMINISTRATION),
        put=Endpoint("change_person", _change_person, **ADMINISTRATION),
    ),
    route(TAG, "people/<int:person_id>/deactivate/", post=Endpoint("deactivate_person", _deactivate, **ADMINISTRATION)),
    route(TAG, "people/<int:person_id>/activate/", post=Endpoint("activate_person", _activate, **ADMINISTRATION)),
    route(
        TAG,
        "personas/",
        get=Endpoint("list_personas", _personas, **ADMINISTRATION),
        post=Endpoint("create_persona", _create_persona, status=201, **ADMINISTRATION),
    ),
    route(TAG, "personas/<slug:name>/", put=Endpoint("change_persona", _change_persona, **ADMINISTRATION)),
]
