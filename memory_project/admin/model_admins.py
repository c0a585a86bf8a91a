from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from allauth.account import admin as allauth_admin
from allauth.mfa.admin import Authenticator
from allauth.socialaccount import admin as social_admin
from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, Permission
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext
from django_q import admin as queue_admin  # noqa: F401 - registers its models, which admin/schedules.py replaces
from oauth2_provider import admin as oauth_admin  # noqa: F401 - registers its models, which are hidden below
from oauth2_provider import models as oauth

from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from foundation.people.models import PersonaMembership
from memories.admin.base import ExportsList, ReadOnlyAdmin, admin_caller
from memories.admin.history import HistoryLine, add_source
from memories.admin.rows import TestAnswer
from memories.models import MemoryRecord
from memory_project.accounts import people
from memory_project.accounts.django_permissions import effective_permissions
from memory_project.accounts.tokens import revoke_token
from memory_project.admin import schedules  # noqa: F401 - registers itself
from memory_project.models import ApiToken, AuditEvent, CompanyGroup, ServiceAccount, User, Webhook
from memory_project.notifications import chat_channel
from memory_project.web.error_labels import message_without_field

CALLS_SHOWN = 20


class PersonForm(forms.ModelForm[User]):
    class Meta:
        model = User
        fields = "__all__"  # noqa: DJ007 - the fieldsets below select fields

    editor: User  # the admin who edits the account

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if self.instance.pk == self.editor.pk:
            for name in ("is_active", "is_staff", "is_superuser"):
                if name in values and not values[name]:
                    self.add_error(name, gettext("This is your own account. Ask another admin."))
        return values


class MembershipsOfPerson(admin.StackedInline[PersonaMembership, User]):
    model = PersonaMembership
    extra = 1

    def get_queryset(self, request: HttpRequest) -> QuerySet[PersonaMembership]:
        return super().get_queryset(request).select_related("user", "persona")  # for the title of each form


def _with_effective_permissions(db_field: Any, field: Any) -> Any:
    if db_field.related_model is Permission:
        field.queryset = effective_permissions()
    return field


@admin.register(User)
class PersonAdmin(ExportsList, UserAdmin):  # type: ignore[type-arg]  # not generic at run time
    """The accounts. Only admins may change them, because other staff could make themselves admins with this form."""

    form = PersonForm
    inlines = [MembershipsOfPerson]
    list_display = ["email", "name", "is_active", "is_staff", "is_superuser", "last_login"]
    list_filter = ["is_active", "is_staff", "is_superuser", "groups"]
    search_fields = ["email", "name"]
    ordering = ["email"]
    readonly_fields = ["password_state", "last_login", "date_joined"]
    fieldsets = [
        (None, {"fields": ["email", "name", "password_state"]}),
        (
            gettext_lazy("Permissions"),
            {"fields": ["is_active", "is_staff", "is_superuser", "groups", "user_permissions"]},
        ),
        (gettext_lazy("Dates"), {"fields": ["last_login", "date_joined"]}),
    ]
    add_fieldsets = [
        (
            None,
            {"classes": ["wide"], "fields": ["email", "name", "usable_password", "password1", "password2"]},
        )
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        # memories store the address, so only the command rekey_owner may change it
        return [*self.readonly_fields, "email"] if obj else self.readonly_fields

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or not self.has_change_permission(request, obj):
            return fieldsets
        (title, options), *others = fieldsets
        link = format_html('<a href="../password/">{}</a>', gettext("Set another password"))
        return [(title, {**options, "description": link}), *others]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # memories name their owner: deactivate the account instead

    @admin.display(description=gettext_lazy("password"))
    def password_state(self, person: User) -> str:
        """Return whether the person has a password. Neither the hash nor its parts are shown."""
        if person.has_usable_password():
            return gettext("Set")
        return gettext("Not set: the person can’t sign in with a password")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        return type(form.__name__, (form,), {"editor": request.user})

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        return _with_effective_permissions(db_field, super().formfield_for_manytomany(db_field, request, **kwargs))

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if change and "is_active" in form.changed_data:
            act = people.activate if obj.is_active else people.deactivate  # deactivating also revokes the tokens
            act(admin_caller(request), person=obj)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        people.access_changed(form.instance)


# Django's page for groups would offer every permission, and let staff grant rights that they don't have.
admin.site.unregister(Group)


@admin.register(Group)
class RoleAdmin(ExportsList, GroupAdmin):
    """Groups, by which people get permissions. Only admins see and change them."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser) and (obj is None or obj.name not in people.GROUPS.values())

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        # the rights of curators and operators depend on the names of their groups
        return ["name"] if obj and obj.name in people.GROUPS.values() else []

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest | None = None, **kwargs: Any) -> Any:
        return _with_effective_permissions(db_field, super().formfield_for_manytomany(db_field, request, **kwargs))


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ["name", "user", "persona", "prefix", "rights", "expires_at", "last_used_at", "revoked_at"]
    list_filter = ["persona", "rights", ("revoked_at", admin.EmptyFieldListFilter), "expires_at", "last_used_at"]
    list_select_related = ["user"]
    date_hierarchy = "created_at"
    search_fields = ["name", "user__email", "prefix"]
    exclude = ["digest"]
    actions = ["revoke"]

    @admin.action(description=gettext_lazy("Revoke"))
    def revoke(self, request: HttpRequest, rows: QuerySet[ApiToken]) -> None:
        caller = admin_caller(request)
        for token in rows:
            revoke_token(caller, token_id=token.pk)
        text = ngettext("%(n)s token revoked.", "%(n)s tokens revoked.", len(rows)) % {"n": len(rows)}
        self.message_user(request, text, messages.SUCCESS)


# Rows of OAuth change by their services only. People end their apps on the Connect page, and admins on the page of the
# person.
for _model in (oauth.AccessToken, oauth.Application, oauth.DeviceGrant, oauth.Grant, oauth.IDToken, oauth.RefreshToken):
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)


@admin.register(ServiceAccount)
class ServiceAccountAdmin(ExportsList):
    """Services that act for people. Only admins see and change them."""

    list_display = ["subject", "person", "persona", "created_at"]
    list_select_related = ["person"]
    autocomplete_fields = ["person"]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    has_add_permission = has_change_permission = has_delete_permission = has_view_permission


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ["at", "email", "tool", "badge", "channel", "duration_ms", "context_count", "context_ms", "message"]
    list_filter = ["outcome", "channel", "tool", "persona"]
    search_fields = ["email", "tool"]
    date_hierarchy = "at"

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [] if request.user.is_superuser else ["arguments", "message"]

    @admin.display(description=gettext_lazy("outcome"), ordering="outcome")
    def badge(self, event: AuditEvent) -> SafeString:
        color = {"ok": "active", "error": "stale", "refused": "low"}[event.outcome]
        return format_html('<span class="badge {}">{}</span>', color, event.get_outcome_display())


def calls_about(caller: Caller, record: MemoryRecord) -> Sequence[HistoryLine]:
    """Return the latest calls by tools that named a memory. Only admins see the calls of other people."""
    if not caller.is_admin:
        return []
    events = AuditEvent.objects.filter(record_ids__contains=[record.pk]).exclude(channel__in=["portal", "admin"])
    return [
        HistoryLine(
            event.at,
            gettext("Call: %(tool)s") % {"tool": event.tool},
            event.email,
            details=f"{event.channel}, {event.get_outcome_display()}",
        )
        for event in events.order_by("-at")[:CALLS_SHOWN]
    ]


add_source(calls_about)


@admin.register(CompanyGroup)
class CompanyGroupAdmin(ExportsList):
    """Rights that groups of the company's issuer give. Only admins may change them, because a group can make admins."""

    list_display = ["name", "persona_names", "is_curator", "is_operator", "is_admin"]
    search_fields = ["name"]
    filter_horizontal = ["personas"]

    def has_view_permission(self, request: HttpRequest, obj: CompanyGroup | None = None) -> bool:
        return bool(request.user.is_superuser)

    has_change_permission = has_delete_permission = has_view_permission

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def get_queryset(self, request: HttpRequest) -> QuerySet[CompanyGroup]:
        return super().get_queryset(request).prefetch_related("personas")

    @admin.display(description=gettext_lazy("personas"))
    def persona_names(self, group: CompanyGroup) -> str:
        return ", ".join(persona.name for persona in group.personas.all())


class WebhookForm(forms.ModelForm[Webhook]):
    """The URL contains a secret, so it is never shown again: an empty field keeps it."""

    url = forms.CharField(
        label=gettext_lazy("URL"),
        max_length=500,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "class": "vTextField"}),
    )
    forget_url = forms.BooleanField(
        label=gettext_lazy("Forget the stored URL"),
        required=False,
        help_text=gettext_lazy("The channel is turned off."),
    )

    class Meta:
        model = Webhook
        fields = ("persona", "url", "is_on")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stored_url = self.instance.url
        if self.stored_url:
            text = gettext("Stored: an address on %(host)s. It contains a secret, so it is not shown. Empty keeps it.")
            self.fields["url"].help_text = text % {"host": self.instance.host}
        else:
            self.fields["url"].help_text = gettext("It is stored, and not shown again.")
            self.fields.pop("forget_url")

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        entered = values.get("url", "").strip()
        if values.get("forget_url"):
            if entered:
                self.add_error("forget_url", gettext("Enter a new URL or forget the stored one, not both."))
            values |= {"url": "", "is_on": False}
            return values
        try:
            values["url"] = chat_channel.check_url(entered) if entered else self.stored_url
        except Invalid as error:
            self.add_error("url", message_without_field(error))
        else:
            if values.get("is_on") and not values["url"]:
                self.add_error("url", gettext("Enter the URL to which the numbers are posted."))
        return values


@admin.register(Webhook)
class WebhookAdmin(ExportsList):
    form = WebhookForm
    list_display = ["persona", "host", "is_on", "sent_at", "last_error"]  # no URL, because it contains a secret
    list_filter = ["is_on"]
    readonly_fields = ["last_counts", "sent_at", "tried_at", "last_error"]
    search_fields = ["persona__name"]
    test_title = gettext_lazy("Test: post the current numbers")

    def get_readonly_fields(self, request: HttpRequest, obj: Webhook | None = None) -> list[str]:
        return ["persona", *self.readonly_fields] if obj else list(self.readonly_fields)

    def get_fields(self, request: HttpRequest, obj: Webhook | None = None) -> Any:
        if obj is None:
            return ["persona", "url", "is_on"]
        return ["persona", "url", *(["forget_url"] if obj.url else []), "is_on", *self.readonly_fields]

    @admin.display(description=gettext_lazy("host"))
    def host(self, webhook: Webhook) -> str:
        return webhook.host

    def test(self, request: HttpRequest, row: Webhook, values: Mapping[str, Any]) -> TestAnswer:
        if not values["url"]:
            return TestAnswer(False, gettext("There is no URL to post to."))
        text, error = chat_channel.try_out(admin_caller(request), persona=row.persona, url=values["url"])
        is_new = values["url"] != Webhook.objects.filter(pk=row.pk).values_list("url", flat=True).first()
        note = [gettext("The URL is not shown again: enter it once more before you save.")] if is_new else []
        return TestAnswer(not error, error or gettext("The host accepted the message."), [text, *note])

    def save_model(self, request: HttpRequest, obj: Webhook, form: Any, change: bool) -> None:
        saved = chat_channel.save(admin_caller(request), persona=obj.persona, url=obj.url, is_on=obj.is_on)
        obj.pk = saved.pk


# allauth's own tables of accounts stay empty, and second factors are nobody's but the person's.
for model in (
    allauth_admin.EmailAddress,
    Authenticator,
    social_admin.SocialAccount,
    social_admin.SocialApp,
    social_admin.SocialToken,
):
    if admin.site.is_registered(model):
        admin.site.unregister(model)
