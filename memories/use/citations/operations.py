"""Operations on documents that cite memories."""

from __future__ import annotations

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from django.utils.translation import gettext
from pydantic import AfterValidator, Field, model_validator

from foundation.operations.fields import Id, Moment, Text, Verbatim, validation_error
from foundation.operations.operation import Operation

MAX_CITATIONS = 500  # memories that one document may cite
MAX_DOCUMENTS = 2_000  # documents of one person
MAX_PASTED = 200_000  # characters of a text that is searched for addresses
MAX_ADDRESS = 500
SCHEMES = ("http", "https")
# A scheme of a URL, but not a drive, as in `C:\\reports`.
SCHEME = re.compile(r"[a-z][a-z0-9+.-]+", re.IGNORECASE)
# What browsers leave out of an address: at its start, and within it.
AT_START, WITHIN = "".join(map(chr, range(0x21))), str.maketrans("", "", "\t\r\n")


def check_address(address: str) -> str:
    """Return the address of a document. Raises a validation error for a URL that no page could link to safely."""
    if "\n" in address:
        raise validation_error(gettext("has several lines"), gettext("one line"))
    if "://" not in address and not _has_scheme(address):
        return address
    allowed = gettext("a URL with http or https, or words without ://")
    try:
        url = urlsplit(address)
    except ValueError:
        raise validation_error(gettext("is not a URL"), allowed) from None
    if url.scheme.lower() not in SCHEMES or not url.hostname:
        raise validation_error(gettext("has another scheme than http and https, or no host"), allowed)
    if url.username is not None or url.password is not None:
        raise validation_error(gettext("has a user name or password"), gettext("a URL without credentials"))
    return address


def _has_scheme(address: str) -> bool:
    """Return whether a browser would read a scheme, as in `javascript:alert(1)` but not in `Report: May`."""
    start, colon, rest = address.lstrip(AT_START).translate(WITHIN).partition(":")
    return bool(colon) and not rest.startswith(" ") and SCHEME.fullmatch(start) is not None


Address = Annotated[str, Text(1, MAX_ADDRESS), AfterValidator(check_address)]
CitingIds = Annotated[list[Id], AfterValidator(lambda ids: list(dict.fromkeys(ids))), Field(max_length=MAX_CITATIONS)]
DocumentId = Annotated[Id, Field(description="Id of the document.")]


class Cite(Operation):
    """Register a document that cites memories, or replace what it cites"""

    address: Address = Field(description="Where the document is: a URL, or other words.")
    title: Annotated[str, Text(0, 200)] = Field("", description="Its title; the address if not given.")
    text: Annotated[str, Verbatim(MAX_PASTED)] | None = Field(
        None, description="Its text; the addresses of memories in it are registered."
    )
    memory_ids: CitingIds = Field([], description="Ids of memories that it cites.")
    is_shared: bool | None = Field(None, description="Show title and address to readers of the memories.")

    @model_validator(mode="after")
    def _cites_something(self) -> Self:
        if not self.text and not self.memory_ids:
            raise validation_error(gettext("is missing"), gettext("a text with addresses, or memory_ids"), field="text")
        return self


class ShowCiting(Operation):
    """Show a document of yours, with what became of the memories that it cites"""

    document_id: DocumentId


class ChangeCiting(Operation):
    """Rename or share a document of yours, or acknowledge changes of what it cites"""

    document_id: DocumentId
    title: Annotated[str, Text(0, 200)] | None = Field(None, description="Its title.")
    is_shared: bool | None = Field(None, description="Show title and address to readers of the memories.")
    acknowledged_until: Moment | None = Field(None, description="Acknowledges changes up to this time.")

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.title is None and self.is_shared is None and self.acknowledged_until is None:
            raise validation_error(
                gettext("is missing"), gettext("title, is_shared or acknowledged_until"), field="acknowledged_until"
            )
        return self


class RemoveCiting(Operation):
    """Remove a document of yours"""

    document_id: DocumentId
