"""Candidates for suggestions: decisions, corrections and repaired statements in the transcript of an agent's session.

Rules alone, no language model. Only what a person typed counts, except for statements that failed. The program of the
hooks runs this module where the transcript is, so it imports neither Django nor anything outside the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foundation.operations.secrets import contains_secret
from memory_project.agents.hook_program import wording
from memory_project.agents.hook_program.statements import Repair, SessionStatement, repairs, sql_in

DECISION = "decision"
CORRECTION = "correction"
FAILED_STATEMENT = "failed_statement"
KINDS = (DECISION, CORRECTION, FAILED_STATEMENT)

MAX_CANDIDATES = 10  # per session
MIN_TEXT, MAX_TEXT = 30, 500  # characters of a candidate's text
MIN_SENTENCE = 15  # characters of a correction's first sentence; those that follow may make up for the rest
MAX_EVIDENCE = 500  # characters; longer evidence is cut
MAX_ENTITIES = 10
MAX_MESSAGES = 5_000  # the last messages of a longer session are read
MAX_READ = 20_000  # characters of a message that are read
MAX_TYPED = 3_000  # characters: a longer message was pasted, not typed
MAX_SENTENCES = 3  # sentences of a candidate, from the one that made it a candidate on
MAX_SAME = 0.7  # share of common words from which two candidates say the same
RETRACTED_WITHIN = 3  # messages of the person that a retraction may refer to

INJECTED = re.compile(r"<commonplace-memories>.*?(?:</commonplace-memories>|\Z)", re.DOTALL | re.IGNORECASE)
# Blocks that programs put into messages, such as <system-reminder>…</system-reminder>. Their names have a hyphen.
WRAPPED = re.compile(r"<([a-z]+(?:-[a-z]+)+)\b[^>]{0,500}>.*?(?:</\1>|\Z)", re.DOTALL)
CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
QUOTED = re.compile(r"\"[^\"\n]{12,}\"|“[^“”\n]{12,}”|„[^„“”\n]{12,}[“”]|«[^«»\n]{12,}»")
# Lines that were pasted: quotations, logs, traces, statements, prompts of a shell, rows of tables.
PASTED = re.compile(
    r"\s*(?:[>|$#+]|\d{1,4}[:/.-]\d\d|\[?\d{4}-\d\d|(?:ERROR|WARN(?:ING)?|INFO|DEBUG|Traceback|File \"|at \w+\.)"
    r"|(?:SELECT|INSERT|UPDATE|DELETE|CREATE|WITH|FROM|WHERE)\b|\w+: \S)|.*\s\|\s.*\|"
)
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+(?=\S)|\n+")
OPENING = re.compile(
    r"^\W*(?:(?:ok(?:ay)?|so|and|well|right|yes|btw|by the way|wait|hm+|but|also|then|und|aber|ja|genau|y|pero|bueno"
    r"|sí)\b[,:. ]+)+",
    re.IGNORECASE,
)
WORD = re.compile(r"[^\W\d_]{4,}")
DOTTED = re.compile(r"\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){1,3}\b")
# Parts of names that say nothing of what a session is about.
GENERIC = frozenset(
    {
        "select", "from", "where", "table", "column", "name", "date", "time", "type", "index", "public", "schema",
        "count", "value", "group", "order", "with", "database", "error", "line", "hint", "file", "query", "command",
        "text", "content", "created", "updated", "rows", "status", "information", "exist", "does",
    }
)  # fmt: skip


@dataclass(frozen=True)
class SessionMessage:
    """A message of a transcript.

    `role` is "user" (what a person typed), "assistant" (what the agent said or, with `tool`, which tool it called) or
    "tool" (the result of a call). `tool_input` belongs to the call; a result may repeat it.
    """

    role: str
    text: str
    tool: str = ""
    tool_input: Mapping[str, Any] | str | None = None
    is_error: bool = False


@dataclass(frozen=True)
class SuggestionCandidate:
    """Something worth remembering. `evidence` is the sentence or statement it was found in."""

    kind: str
    text: str
    evidence: str
    entities: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Found:
    candidate: SuggestionCandidate
    turn: int  # number of the person's message it comes from, -1 if it comes from none


def find_candidates(messages: Sequence[SessionMessage]) -> list[SuggestionCandidate]:
    """Return at most MAX_CANDIDATES candidates, the first ones first. Any text is safe to pass; nothing is raised."""
    messages = messages[-MAX_MESSAGES:]
    statements = _statements(messages)
    vocabulary = _vocabulary(statements)
    found: list[_Found] = []
    turn = 0
    has_answer = False
    for message in messages:
        if message.role == "user":
            text = typed_text(message.text)
            turn += 1
            if wording.RETRACTION.search(text):
                found = _without_retracted(found, text, turn)
            found += [_Found(each, turn) for each in _in_text(text, vocabulary, has_answer=has_answer)]
        elif message.role == "assistant" and message.text.strip():
            has_answer = True
    candidates = [each.candidate for each in found] + [_of_repair(repair) for repair in repairs(statements)]
    return _distinct(each for each in candidates if _is_fit(each))


def typed_text(text: str) -> str:
    """Return what a person typed of a message, without injected blocks, code, quotations and pasted lines."""
    text = INJECTED.sub("\n", text[:MAX_READ])
    text = CODE.sub("\n", WRAPPED.sub("\n", text))
    lines = [line for line in text.split("\n") if not PASTED.match(line)]
    text = QUOTED.sub("…", "\n".join(lines)).strip()
    return "" if len(text) > MAX_TYPED else text


def _in_text(text: str, vocabulary: frozenset[str], *, has_answer: bool) -> list[SuggestionCandidate]:
    """Return the candidates of one message, at most one of each kind."""
    if wording.JOKE.search(text) or (wording.UNSURE.search(text) and wording.REPORTED.search(text)):
        return []
    sentences = [each.strip() for each in SENTENCE_END.split(text) if each.strip() and len(each) <= MAX_TEXT]
    for position, sentence in enumerate(sentences):
        kind = _kind(sentence, vocabulary, has_answer=has_answer)
        states = _statement(sentence)
        if kind == CORRECTION and not _is_statement(states, vocabulary):
            # "That's wrong." is a correction if the next sentence says what is right
            position, states = (
                position + 1,
                _statement(sentences[position + 1]) if position + 1 < len(sentences) else "",
            )
            kind = CORRECTION if _is_statement(states, vocabulary) else ""
        if kind:
            said = _with_following(states, sentences[position + 1 :])
            return [SuggestionCandidate(kind, said, " ".join(sentences)[:MAX_EVIDENCE], _entities(said))]
    return []


def _kind(sentence: str, vocabulary: frozenset[str], *, has_answer: bool) -> str:
    """Return the kind of candidate that a sentence makes, or "" if it makes none."""
    if not _counts(sentence):
        return CORRECTION if has_answer and _refuses(sentence) and not _is_disqualified(sentence) else ""
    states = _statement(sentence)
    if wording.DECIDED.search(sentence) and _is_about_data(states, vocabulary) and not _is_of_oneself(states):
        return DECISION
    if wording.LETS.search(sentence) and _is_about(states, vocabulary):
        return DECISION
    if has_answer and (_refuses(sentence) or _is_fact(states, vocabulary)):
        return CORRECTION
    return ""


def _refuses(sentence: str) -> bool:
    return bool(wording.REFUSES.match(OPENING.sub("", sentence)))


def _statement(sentence: str) -> str:
    """Return a sentence without what introduces it: "Ok, no, net revenue …" becomes "Net revenue …"."""
    previous = ""
    while sentence != previous:
        previous = sentence
        sentence = OPENING.sub("", sentence)
        if refusal := wording.REFUSES.match(sentence):
            sentence = sentence[refusal.end() :].lstrip(" ,.:;!–-")
    is_name = wording.IDENTIFIER.match(sentence)  # the case of a name of a column matters
    return sentence if is_name else sentence[:1].upper() + sentence[1:]


def _is_disqualified(sentence: str) -> bool:
    decided = wording.DECIDED.search(sentence)
    before = sentence[: decided.start()] if decided else sentence  # "if" after "we decided" is part of the decision
    return (
        sentence.endswith("?")
        or bool(wording.CONDITION.search(before))
        or any(pattern.search(sentence) for pattern in (wording.HYPOTHETICAL, wording.UNSURE, wording.REPORTED))
    )


def _counts(sentence: str) -> bool:
    """Return whether a sentence states something: it is no question, guess, task or report of what others think."""
    states = _statement(sentence)
    is_task = wording.TASK.match(states) and not wording.LETS.search(sentence)
    is_question = wording.QUESTION.match(states) and not wording.DECIDED.search(sentence)
    return not (is_task or is_question or wording.POLITE.search(sentence) or _is_disqualified(sentence))


def _is_statement(states: str, vocabulary: frozenset[str]) -> bool:
    """Return whether a text after "no" or "actually" is a statement about data."""
    return (
        len(states) >= MIN_SENTENCE
        and _counts(states)
        and bool(wording.STATES.search(states))
        and _is_about_data(states, vocabulary)
        and not _is_of_oneself(states)
    )


def _is_fact(states: str, vocabulary: frozenset[str]) -> bool:
    """Return whether a sentence corrects without saying "no": it contrasts two things, or names what changed."""
    if len(states) < MIN_TEXT or _is_of_oneself(states) or not _is_about_data(states, vocabulary):
        return False
    if wording.CHANGED.search(states):
        return True
    if not wording.STATES.search(states):
        return False
    if wording.CONTRAST.search(states):
        return True
    return bool(wording.FIRM.search(states) and _names(states, vocabulary))


def _is_of_oneself(states: str) -> bool:
    return bool(wording.OF_ONESELF.search(states))


def _is_about_data(states: str, vocabulary: frozenset[str]) -> bool:
    return bool(wording.DATA.search(states) or wording.IDENTIFIER.search(states)) or _is_about(states, vocabulary)


def _is_about(states: str, vocabulary: frozenset[str]) -> bool:
    """Return whether a text names something that occurred in the session's statements."""
    words = {word.lower() for word in WORD.findall(states.replace("_", " ").replace(".", " "))}
    return bool(vocabulary & (words | {word.removesuffix("s") for word in words}))


def _names(states: str, vocabulary: frozenset[str]) -> bool:
    return bool(wording.IDENTIFIER.search(states)) and _is_about(states, vocabulary)


def _with_following(states: str, following: Sequence[str]) -> str:
    """Add the sentences that go on about it, as far as the text stays within its limit."""
    text = states
    for sentence in following[: MAX_SENTENCES - 1]:
        longer = f"{text} {sentence}" if text[-1:] in ".!?:;…" else f"{text}. {sentence}"
        if not _counts(sentence) or _is_of_oneself(sentence) or len(longer) > MAX_TEXT:
            break
        text = longer
    return text


# -- statements --------------------------------------------------------------------------------------------


def _statements(messages: Sequence[SessionMessage]) -> list[SessionStatement]:
    """Return the statements of a session with their errors. A call without a result is left out."""
    statements: list[SessionStatement] = []
    calls: dict[str, list[str]] = {}
    for message in messages:
        if "commonplace" in message.tool.lower():
            continue
        if message.role == "assistant" and message.tool:
            calls.setdefault(message.tool, []).append(sql_in(message.tool_input))
        elif message.role == "tool":
            waiting = calls.get(message.tool, [])
            called = waiting.pop(0) if waiting else ""
            sql = sql_in(message.tool_input) or called
            if sql:
                statements.append(
                    SessionStatement(sql, message.text[:MAX_READ] or "failed" if message.is_error else "")
                )
    return statements


def _vocabulary(statements: Iterable[SessionStatement]) -> frozenset[str]:
    """Return the words in the names of tables and columns of the session's statements, in the singular, too."""
    names = (
        name for each in statements for name in re.findall(r"[A-Za-z]\w*(?:\.\w+)*", re.sub("'[^']*'", "", each.sql))
    )
    words = {
        word.lower() for name in names if "_" in name or "." in name for word in WORD.findall(re.sub("[_.]", " ", name))
    }
    return frozenset(words | {word.removesuffix("s") for word in words}) - GENERIC


def _of_repair(repair: Repair) -> SuggestionCandidate:
    if repair.table:
        text = f"In {repair.table}, the column is {repair.right}. A column {repair.wrong} does not exist."
    else:
        text = f"The table is {repair.right}. A table {repair.wrong} does not exist."
    lines = repair.error.strip().split("\n")
    evidence = f"{lines[0][:200]}\n{repair.statement}"[:MAX_EVIDENCE]
    return SuggestionCandidate(FAILED_STATEMENT, text, evidence, (repair.table or repair.right,))


# -- all candidates ----------------------------------------------------------------------------------------


def _entities(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(DOTTED.findall(text)))[:MAX_ENTITIES]


def _without_retracted(found: list[_Found], text: str, turn: int) -> list[_Found]:
    """Drop the newest candidate that a retraction can mean: a recent one, or an older one with the same names."""
    names = set(wording.IDENTIFIER.findall(text))
    for each in reversed(found):
        if turn - each.turn <= RETRACTED_WITHIN or names & set(wording.IDENTIFIER.findall(each.candidate.text)):
            return [other for other in found if other is not each]
    return found


def _is_fit(candidate: SuggestionCandidate) -> bool:
    has_secret = contains_secret(candidate.text) or contains_secret(candidate.evidence)
    return MIN_TEXT <= len(candidate.text) <= MAX_TEXT and not has_secret


def _distinct(candidates: Iterable[SuggestionCandidate]) -> list[SuggestionCandidate]:
    """Return the first MAX_CANDIDATES candidates that don't say the same as one before. Numbers make a difference."""
    kept: list[tuple[set[str], SuggestionCandidate]] = []
    for candidate in candidates:
        words = set(re.findall(r"\w+", candidate.text.casefold()))
        if not any(_is_same(words, other) for other, _ in kept):
            kept.append((words, candidate))
        if len(kept) == MAX_CANDIDATES:
            break
    return [candidate for _, candidate in kept]


def _is_same(words: set[str], other: set[str]) -> bool:
    has_same_numbers = not any(word.isdecimal() for word in words ^ other)
    return has_same_numbers and len(words & other) >= MAX_SAME * len(words | other)
