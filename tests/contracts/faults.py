"""Faults that users of tools like this one reported in public, by kind, and the tests that each kind has here.

The numbers have gaps. A kind of which there is nothing here to be broken yet says why (`NOT_YET`).
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of fault: its number, and what goes wrong."""

    number: str
    what: str


Kinds = dict[Kind, tuple[str, ...]]

MOVING: Kinds = {
    Kind("1", "two processes append to one log"): (
        "store/test_locks.py::test_two_processes_do_not_both_advance",
        "node/test_sessions.py::test_one_process_at_a_time_advances_a_session",
        "e2e/test_stored.py::test_two_processes_on_one_session_end_in_one_sentence_for_the_second",
    ),
    Kind("2", "a stale lock names a process that is another one by now"): (
        "store/test_locks.py::test_what_a_lock_file_contains_means_nothing",
        "e2e/test_daemon.py::test_killed_it_leaves_nothing_that_stops_a_command_or_the_next_daemon",
    ),
    Kind("3", "an empty lock stops the start, with exit 0"): (
        "e2e/test_daemon.py::test_a_lock_file_that_says_nonsense_stops_nobody",
    ),
    Kind("4", "a session that is gone at the target is asked for for ever"): (
        "node/handoff/test_faults.py::test_a_session_on_its_way_is_not_removed_at_the_target_and_arrives",
        "node/handoff/test_faults.py::test_a_session_that_is_gone_at_the_target_is_not_asked_for_for_ever_and_can_be_"
        "gone_on_with",
        "node/handoff/test_removed.py::test_the_handoff_of_a_session_that_is_removed_everywhere_ends_and_nobody_goes_on",
    ),
    Kind("5", "an effect is repeated on resume"): (
        "effects/test_killed.py::test_killed_at_every_point_no_act_runs_twice_and_none_is_forgotten",
        "node/handoff/test_handoffs.py::test_cut_off_at_any_stage_the_session_goes_on_at_exactly_one_place",
        "net/test_transfer_stages.py::test_struck_at_any_stage_it_goes_on_at_exactly_one_place_without_a_person",
    ),
    Kind("6", "a tool call without its result poisons the resume"): (
        "e2e/test_run_killed.py::test_killed_around_any_save_a_session_goes_on_as_if_uncut_and_its_tool_ran_once",
    ),
    Kind("7", "what closes a turn is written twice"): (
        "e2e/test_workers_killed.py::test_through_some_kills_everything_is_done_once",
        "effects/test_killed.py::test_killed_again_and_again_with_an_honest_person_each_act_runs_exactly_once",
    ),
    Kind("9", "old questions are put again at reconnect"): (
        "node/test_attending.py::test_bytes_come_once_and_in_order_however_often_it_connects_anew",
        "e2e/test_workers.py::test_a_question_goes_to_all_the_first_answer_counts_and_the_others_hear_of_it",
    ),
    Kind("10", "an approval is lost, and the agent hangs"): (
        "e2e/test_workers.py::test_a_question_is_asked_again_by_the_next_daemon_and_answered_there",
    ),
    Kind("12", "the secret of a pairing lets somebody in later"): (
        "node/test_pairing.py::test_a_right_code_is_used_up_too",
        "node/test_pairing.py::test_an_expired_code_lets_nobody_in",
    ),
    Kind("14", "a move loses turns"): (
        "node/test_release_file.py::test_the_pending_command_runs_once_where_the_session_was_taken",
        "node/handoff/test_handoffs.py::test_cut_off_at_any_stage_the_session_goes_on_at_exactly_one_place",
    ),
    Kind("15", "a changed tree ends the move without a word"): (
        "node/handoff/test_faults.py::test_one_unstaged_change_arrives_unstaged_and_what_the_person_changed_meanwhile_"
        "is_kept",
        "workspace/test_materialise.py::test_changes_of_the_person_are_never_written_over",
    ),
    Kind("16", "each hop leaves a commit"): (
        "workspace/test_materialise.py::test_ten_times_there_and_back_leave_refs_stashes_log_and_status_as_they_were",
    ),
    Kind("17", "a session is bound to an absolute path"): (
        "workspace/test_identity.py::test_what_the_person_mapped_wins",
        "e2e/test_run_moved.py::test_carried_to_another_folder",
    ),
    Kind("18", "a state that was wiped counts from one again"): (
        "node/sync/test_engine.py::test_a_restored_store_is_told_what_it_had_and_waits_for_a_takeover",
        "sim/test_scenarios.py::test_a_restored_source_releases_twice_and_one_target_owns",
    ),
    Kind("20", "a link that drops at the last byte costs everything"): (
        "node/sync/test_engine.py::test_a_large_object_is_gone_on_with_after_a_cut_or_a_kill_in_the_middle_or_at_its_"
        "last_part",
        "net/test_links.py::test_a_link_cut_at_any_byte_also_the_last_gives_whole_messages_only_and_the_next_one_gives_"
        "all",
    ),
    Kind("21", "a name that is received leaves its folder"): (
        "workspace/test_materialise_hostile.py::test_what_is_no_path_is_refused",
        "effects/test_confine.py::test_no_path_made_of_links_and_dots_reads_the_secret",
    ),
    Kind("23", "with the other device gone a command hangs"): (
        "node/handoff/test_handoffs.py::test_a_release_whose_target_is_gone_ends_uncertain_and_says_the_way_which_works",
        "node/handoff/test_handoffs.py::test_a_running_effect_is_waited_for_and_past_the_deadline_it_goes_on_here",
        "net/test_transfer_stages.py::test_where_a_device_is_gone_for_good_the_way_on_is_offered_and_works",
        "node/handoff/test_put_out.py::test_before_the_release_it_is_given_up_at_once_and_the_session_goes_on_at_the_"
        "source",
    ),
    Kind("24", "a pause in deep recursion writes past the room that its frames have"): (
        "runtime/instrument/test_shapes.py::test_a_frame_without_room_traps_before_it_is_written",
        "runtime/test_programs.py::test_a_call_stack_too_deep_for_a_pause_fails_cleanly_and_the_snapshot_before_runs_on",
    ),
    Kind("25", "a web page reaches the daemon under a name of its own for this machine"): (
        "transports/test_hostile.py::test_garbage_before_the_handshake_is_told_nothing",
    ),
    Kind("26", "an old holder that slept still acts"): (
        "node/test_lid.py::test_woken_without_a_network_nothing_runs_and_it_is_said_why",
        "node/test_lid.py::test_woken_with_a_network_after_three_seconds_nothing_runs_and_both_heads_are_shown_on_both",
        "net/test_transfer_overtaken.py::test_a_session_that_a_third_device_takes_over_at_any_stage_goes_on_where_the_"
        "records_say_and_each_work_is_a_head",
    ),
    Kind("27", "a huge or negative length"): (
        "protocol/test_frames.py::test_a_huge_or_negative_length_is_refused_before_its_value_is_there",
        "control/test_server.py::test_a_huge_or_negative_or_empty_length_ends_the_connection_and_no_other",
        "transports/test_hostile.py::test_garbage_before_the_handshake_is_told_nothing",
    ),
    Kind("28", "the name of a device or a file is obeyed where it is shown"): (
        "cli/test_hostile_text.py::test_texts_are_shown_as_text",
        "cli/test_devices.py::test_a_hostile_name_of_a_device_is_shown_as_text",
    ),
    Kind("32", "peers keep what they believed of one that lost its data, and exchange without end"): (
        "node/sync/test_engine.py::test_a_restored_store_is_told_what_it_had_and_waits_for_a_takeover",
        "sim/sync/test_sync_worlds.py::test_nothing_breaks_in_the_first_worlds_and_all_settle",
        "node/sync/test_hostile.py::test_endless_asking_ends_the_link",
    ),
    Kind("33", "one bundle is taken at two targets"): (
        "node/test_release_file.py::test_it_is_taken_once_and_nowhere_else",
        "protocol/test_handoff.py::test_a_release_to_another_device_or_of_another_is_not_taken",
    ),
    Kind("35", "a lost reply to the commit makes both give up"): (
        "protocol/test_handoff.py::test_nothing_leads_back_from_the_release_at_either_side",
        "node/handoff/test_handoffs.py::test_cut_off_at_any_stage_the_session_goes_on_at_exactly_one_place",
        "node/handoff/test_again.py::test_a_session_that_was_taken_and_not_begun_is_begun_by_the_next_daemon_alone",
    ),
}
"""Of moving, owning, syncing and controlling sessions."""

NATIVE: Kinds = {
    Kind("F1", "the folder of a session moved, and its id is not found from the new one"): (
        "cli/test_native_convert.py::test_claude_gets_the_file_where_the_id_would_not_be_found",
    ),
    Kind("F2", "the folder changed in the midst of a session"): (
        "native/test_fixtures.py::test_claude_edges_say_what_the_index_says",
    ),
    Kind("F3", "two folders have one name where sessions are kept"): (
        "native/test_homes.py::test_colliding_folders_are_told_apart_by_the_directory_in_the_records",
    ),
    Kind("F4", "a long folder is kept under a shortened name"): (
        "native/test_homes.py::test_a_slug_is_the_clients_own",
    ),
    Kind("F6", "a call without its result"): (
        "native/test_fixtures.py::test_every_call_has_exactly_one_result_after_it_and_provenance_points_into_the_file",
    ),
    Kind("F7", "a result without its call"): ("native/test_fixtures.py::test_codex_edges_say_what_the_index_says",),
    Kind("F8", "thinking that another account or provider had signed"): (
        "native/convert/test_conversion.py::test_nothing_that_another_account_has_sealed_comes_along",
    ),
    Kind("F9", "content that another account or provider had encrypted, also within a compaction"): (
        "native/convert/test_conversion.py::test_nothing_that_another_account_has_sealed_comes_along",
    ),
    Kind("F10", "a line that is cut or no JSON blanks the history"): (
        "native/test_damage.py::test_every_kind_of_bad_line_has_its_reason_and_number",
        "native/test_fixtures.py::test_claude_edges_say_what_the_index_says",
    ),
    Kind("F11", "bytes that are no text spoil the session"): (
        "native/test_fixtures.py::test_claude_edges_say_what_the_index_says",
    ),
    Kind("F12", "a parent that is not there, after a compaction"): (
        "native/test_fixtures.py::test_claude_edges_say_what_the_index_says",
    ),
    Kind("F13", "the same records stand there again and again"): (
        "native/test_tree.py::test_an_id_that_stands_twice_counts_where_it_stood_last",
    ),
    Kind("F15", "a list leaves out sessions that are sound"): (
        "native/test_homes.py::test_a_first_prompt_of_61_kilobytes_or_a_megabyte_is_listed_and_a_foreign_name_is_not",
    ),
    Kind("F16", "a session of another provider, or of none that is named, is hidden"): (
        "native/test_homes.py::test_a_session_of_whatever_provider_or_of_none_is_listed_and_read",
    ),
    Kind("F17", "a session is not found, for its name, its numbers or a stale index"): (
        "native/test_homes.py::test_a_folder_of_pi_and_a_name_of_codex_are_the_clients_own",
        "native/test_fixtures.py::test_codex_edges_say_what_the_index_says",
    ),
    Kind("F19", "the folder that a session names is gone"): (
        "cli/test_native_convert.py::test_what_a_client_would_not_open_is_refused_with_the_way_out",
    ),
    Kind("F20", "what lies beside a session is left behind, or credentials go along"): (
        "native/test_archive.py::test_every_captured_session_comes_back_byte_for_byte_with_its_side_folder",
        "native/convert/test_secrets.py::test_a_credential_is_found_and_taken_out",
    ),
    Kind("F22", "a session that grew is not brought up to date"): (
        "native/convert/test_conversion.py::test_a_grown_session_updates_its_conversion_and_makes_no_second_one",
    ),
    Kind("F24", "arguments and results of tools are thrown away"): (
        "native/convert/test_conversion.py::test_arguments_and_results_of_tools_come_along_whole",
        "native/convert/test_any_transcript.py::test_what_is_read_back_is_what_was_meant_and_nothing_is_lost_silently",
    ),
    Kind("F25", "what came back is taken for another session"): (
        "native/convert/test_conversion.py::test_a_session_that_comes_back_has_its_first_legs_byte_for_byte",
        "native/convert/test_conversion.py::test_in_a_long_chain_each_client_finds_its_own_records_again",
    ),
    Kind("F26", "a session is written to while it is read, or goes two ways"): (
        "native/test_damage.py::test_a_file_that_grows_is_read_as_it_was",
        "native/convert/test_conversion.py::test_what_is_written_to_while_it_is_brought_up_to_date_is_not_replaced",
    ),
    Kind("F27", "an id of which there is nothing more is asked for again and again"): (
        "cli/test_native.py::test_wrong_names_are_refused_in_one_sentence",
    ),
    Kind("F29", "a file that was written is not what its client reads"): (
        "native/convert/test_conversion.py::test_what_does_not_read_back_is_not_published",
        "native/convert/test_conversion.py::test_a_fixture_converts_with_complete_pairing",
    ),
    Kind("F30", "a session that is there is written over"): (
        "native/convert/test_conversion.py::test_a_conversion_that_its_client_went_on_with_is_not_touched",
        "native/test_archive.py::test_restoring_over_an_existing_file_is_refused_with_nothing_written",
    ),
}
"""Of reading, converting and resuming the sessions of other clients."""

KINDS: Kinds = {**MOVING, **NATIVE}

NOT_YET = {
    Kind("29", "a page of the local network may use nothing that needs a secure context"): (
        "the daemon serves no page: what it listens on says nothing to who speaks HTTP"
    ),
}

ALL = (
    *("1", "2", "3", "4", "5", "6", "7", "9", "10", "12", "14", "15", "16", "17", "18", "20", "21", "23", "24", "25"),
    *("26", "27", "28", "29", "32", "33", "35"),
    *("F1", "F2", "F3", "F4", "F6", "F7", "F8", "F9", "F10", "F11", "F12", "F13", "F15", "F16", "F17", "F19", "F20"),
    *("F22", "F24", "F25", "F26", "F27", "F29", "F30"),
)
"""Every number there is."""
