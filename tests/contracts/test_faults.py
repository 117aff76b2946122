"""Faults that users of tools like this one reported in public, by kind, and the tests that each kind has here.

Of those that concern moving, owning and syncing a session; the numbers have gaps, where a kind is of another part.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

KINDS: dict[tuple[int, str], tuple[str, ...]] = {
    (1, "two processes append to one log"): (
        "store/test_locks.py::test_two_processes_do_not_both_advance",
        "node/test_sessions.py::test_one_process_at_a_time_advances_a_session",
        "e2e/test_stored.py::test_two_processes_on_one_session_end_in_one_sentence_for_the_second",
    ),
    (2, "a stale lock names a process that is another one by now"): (
        "store/test_locks.py::test_what_a_lock_file_contains_means_nothing",
        "e2e/test_daemon.py::test_killed_it_leaves_nothing_that_stops_a_command_or_the_next_daemon",
    ),
    (3, "an empty lock stops the start, with exit 0"): (
        "e2e/test_daemon.py::test_a_lock_file_that_says_nonsense_stops_nobody",
    ),
    (4, "a session that is gone at the target is asked for for ever"): (
        "node/test_handoffs_faults.py::test_a_session_on_its_way_is_not_removed_at_the_target_and_arrives",
        "node/test_handoffs_faults.py::test_a_session_that_is_gone_at_the_target_is_not_asked_for_for_ever_and_can_be_"
        "gone_on_with",
        "node/test_handoffs_removed.py::test_the_handoff_of_a_session_that_is_removed_everywhere_ends_and_nobody_goes_on",
    ),
    (5, "an effect is repeated on resume"): (
        "effects/test_killed.py::test_killed_at_every_point_no_act_runs_twice_and_none_is_forgotten",
        "node/test_handoffs.py::test_cut_off_at_any_stage_the_session_goes_on_at_exactly_one_place",
        "net/test_transfer_stages.py::test_struck_at_any_stage_it_goes_on_at_exactly_one_place_without_a_person",
    ),
    (6, "a tool call without its result poisons the resume"): (
        "e2e/test_run_killed.py::test_killed_around_any_save_a_session_goes_on_as_if_uncut_and_its_tool_ran_once",
    ),
    (7, "what closes a turn is written twice"): (
        "e2e/test_workers_killed.py::test_through_some_kills_everything_is_done_once",
        "effects/test_killed.py::test_killed_again_and_again_with_an_honest_person_each_act_runs_exactly_once",
    ),
    (9, "old questions are put again at reconnect"): (
        "node/test_attending.py::test_bytes_come_once_and_in_order_however_often_it_connects_anew",
        "e2e/test_workers.py::test_a_question_goes_to_all_the_first_answer_counts_and_the_others_hear_of_it",
    ),
    (10, "an approval is lost, and the agent hangs"): (
        "e2e/test_workers.py::test_a_question_is_asked_again_by_the_next_daemon_and_answered_there",
    ),
    (14, "a move loses turns"): (
        "node/test_release_file.py::test_the_pending_command_runs_once_where_the_session_was_taken",
        "node/test_handoffs.py::test_cut_off_at_any_stage_the_session_goes_on_at_exactly_one_place",
    ),
    (15, "a changed tree ends the move without a word"): (
        "node/test_handoffs_faults.py::test_one_unstaged_change_arrives_unstaged_and_what_the_person_changed_meanwhile_"
        "is_kept",
        "workspace/test_materialise.py::test_changes_of_the_person_are_never_written_over",
    ),
    (16, "each hop leaves a commit"): (
        "workspace/test_materialise.py::test_ten_times_there_and_back_leave_refs_stashes_log_and_status_as_they_were",
    ),
    (17, "a session is bound to an absolute path"): (
        "workspace/test_identity.py::test_what_the_person_mapped_wins",
        "e2e/test_run_moved.py::test_carried_to_another_folder",
    ),
    (18, "a state that was wiped counts from one again"): (
        "node/test_syncing_engine.py::test_a_restored_store_is_told_what_it_had_and_waits_for_a_takeover",
        "sim/test_scenarios.py::test_a_restored_source_releases_twice_and_one_target_owns",
    ),
    (20, "a link that drops at the last byte costs everything"): (
        "node/test_syncing_engine.py::test_a_large_object_is_gone_on_with_after_a_cut_or_a_kill_in_the_middle_or_at_its_"
        "last_part",
        "net/test_links.py::test_a_link_cut_at_any_byte_also_the_last_gives_whole_messages_only_and_the_next_one_gives_"
        "all",
    ),
    (21, "a name that is received leaves its folder"): (
        "workspace/test_materialise_hostile.py::test_what_is_no_path_is_refused",
        "effects/test_confine.py::test_no_path_made_of_links_and_dots_reads_the_secret",
    ),
    (23, "with the other device gone a command hangs"): (
        "node/test_handoffs.py::test_a_release_whose_target_is_gone_ends_uncertain_and_says_the_way_which_works",
        "node/test_handoffs.py::test_a_running_effect_is_waited_for_and_past_the_deadline_it_goes_on_here",
        "net/test_transfer_stages.py::test_where_a_device_is_gone_for_good_the_way_on_is_offered_and_works",
    ),
    (26, "an old holder that slept still acts"): (
        "node/test_lid.py::test_woken_without_a_network_nothing_runs_and_it_is_said_why",
        "node/test_lid.py::test_woken_with_a_network_after_three_seconds_nothing_runs_and_both_heads_are_shown_on_both",
    ),
    (27, "a huge or negative length"): (
        "protocol/test_frames.py::test_a_huge_or_negative_length_is_refused_before_its_value_is_there",
        "control/test_server.py::test_a_huge_or_negative_or_empty_length_ends_the_connection_and_no_other",
        "transports/test_hostile.py::test_garbage_before_the_handshake_is_told_nothing",
    ),
    (32, "peers keep what they believed of one that lost its data, and exchange without end"): (
        "node/test_syncing_engine.py::test_a_restored_store_is_told_what_it_had_and_waits_for_a_takeover",
        "sim/sync/test_sync_worlds.py::test_nothing_breaks_in_the_first_worlds_and_all_settle",
        "node/test_syncing_hostile.py::test_endless_asking_ends_the_link",
    ),
    (33, "one bundle is taken at two targets"): (
        "node/test_release_file.py::test_it_is_taken_once_and_nowhere_else",
        "protocol/test_handoff.py::test_a_release_to_another_device_or_of_another_is_not_taken",
    ),
    (35, "a lost reply to the commit makes both give up"): (
        "protocol/test_handoff.py::test_nothing_leads_back_from_the_release_at_either_side",
        "node/test_handoffs.py::test_cut_off_at_any_stage_the_session_goes_on_at_exactly_one_place",
        "node/test_handoffs_again.py::test_a_session_that_was_taken_and_not_begun_is_begun_by_the_next_daemon_alone",
    ),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0]}: {kind[1]}")
def test_each_kind_of_fault_has_its_tests(kind: tuple[int, str]) -> None:
    for place in KINDS[kind]:
        file, name = place.split("::")
        assert re.search(rf"^(async )?def {name}\(", (TESTS / file).read_text(), re.MULTILINE), place
