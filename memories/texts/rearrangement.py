"""Rearrangement of a claim's words, so that a genitive, a passive and a question read like the plain sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memories.texts.parts import Claim, PartKind, TextToken

WH_OBJECTS = frozenset({"who", "which", "what", "how_many", "how_much"})


def rearrange(claim: Claim) -> None:
    tokens = claim.tokens
    tokens = [t for n, t in enumerate(tokens) if not (n == 0 and t.key in ("which", "was") and _is_bare(tokens))]
    dropped = len(claim.tokens) - len(tokens)
    if claim.language == "en":
        tokens = _fronted_object(tokens, claim.do_at - dropped)
        if "be" in claim.auxiliaries:
            rearranged = _active(tokens)
            claim.has_agent = rearranged is not tokens
            tokens = rearranged
        tokens = _genitive(tokens)
    claim.tokens = _sorted_pair(tokens)


def _is_bare(tokens: Sequence[TextToken]) -> bool:
    """Return whether a question word stands alone, as in "What is the revenue?", which asks for the revenue."""
    return len(tokens) > 1 and tokens[0].text.casefold() in ("what", "was", "which") and not tokens[1].is_bound


def _fronted_object(tokens: list[TextToken], do_at: int) -> list[TextToken]:
    """Move the object that a question begins with behind the verb: "Whom did Anna hire" → "Anna hire whom"."""
    if do_at < 1 or not tokens or tokens[0].key not in WH_OBJECTS:
        return tokens
    front = tokens[:do_at]
    rest = tokens[do_at:]
    if rest and rest[-1].kind == PartKind.PREPOSITION and not front[0].prefix:
        return [*rest[:-1], replace(front[0], prefix=rest[-1].key), *front[1:]]
    end = next((n for n, token in enumerate(rest) if token.prefix and n), len(rest))
    return [*rest[:end], *front, *rest[end:]] if not front[0].prefix else [*rest, *front]


def _active(tokens: list[TextToken]) -> list[TextToken]:
    """Turn "orders ship by Anna" into "Anna ship orders"."""
    at = next((n for n, t in enumerate(tokens) if t.prefix == "by" and t.kind != PartKind.NUMBER), -1)
    if at < 0:
        return tokens
    end = next((n for n in range(at + 1, len(tokens)) if tokens[n].prefix or not tokens[n].is_bound), len(tokens))
    agent = [replace(tokens[at], prefix=""), *tokens[at + 1 : end]]
    if at == 0:  # "By whom was Anna hired"
        return [*agent, *tokens[-1:], *tokens[end:-1]] if end < len(tokens) else tokens
    before = tokens[:at]
    verb = next((n for n in range(at - 1, -1, -1) if not before[n].prefix), at - 1)
    return [*agent, before[verb], *before[:verb], *before[verb + 1 :], *tokens[end:]]


def _genitive(tokens: list[TextToken]) -> list[TextToken]:
    """Turn "manager of the store" into "store 's manager". The owner may have one or two words."""
    for at, token in enumerate(tokens):
        if token.prefix != "of" or at == 0 or token.kind == PartKind.NUMBER:
            continue
        end = next((n for n in range(at + 1, len(tokens)) if tokens[n].prefix or not tokens[n].is_bound), len(tokens))
        start = at - 1
        while start > 0 and tokens[start].is_bound and tokens[start - 1].kind in (PartKind.WORD, PartKind.NAME):
            start -= 1
        if end - at > 2 or tokens[start].kind not in (PartKind.WORD, PartKind.NAME):
            continue
        owner = [replace(token, prefix=tokens[start].prefix), *tokens[at + 1 : end]]
        owned = [replace(tokens[start], prefix=""), *tokens[start + 1 : at]]
        link = TextToken("'s", "'s", PartKind.CONJUNCTION)
        return [*tokens[:start], *owner, link, *owned, *_genitive(tokens[end:])]
    return tokens


def _sorted_pair(tokens: list[TextToken]) -> list[TextToken]:
    """Sort the two words of a single "A and B". With two pairs, the order may assign one to the other."""
    joints = [n for n, token in enumerate(tokens) if token.kind == PartKind.CONJUNCTION and token.key != "'s"]
    if len(joints) != 1 or not 0 < joints[0] < len(tokens) - 1:
        return tokens
    at = joints[0]
    first = tokens[at - 1]
    second = tokens[at + 1]
    if second.prefix or first.kind == PartKind.NUMBER or first.prefix in ("from", "between", "von", "zwischen"):
        return tokens
    if (second.key, second.text) < (first.key, first.text):
        swapped = [replace(second, prefix=first.prefix), tokens[at], replace(first, prefix="")]
        return [*tokens[: at - 1], *swapped, *tokens[at + 2 :]]
    return tokens
