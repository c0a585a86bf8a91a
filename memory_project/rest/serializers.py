"""What the REST API takes. Values are judged by the services, so that every door says the same of them."""

from __future__ import annotations

from rest_framework import serializers


class RememberInput(serializers.Serializer[None]):
    content = serializers.CharField(trim_whitespace=False, allow_blank=True)
    dimension = serializers.CharField(required=False)
    category = serializers.CharField(required=False)
    confidence = serializers.CharField(required=False)
    source = serializers.CharField(required=False)  # type: ignore[assignment]  # a field of ours, not DRF's attribute
    tags = serializers.ListField(child=serializers.CharField(), required=False)
    entity_urns = serializers.ListField(child=serializers.CharField(), required=False)
    related_columns = serializers.ListField(child=serializers.DictField(), required=False)
    visibility = serializers.CharField(required=False)
    metadata = serializers.DictField(required=False)


class SupersedeInput(serializers.Serializer[None]):
    content = serializers.CharField(trim_whitespace=False, allow_blank=True)
    reason = serializers.CharField(required=False, allow_blank=True, default="")


class RecallInput(serializers.Serializer[None]):
    query = serializers.CharField(required=False, allow_blank=True, default="")
    strategy = serializers.CharField(required=False, default="auto")
    entity_urns = serializers.ListField(child=serializers.CharField(), required=False, default=list)
    dimension = serializers.CharField(required=False, allow_blank=True, default="")
    tags = serializers.ListField(child=serializers.CharField(), required=False, default=list)
    include_stale = serializers.BooleanField(required=False, default=False)
    as_of = serializers.CharField(required=False, allow_blank=True, default="")
    limit = serializers.IntegerField(required=False, default=10)


class ListInput(serializers.Serializer[None]):
    dimension = serializers.CharField(required=False, default="")
    category = serializers.CharField(required=False, default="")
    status = serializers.CharField(required=False, default="active")
    entity_urn = serializers.CharField(required=False, default="")
    limit = serializers.IntegerField(required=False, default=20)
    offset = serializers.IntegerField(required=False, default=0)
