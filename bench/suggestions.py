"""Precision and recall of the candidates that the rules find in recorded sessions.

    .venv/bin/python bench/suggestions.py [--details]

A candidate is right if a label of its kind and session has words that its text contains; a second candidate for the
same label is wrong. `known` sessions were used to write the rules, `unseen` ones were not.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from memory_project.agents.hook_program.candidates import SessionMessage, SuggestionCandidate, find_candidates  # noqa: E402 - needs the path

SESSIONS = ROOT / "tests/data/sessions"
LINE = re.compile(r"([UACRE]): (.*)", re.DOTALL)
LABEL = re.compile(r"= (\w+): (.+)")


@dataclass
class Session:
    name: str
    messages: list[SessionMessage] = field(default_factory=list)
    labels: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Score:
    right: int = 0
    wrong: list[SuggestionCandidate] = field(default_factory=list)
    missed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return self.right / (self.right + len(self.wrong) or 1)

    @property
    def recall(self) -> float:
        return self.right / (self.right + len(self.missed) or 1)

    def __iadd__(self, other: Score) -> Score:
        return Score(self.right + other.right, self.wrong + other.wrong, self.missed + other.missed)


def read(path: Path) -> Session:
    """Read a session in the format that tests/data/sessions/README.md describes."""
    session = Session(path.stem)
    tool, given = "", ""
    for entry in re.split(r"\n(?=\S)", path.read_text().strip()):
        if label := LABEL.fullmatch(entry):
            session.labels.append((label[1], label[2]))
            continue
        found = LINE.fullmatch(entry)
        if found is None:
            raise ValueError(f"{path.name}: {entry[:60]!r} has no speaker")
        who, text = found[1], found[2].replace("\n  ", "\n")
        if who == "C":
            tool, _, given = text.partition(" | ")
            session.messages.append(SessionMessage("assistant", "", tool, given))
        elif who in "RE":
            session.messages.append(SessionMessage("tool", text, tool, given, is_error=who == "E"))
        else:
            session.messages.append(SessionMessage("user" if who == "U" else "assistant", text))
    return session


def score(session: Session) -> Score:
    result, open_labels = Score(), list(session.labels)
    for candidate in find_candidates(session.messages):
        text = candidate.text.casefold()
        label = next((each for each in open_labels if each[0] == candidate.kind and each[1].casefold() in text), None)
        if label is None:
            result.wrong.append(candidate)
        else:
            open_labels.remove(label)
            result.right += 1
    result.missed = open_labels
    return result


def sessions(prefix: str = "") -> list[Session]:
    return [read(path) for path in sorted(SESSIONS.glob(f"{prefix}*.txt")) if path.name != "README.md"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--details", action="store_true", help="print what was wrong and what was missed")
    parser.add_argument("--only", default="", choices=["", "known", "unseen"])
    arguments = parser.parse_args()
    print("| sessions | messages | labels | proposed | right | precision | found of the labels |")
    print("|---|---|---|---|---|---|---|")
    for prefix in [arguments.only] if arguments.only else ["known", "unseen"]:
        total, details = Score(), []
        rows = sessions(prefix)
        for session in rows:
            one = score(session)
            total += one
            details += [f"  {session.name}: wrong {each.kind}: {each.text}" for each in one.wrong]
            details += [f"  {session.name}: missed {kind}: {words}" for kind, words in one.missed]
        messages, labels = sum(len(row.messages) for row in rows), sum(len(row.labels) for row in rows)
        cells = (len(rows), messages, labels, total.right + len(total.wrong), total.right)
        print(f"| {prefix}: " + " | ".join(map(str, cells)) + f" | {total.precision:.2f} | {total.recall:.2f} |")
        if arguments.details:
            print("\n".join(details))


if __name__ == "__main__":
    main()
