"""The person's rules decide, deny before ask before allow, and none of them reaches further than it says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hhd.base.errors import RefusedError
from hhd.effects.policy import DEFAULTS, Policy, Verdict
from hhd.effects.tools.table import TOOLS
from hhd.effects.tools.tool import Subject

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


def bash(command: str) -> Subject:
    return Subject(tool="bash", command=command)


def on(tool: str, *places: str) -> Subject:
    return Subject(tool=tool, places=places)


def policy(**table: list[str]) -> Policy:
    return Policy.from_table(table)


def test_without_rules_reading_is_allowed_and_the_rest_is_asked() -> None:
    assert {tool: policy().judge(Subject(tool=tool, command="x", places=("x",))).verdict for tool in TOOLS} == DEFAULTS
    assert set(DEFAULTS) == set(TOOLS)


def test_a_tool_nobody_knows_is_asked_about() -> None:
    assert policy().judge(Subject(tool="launch")).verdict is ASK


def test_deny_beats_ask_beats_allow_in_any_order() -> None:
    rules = policy(deny=["bash(git push *)"], ask=["bash(git commit *)"], allow=["bash(git *)"])
    assert rules.judge(bash("git status")).verdict is ALLOW
    assert rules.judge(bash("git commit -m x")).verdict is ASK
    assert rules.judge(bash("git push origin")).verdict is DENY
    assert rules.judge(bash("git push")).verdict is DENY
    both = policy(allow=["bash(git push *)"], deny=["bash(git push *)"], ask=["bash(git push *)"])
    assert both.judge(bash("git push")).verdict is DENY


def test_a_pattern_is_a_whole_command_word_by_word() -> None:
    rules = policy(allow=["bash(git status)", "bash(npm test *)"])
    verdicts = {command: rules.judge(bash(command)).verdict for command in (
        "git status", "'git'  \"status\"", "git status -s", "git statusx", "git", "npm test", "npm test a b",
        "npm tests",
        "npm test; rm x", "npm test && rm x", "npm test | sh", "npm test > x", "npm test $(rm x)", "npm test `rm x`",
        "npm test\nrm x", "npm test & rm x", "X=1 npm test", "npm test *", "npm test ~", "npm test <(rm x)",
        "npm  'test' 'a;b'",
    )}  # fmt: skip
    allowed = {command for command, verdict in verdicts.items() if verdict is ALLOW}
    assert allowed == {"git status", "'git'  \"status\"", "npm test", "npm test a b", "npm  'test' 'a;b'"}
    assert set(verdicts.values()) == {ALLOW, ASK}


def test_the_bare_rule_allows_any_command_but_what_a_stricter_rule_may_be_about() -> None:
    assert policy(allow=["bash"]).judge(bash("a; b | c")).verdict is ALLOW
    rules = policy(allow=["bash"], deny=["bash(rm *)"])
    assert rules.judge(bash("ls")).verdict is ALLOW
    assert rules.judge(bash("rm -rf x")).verdict is DENY
    assert rules.judge(bash("/bin/rm -rf x")).verdict is DENY
    for hidden in ("ls; rm -rf x", "env rm -rf x", "r''m -rf $x", "\\rm x", "sh -c 'rm x'", "xargs rm", "eval rm x"):
        assert rules.judge(bash(hidden)).verdict is not ALLOW, hidden
    assert policy(deny=["bash"]).judge(bash("a; b")).verdict is DENY
    assert policy(deny=["bash(*)"]).judge(bash("a; b")).verdict is DENY


@pytest.mark.parametrize(
    "rule", ["bash(*)", "bash(env *)", "bash(sh -c *)", "bash(sudo *)", "bash(/usr/bin/xargs *)", "bash(python3 *)"]
)
def test_a_pattern_that_would_allow_any_command_is_refused_by_name(rule: str) -> None:
    with pytest.raises(RefusedError, match="would allow any command"):
        policy(allow=[rule])
    policy(ask=[rule])


@pytest.mark.parametrize(
    "rule", ["bash(a; b)", "bash(a * b)", "bash($x)", "bash()", "bash(a", "bash (a)", "cat", "", "BASH"]
)
def test_a_rule_without_meaning_is_refused_by_name(rule: str) -> None:
    with pytest.raises(RefusedError, match="rule"):
        policy(deny=[rule])


@pytest.mark.parametrize("table", [{"alow": []}, {"allow": "bash"}, {"allow": [1]}, {"deny": {}}])
def test_a_setting_without_meaning_is_refused_by_name(table: dict[str, object]) -> None:
    with pytest.raises(RefusedError, match=r"\[policy\]"):
        Policy.from_table(table)


def test_path_patterns_cover_what_they_say() -> None:
    rules = policy(allow=["write(docs/**)", "edit(*.md)"], deny=["read(**/.env)", "read(secrets/**)"])
    assert rules.judge(on("write", "docs/a/b.md")).verdict is ALLOW
    assert rules.judge(on("write", "docs2/a")).verdict is ASK
    assert rules.judge(on("edit", "a.md")).verdict is ALLOW
    assert rules.judge(on("edit", "sub/a.md")).verdict is ASK
    assert rules.judge(on("read", ".env")).verdict is DENY
    assert rules.judge(on("read", "a/b/.env")).verdict is DENY
    assert rules.judge(on("read", "a/.envrc")).verdict is ALLOW
    assert rules.judge(on("read", "secrets/x")).verdict is DENY


def test_a_link_widens_no_rule() -> None:
    rules = policy(allow=["write(docs/**)"], deny=["write(src/**)"])
    assert rules.judge(on("write", "other/x", "docs/link/x")).verdict is ASK
    assert rules.judge(on("write", "docs/x", "link/x")).verdict is ASK
    assert rules.judge(on("write", "src/x", "docs/link/x")).verdict is DENY
    assert rules.judge(on("write", "docs/x", "src/link/x")).verdict is DENY
    assert rules.judge(on("write", "docs/x", "docs/link/x")).verdict is ALLOW


def test_other_spellings_of_a_name_do_not_escape_a_deny_rule_nor_gain_an_allow_rule() -> None:
    rules = policy(deny=["read(secrets/café)"], allow=["write(docs/*)"])
    assert rules.judge(on("read", "SECRETS/CAFÉ")).verdict is DENY
    assert rules.judge(on("read", "secrets/cafe\u0301")).verdict is DENY
    assert rules.judge(on("write", "DOCS/x")).verdict is ASK


def test_gits_own_files_are_asked_about_unless_a_rule_names_them() -> None:
    for place in (".git/config", "sub/.git/config", ".GIT/config", ".git"):
        assert policy().judge(on("read", place)).verdict is ASK, place
    assert policy(allow=["read(.git/HEAD)"]).judge(on("read", ".git/HEAD")).verdict is ALLOW


@settings(max_examples=300)
@given(st.text(max_size=30))
def test_no_text_makes_judging_fail_or_is_allowed_by_default(command: str) -> None:
    rules = policy(allow=["bash(git status)"], deny=["bash(rm *)"], ask=["bash(curl *)"])
    verdict = rules.judge(bash(command)).verdict
    assert verdict is not ALLOW or command.split() == ["git", "status"] or "'" in command or '"' in command
