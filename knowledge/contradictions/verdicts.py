"""Verdicts on contradictions, and their undo. Each is one transaction with what it changes.

A memory that a person may change is changed at once. What needs a change of another's memory is proposed to its owner:
a doubt as a report, a scope as a proposal on the pair. The pair stays open for the owner then.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller, require_user
from knowledge.contradictions import effects, queries
from knowledge.contradictions.effects import VerdictEffect
from knowledge.contradictions.operations import GiveVerdict, UndoSettlement
from knowledge.models import Contradiction, PairVerdict, Settlement, SettlementState
from memories.models import MemoryRecord
from memories.validity.scopes.choices import scope_for
from memories.validity.scopes.names import are_different


def give_verdict(caller: Caller, operation: GiveVerdict) -> Settlement:
    """Give a verdict on a pair, and do what follows from it.

    - first, second: the other memory is archived. If the other text is a description in the catalog, the memory is
      proposed as an insight that describes the entity.
    - both: each memory gets its scope.
    - neither: both memories become stale.

    Raises NotFound if the caller may not read both texts, Conflict if the pair was settled already or one of the texts
    has changed, Invalid if a scope is wrong, and Forbidden if another's memory would have to be proposed for the
    catalog.
    """
    require_user(caller)
    with transaction.atomic():
        pair = queries.contradiction(caller, operation.contradiction_id)
        _lock_texts(caller, pair)
        _require_open(caller, pair)
        settlement = Settlement(
            **{name: getattr(pair, name) for name in ("first_id", "second_id", "urn", "column")},
            first_key=pair.first_key,
            second_key=pair.second_key,
            by=caller.email,
            **operation.values("verdict", "note"),
        )
        settlement.first_scope, settlement.second_scope = _scopes(caller, pair, operation)
        done = list(_carry_out(caller, pair, settlement))
        settlement.effects = [effect.as_json() for effect in done if effect.is_to_undo]
        is_proposal = any(effect.is_proposal for effect in done)
        settlement.state = SettlementState.PROPOSED if is_proposal else SettlementState.DECIDED
        settlement.save(force_insert=True)
    effects.index_proposals(done)
    return settlement


def undo(caller: Caller, operation: UndoSettlement) -> Settlement:
    """Take a verdict back with everything that it changed.

    Raises NotFound if the caller may not read the pair, Forbidden if somebody else gave the verdict and the caller is
    no admin, and Conflict if it was undone already or a memory has changed since. Then nothing is undone.
    """
    with transaction.atomic():
        settlement = queries.readable(caller, Settlement.objects.filter(pk=operation.settlement_id)).first()
        if settlement is None:
            raise NotFound(gettext("no such verdict"), field="settlement_id")
        if settlement.by != caller.email and not caller.is_admin:
            raise Forbidden(
                gettext("is a verdict of %(person)s: only they or an admin can undo it") % {"person": settlement.by},
                field="settlement_id",
            )
        settlement = Settlement.objects.select_for_update().get(pk=settlement.pk)
        if settlement.undone_at:
            raise Conflict(gettext("was undone already"), field="settlement_id")
        for effect in reversed(settlement.effects):
            effects.revert(caller, VerdictEffect.of_json(effect), settlement)
        settlement.undone_at = timezone.now()
        settlement.undone_by = caller.email
        settlement.save(update_fields=["undone_at", "undone_by"])
    return settlement


# -- the pair ---------------------------------------------------------------------------------------------------


def _lock_texts(caller: Caller, pair: Contradiction) -> None:
    """Lock the memories in the order of their ids, so that two verdicts on a pair are given one after the other."""
    ids = [pk for pk in (pair.first_id, pair.second_id) if pk]
    rows = MemoryRecord.objects.visible_to(caller).select_for_update().filter(pk__in=ids).order_by("pk")
    locked = {record.pk: record for record in rows.defer("search")}
    if len(locked) < len(ids):
        raise NotFound(gettext("no such contradiction"), field="contradiction_id")
    pair.first = locked[pair.first_id]
    pair.second = locked[pair.second_id] if pair.second_id else None


def _require_open(caller: Caller, pair: Contradiction) -> None:
    verdicts = queries.verdicts_on([pair]).get(pair.pk, [])
    if any(row.by == caller.email and row.state == SettlementState.PROPOSED for row in verdicts):
        raise Conflict(gettext("has a verdict that you have proposed: undo it first"), field="contradiction_id")
    standing = [row for row in verdicts if row.state == SettlementState.DECIDED]
    is_open = queries.open_pairs(Contradiction.objects.filter(pk=pair.pk)).exists()
    if standing and not is_open:
        verdict = PairVerdict(standing[0].verdict)
        raise Conflict(
            gettext("was decided by %(person)s: %(verdict)s") % {"person": standing[0].by, "verdict": verdict.label},
            field="contradiction_id",
        )
    is_changed = pair.urn and not queries.shown_pairs([pair])
    if not is_open or is_changed:
        raise Conflict(gettext("is no contradiction any more: one of the two has changed"), field="contradiction_id")


def _scopes(caller: Caller, pair: Contradiction, operation: GiveVerdict) -> tuple[str, str]:
    if operation.verdict != PairVerdict.BOTH:
        return "", ""
    if pair.second is None and operation.second_scope:
        raise Invalid(
            gettext("is a scope of a description in the catalog"), field="second_scope", allowed=gettext("no scope")
        )
    first = _scope(caller, "first_scope", operation.first_scope, pair.first)
    if pair.second is None:
        return first, ""
    if not operation.second_scope:
        allowed = gettext("where the second text holds, such as persona:NAME")
        raise Invalid(gettext("is missing"), field="second_scope", allowed=allowed)
    second = _scope(caller, "second_scope", operation.second_scope, pair.second)
    if not are_different(first, second):
        raise Invalid(
            gettext("is the scope of both texts"), field="second_scope", allowed=gettext("two different scopes")
        )
    return first, second


def _scope(caller: Caller, field: str, scope: str, record: MemoryRecord) -> str:
    try:
        return scope_for(caller, scope, of=record)
    except Invalid as error:
        raise Invalid(error.fault, field=field, allowed=error.allowed) from None


# -- what follows from a verdict --------------------------------------------------------------------------------


def _carry_out(caller: Caller, pair: Contradiction, settlement: Settlement) -> Iterable[VerdictEffect]:
    first = pair.first
    second = pair.second
    reason = _reason(settlement)
    match settlement.verdict:
        case PairVerdict.BOTH:
            yield effects.give_scope(caller, first, settlement.first_scope, reason)
            if second is not None:
                yield effects.give_scope(caller, second, settlement.second_scope, reason)
        case PairVerdict.NEITHER:
            for record in (first, second):
                if record is not None:
                    yield effects.doubt(caller, record, reason, settlement.note)
        case PairVerdict.SECOND:
            yield effects.retire(caller, first, reason, settlement.note)
        case _ if second is None:
            yield effects.propose_description(caller, first, pair.urn, pair.column)
        case _:
            yield effects.retire(caller, second, reason, settlement.note)


def _reason(settlement: Settlement) -> str:
    """Return the reason for the history. It names no memory, because a reader may not be allowed to read it."""
    verdict = {
        PairVerdict.BOTH: "holds beside another memory",
        PairVerdict.NEITHER: "contradicts another text, and neither was found true",
    }.get(PairVerdict(settlement.verdict), "contradicts another text, which was found true")
    return f"{verdict}: {settlement.note}" if settlement.note else verdict
