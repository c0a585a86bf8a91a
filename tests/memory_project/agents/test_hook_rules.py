"""What the hook program decides on the client: which prompts and calls, which repository, which parts of a session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foundation.operations.masking import masked
from memory_project.agents.hook_program.framing import BEGIN, END
from memory_project.agents.hook_program.gates import reason_to_skip, statement_in
from memory_project.agents.hook_program.repository import normalized_remote, read_settings, repository_of
from memory_project.agents.hook_program.transcripts import read_transcript

WRITTEN = [
    "What is revenue in sales.orders?",
    "why did refunds drop in May",
    "Does the churn table contain test accounts?",
    "Welche Tabelle enthält die Retouren?",
    "¿Qué tabla tiene los reembolsos?",
    "売上に返品は含まれますか",
    "yes, but use gross revenue instead",
    "/etc/hosts is wrong on the warehouse machine",
    "<b>sales.orders</b> has duplicates, why?",
]
SKIPPED = [
    "",
    "ok",
    "yes please go ahead and do it",
    "Thanks, that looks great!",
    "ja genau, mach bitte weiter so",
    "vielen Dank, das passt so",
    "sí, por favor, sigue adelante",
    "gracias, está muy bien así",
    "revenue?",
    "orders revenue",
    "/deploy staging to the warehouse",
    "/commonplace:recall sales.orders and refunds",
    "!psql -c 'select * from orders'",
    "# remember that revenue excludes refunds",
    "<task-notification>\n<status>completed</status> revenue of sales.orders is done",
    '<teammate-message teammate_id="lead">look at sales.orders revenue</teammate-message>',
    '<cross-session-message from="b2">look at sales.orders revenue</cross-session-message>',
    '<channel source="chat">look at sales.orders revenue</channel>',
    "<local-command-stdout>revenue of sales.orders is 12</local-command-stdout>",
    "[Request interrupted by user for tool use]",
]


@pytest.mark.parametrize("prompt", WRITTEN)
def test_what_a_person_asks_is_looked_up(prompt: str) -> None:
    assert reason_to_skip(prompt) == ""


@pytest.mark.parametrize("prompt", SKIPPED)
def test_what_says_nothing_or_was_written_by_nobody_is_not(prompt: str) -> None:
    assert reason_to_skip(prompt)


@pytest.mark.parametrize(
    ("tool", "given", "is_sent"),
    [
        ("Bash", {"command": "cat q.sql | psql shop"}, True),
        ("Bash", {"command": "/opt/homebrew/bin/duckdb x.db"}, True),
        ("Bash", {"command": "python run.py --sql 'SELECT a FROM b'"}, True),
        ("Bash", {"command": "cd dbt_project && ls"}, False),
        ("Bash", {"command": "grep -r select ."}, False),
        ("Bash", {}, False),
        ("Bash", {"command": 7}, False),
        ("Write", {"content": "select a from b"}, False),
        ("mcp__warehouse__run", {"options": {"sql": "with x as (select 1 from y) select * from x"}}, True),
        ("mcp__files__read", {"path": "/data/orders.csv"}, False),
        ("mcp__commonplace__memory_recall", {"query": "select a from b"}, False),
        ("mcp__plugin_commonplace_commonplace__query_sql", {"sql": "select a from b"}, False),
    ],
)
def test_only_calls_about_databases_are_sent(tool: str, given: object, is_sent: bool) -> None:
    assert bool(statement_in(tool, given)) == is_sent


@pytest.mark.parametrize(
    "secret",
    [
        "mysql -u ana -phunter22 shop",
        "export API_KEY=hunter22xyz",
        '{"token": "hunter22xyz"}',
        "https://ana:hunter22@git.example.org/x",
        "curl -H 'Authorization: Bearer hunter22hunter22'",
        "cpl_hunter22hunter22",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter22\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_secrets_are_masked(secret: str) -> None:
    assert "hunter22" not in masked(f"first {secret} last")
    assert masked(f"first {secret} last").startswith("first ")


def test_statements_and_prompts_keep_their_words() -> None:
    text = "select token_count, password_resets from sales.orders where id = 7 -- why is the token count so high?"
    assert masked(text) == text


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://ana:secret@GitHub.com/acme/Data.git", "github.com/acme/Data"),
        ("https://oauth2:ghp_secret@gitlab.example.org:8443/group/sub/data", "gitlab.example.org/group/sub/data"),
        ("git@github.com:acme/data.git", "github.com/acme/data"),
        ("ssh://git@git.example.org:2222/acme/data.git/", "git.example.org/acme/data"),
        ("github.com:acme/data", "github.com/acme/data"),
        ("/srv/git/data.git", None),
        ("../data", None),
        ("file:///srv/git/data.git", None),
        ("C:\\git\\data", None),
        ("C:/git/data", None),
        ("https://[broken/x", None),
        ("https://github.com/acme/a data, and more", None),
        ("", None),
    ],
)
def test_a_remote_is_named_without_credentials_and_paths_of_the_machine_stay_there(
    address: str, expected: str | None
) -> None:
    assert normalized_remote(address) == expected


def test_worktrees_and_submodules_have_their_repositorys_remote(tmp_path: Path) -> None:
    main = tmp_path / "main"
    for name, remote in {".": "git@h.org:a/main.git", "modules/lib": "git@h.org:a/lib.git"}.items():
        folder = main / ".git" / name
        folder.mkdir(parents=True)
        (folder / "config").write_text(f'[core]\n\tbare = false\n[remote "other"]\n\turl = x\n'
                                       f'[remote "origin"]\n\turl = "{remote}" ; ours\n')  # fmt: skip
    (main / ".git" / "worktrees" / "fix").mkdir(parents=True)
    (main / ".git" / "worktrees" / "fix" / "commondir").write_text("../..\n")
    for name, place in {"fix": "worktrees/fix", "lib": "modules/lib"}.items():
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / ".git").write_text(f"gitdir: {main / '.git' / place}\n")
    (tmp_path / "fix" / ".commonplace.toml").write_text('persona = "finance"\n')
    assert repository_of(main).remote == "h.org/a/main"
    assert repository_of(tmp_path / "lib" / "inner").remote == "h.org/a/lib"
    fix = repository_of(tmp_path / "fix" / "inner")
    assert (fix.remote, fix.settings.persona, fix.root) == ("h.org/a/main", "finance", (tmp_path / "fix").resolve())
    assert repository_of(tmp_path) == repository_of(Path("/nowhere"))


def test_unknown_settings_of_a_repository_are_named(tmp_path: Path) -> None:
    path = tmp_path / ".commonplace.toml"
    path.write_text('persona = 3\nentities = ["sales.orders", 4, ""]\ncapture = true\n')
    settings = read_settings(path)
    assert (settings.is_present, settings.is_off, settings.persona) == (True, False, None)
    assert settings.entities == ("sales.orders",)
    assert [problem.split(": ")[1] for problem in settings.problems] == [
        "unknown key 'capture' is ignored",
        "persona is not a text of 1 to 60 characters and is ignored",
    ]


def test_a_transcript_is_read_without_what_commonplace_or_a_program_wrote(tmp_path: Path) -> None:
    block = f"{BEGIN}\nrevenue excludes refunds\n{END}"
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "psql -c 'selec 1'"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "is_error": True,
        "content": [{"text": f"syntax error{block}"}],
    }
    lines = [
        {"type": "summary", "summary": "older"},
        {"type": "user", "isMeta": True, "message": {"content": "meta"}},
        {"type": "user", "isSidechain": True, "message": {"content": "of a subagent"}},
        {"type": "user", "message": {"content": f"{block}How is revenue computed?"}},
        {"type": "user", "message": {"content": f"{block}"}},
        {"type": "user", "message": {"content": "<command-name>/clear</command-name>"}},
        {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": "…"}, call]}},
        {"type": "user", "message": {"content": [result]}},
        {"type": "user", "message": 7},
        "not an object",
    ]
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + '\n{"type": "user", "mess')
    assert [(m.role, m.text, m.tool, m.is_error) for m in read_transcript(path)] == [
        ("user", "How is revenue computed?", "", False),
        ("assistant", "", "Bash", False),
        ("tool", "syntax error", "Bash", True),
    ]
    assert read_transcript(tmp_path / "none") == read_transcript(tmp_path) == []
