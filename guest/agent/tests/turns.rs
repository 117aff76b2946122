//! Sessions as scripts: replies in, effects and transcript out.

mod world;

use serde_json::{json, Value};
use world::Script;

fn script(model: &[Value]) -> Script {
    Script { model: model.iter().map(Value::to_string).collect(), ..Script::default() }
}

fn says(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})
}

fn calls(calls: &[(&str, Value)]) -> Value {
    let blocks: Vec<Value> = calls
        .iter()
        .map(|(name, input)| json!({"type": "tool_use", "id": "toolu_x", "name": name, "input": input}))
        .collect();
    json!({"content": blocks, "stop_reason": "tool_use"})
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

fn once(prompt: &str) -> Value {
    json!({"prompt": prompt, "once": "true"})
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn a_session_asks_for_machine_and_notes_before_the_model() {
    let mut world = script(&[says("Hello.")]);
    world.machine.push_back(json!({"system": "Linux x86_64", "tools": ["git"]}).to_string());
    world.notes = Some(json!({"output": "Use tabs."}).to_string());
    let world = world.run(once("Hi"));
    assert_eq!(world.order(), ["machine", "tool", "model"]);
    let body = world.requests("model")[0];
    assert!(text(&body["system"][1]["text"]).contains("Use tabs."));
    assert_eq!(body["system"][1]["cache_control"], json!({"type": "ephemeral"}));
    assert!(world.last_texts(0)[0].contains("system: Linux x86_64\ntools: git"));
    assert_eq!(world.last_texts(0)[1], "Hi");
    let kinds: Vec<String> = world.events().iter().map(|event| text(&event["event"]).to_owned()).collect();
    assert_eq!(kinds, ["begin", "machine", "notes", "user", "turn", "text", "stop", "finished"]);
    assert_eq!(world.finished(), "end_turn");
}

#[test]
fn without_a_prompt_the_person_is_asked_first() {
    let mut world = script(&[says("Done.")]);
    world.input.extend([json!({"text": " "}).to_string(), json!({"text": "Fix it"}).to_string()]);
    let world = world.run(json!({"once": "true"}));
    assert_eq!(world.order(), ["input", "input", "machine", "tool", "model"]);
    assert_eq!(world.last_texts(0), ["Fix it"]);
}

#[test]
fn bad_arguments_end_with_a_sentence() {
    let mut world = Script::default();
    let sentence = agent::run(&mut world, br#"{"turn_limit":"many"}"#).unwrap_err();
    assert!(sentence.contains("turn_limit") && world.asked.is_empty() && world.transcript.is_empty());
}

#[test]
fn several_calls_are_asked_in_order_and_answered_in_one_message() {
    let mut world = script(&[calls(&[bash("a"), ("read", json!({"path": "b"})), bash("c")]), says("Done.")]);
    world.tool.extend([
        json!({"output": "A"}).to_string(),
        json!({"output": "no such file", "is_error": true}).to_string(),
        json!({"output": ""}).to_string(),
    ]);
    let world = world.run(once("go"));
    let asked: Vec<&str> = world.requests("tool").iter().map(|request| text(&request["id"])).collect();
    assert_eq!(asked, ["call_1", "call_2", "call_3"]);
    assert_eq!(
        world.messages(1)[2]["content"],
        json!([
            {"type": "tool_result", "tool_use_id": "call_1", "content": "A"},
            {"type": "tool_result", "tool_use_id": "call_2", "content": "no such file", "is_error": true},
            {"type": "tool_result", "tool_use_id": "call_3", "content": "(no output)"},
        ])
    );
}

#[test]
fn malformed_calls_are_answered_without_asking_the_host() {
    let reply = calls(&[
        ("rm", json!({})),
        ("bash", json!({"command": 1})),
        ("bash", json!("ls")),
        ("no such name!", json!({})),
        ("glob", json!({"pattern": "*", "deep": true})),
        bash("ls"),
    ]);
    let world = script(&[reply, says("Done.")]).run(once("go"));
    assert_eq!(world.requests("tool").len(), 1);
    let results = world.found("result");
    let ran: Vec<bool> = results.iter().map(|result| result["ran"].as_bool().unwrap()).collect();
    assert_eq!(ran, [false, false, false, false, false, true]);
    assert!(text(&results[0]["output"]).contains("there are bash, read"));
    assert!(text(&results[1]["output"]).contains("command of bash must be text"));
    assert!(text(&results[2]["output"]).contains("JSON object"));
    assert!(results.iter().take(5).all(|result| result["is_error"] == true));
    assert_eq!(world.messages(1)[1]["content"][2]["input"], json!({}));
    assert_eq!(world.found("call")[2]["input"], Value::Null);
}

#[test]
fn steering_follows_the_results_and_steers_on_after_the_end_of_a_turn() {
    let mut world = script(&[calls(&[bash("a"), bash("b")]), says("Done."), says("Done again.")]);
    world.tool.push_back(json!({"output": "A", "steering": ["use tabs", " "]}).to_string());
    world.model[1] =
        json!({"content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn", "steering": ["more"]})
            .to_string();
    let world = world.run(once("go"));
    assert_eq!(world.requests("tool").len(), 2);
    assert_eq!(world.last_texts(1), ["The person says while you work:\nuse tabs"]);
    assert_eq!(world.last_texts(2), ["more"]);
    assert_eq!(world.finished(), "end_turn");
    assert_eq!(world.found("user")[1]["from"], "steering");
}

#[test]
fn an_interrupt_leaves_the_rest_of_the_calls_alone_and_asks() {
    let mut world = script(&[calls(&[bash("a"), bash("b")]), says("Done.")]);
    world.tool.push_back(json!({"output": "A", "interrupt": true}).to_string());
    world.input.push_back(json!({"text": "do this"}).to_string());
    let world = world.run(once("go"));
    assert_eq!(world.requests("tool").len(), 1);
    assert_eq!(world.requests("input")[0]["why"], "interrupted");
    assert_eq!(world.last_texts(1), ["do this"]);
    assert!(text(&world.found("result")[1]["output"]).contains("interrupted"));
}

#[test]
fn an_interrupt_with_steering_needs_no_question() {
    let mut world = script(&[calls(&[bash("a"), bash("b")]), says("Done.")]);
    world.tool.push_back(json!({"output": "A", "interrupt": true, "steering": ["rather this"]}).to_string());
    let world = world.run(once("go"));
    assert!(world.requests("input").is_empty() && world.requests("tool").len() == 1);
    assert!(world.last_texts(1)[0].ends_with("rather this"));
}

#[test]
fn after_a_move_only_what_differs_is_told() {
    let mut world = script(&[calls(&[bash("a")]), calls(&[bash("b")]), says("Done.")]);
    world.machine.extend([
        json!({"system": "Linux x86_64", "date": "2026-11-29"}).to_string(),
        json!({"date": "2026-11-29", "system": "Linux x86_64"}).to_string(),
        json!({"system": "Linux aarch64", "date": "2026-11-29"}).to_string(),
    ]);
    world
        .tool
        .extend([json!({"output": "A", "moved": true}).to_string(), json!({"output": "B", "moved": true}).to_string()]);
    let world = world.run(once("go"));
    assert_eq!(world.order(), ["machine", "tool", "model", "tool", "machine", "model", "tool", "machine", "model"]);
    assert!(world.last_texts(1).is_empty(), "the same machine is not spoken of");
    assert_eq!(world.last_texts(2).len(), 1);
    assert!(world.last_texts(2)[0].ends_with("system: Linux aarch64\n"));
    let changed: Vec<Value> = world.found("machine").into_iter().map(|event| event["changed"].clone()).collect();
    assert_eq!(changed, [json!(["date", "system"]), json!(["system"])]);
    assert!(!String::from_utf8_lossy(&world.transcript).contains("aarch64"), "the transcript holds no device");
}

#[test]
fn a_call_cut_at_the_token_limit_is_not_run_and_those_before_it_are() {
    // What was received of the cut call looks whole: half a file would be written.
    let mut reply = calls(&[bash("a"), ("write", json!({"path": "x", "content": "half a fi"}))]);
    reply["stop_reason"] = json!("max_tokens");
    let world = script(&[reply, says("Done.")]).run(once("go"));
    assert_eq!(world.requests("tool").len(), 1);
    assert_eq!(world.messages(1)[1]["content"][1]["input"], json!({}));
    assert_eq!(world.messages(1)[2]["content"][1]["is_error"], true);
    assert!(world.last_texts(1)[0].contains("at most 16000 tokens"));
}

#[test]
fn a_whole_call_before_cut_text_is_run() {
    let reply = json!({"content": [{"type": "tool_use", "name": "bash", "input": {"command": "a"}}, {"type": "text", "text": "and"}],
        "stop_reason": "max_tokens"});
    let world = script(&[reply, says("Done.")]).run(once("go"));
    assert_eq!(world.requests("tool").len(), 1);
}

#[test]
fn after_three_cut_replies_the_person_is_asked() {
    let mut cut = says("and");
    cut["stop_reason"] = json!("max_tokens");
    let mut world = script(&[cut.clone(), cut.clone(), cut, says("Done.")]);
    world.input.push_back(json!({"text": ""}).to_string());
    let world = world.run(once("go"));
    assert_eq!(world.requests("input")[0]["why"], "max_tokens");
    assert_eq!(world.requests("model").len(), 4);
    assert_eq!(world.finished(), "end_turn");
}

#[test]
fn a_refused_message_is_taken_out_and_the_person_asked() {
    let refusal = json!({"content": [{"type": "text", "text": "I"}, {"type": "tool_use", "name": "bash", "input": {"command": "x"}}],
        "stop_reason": "refusal"});
    let mut world = script(&[refusal, says("Done.")]);
    world.machine.extend([json!({"system": "Linux"}).to_string(), json!({"system": "Linux"}).to_string()]);
    world.input.extend([json!({"text": ""}).to_string(), json!({"text": "nicer"}).to_string()]);
    let world = world.run(once("bad"));
    assert!(world.requests("tool").is_empty());
    assert_eq!(world.messages(1).len(), 1);
    assert_eq!(world.last_texts(1)[0], "nicer");
    assert!(world.last_texts(1)[1].contains("system: Linux"), "facts that were taken out are told again");
    assert_eq!(world.found("text").len(), 2, "what was said stays in the transcript");
}

#[test]
fn a_refusal_after_tool_results_leaves_them() {
    let refusal = json!({"content": [], "stop_reason": "refusal"});
    let mut world = script(&[calls(&[bash("a")]), refusal, says("Done.")]);
    world.input.push_back(json!({"text": "otherwise"}).to_string());
    let world = world.run(once("go"));
    assert_eq!(world.messages(2).len(), 3);
    assert_eq!(world.last_texts(2), ["otherwise"]);
}

#[test]
fn an_unknown_end_runs_nothing_and_asks() {
    for reason in [json!("new_reason"), Value::Null, json!(5)] {
        let mut reply = calls(&[bash("a")]);
        reply["stop_reason"] = reason;
        let mut world = script(&[reply, says("Done.")]);
        world.input.push_back(json!({"text": ""}).to_string());
        let world = world.run(once("go"));
        assert!(world.requests("tool").is_empty());
        assert_eq!(world.requests("input")[0]["why"], "stop_reason");
        assert_eq!(world.finished(), "end_turn");
    }
}

#[test]
fn a_paused_turn_goes_on() {
    let mut reply = says("so far");
    reply["stop_reason"] = json!("pause_turn");
    let world = script(&[reply, says("Done.")]).run(once("go"));
    assert_eq!(world.last_texts(1), ["Go on."]);
}

#[test]
fn an_error_is_put_to_the_person_and_never_tried_again_alone() {
    let error = json!({"error": {"type": "overloaded_error", "message": "Overloaded"}, "status": 529});
    let mut world = script(&[error.clone(), error, says("Done.")]);
    world.input.extend([json!({"text": ""}).to_string(), json!({"text": "hurry"}).to_string()]);
    let world = world.run(once("go"));
    assert_eq!(world.order(), ["machine", "tool", "model", "input", "model", "input", "model"]);
    assert_eq!(
        text(&world.requests("input")[0]["prompt"]),
        "The model could not be asked: Overloaded (status 529). Send an empty line to try again."
    );
    assert_eq!(world.last_texts(2), ["go", "hurry"]);
    assert_eq!(
        world.found("error")[0],
        json!({"event": "error", "status": 529, "type": "overloaded_error", "text": "Overloaded"})
    );
}

#[test]
fn unreadable_replies_are_never_fatal() {
    let nonsense = [
        "",
        "nonsense",
        "[]",
        "{\"content\":5}",
        "{\"content\":null}",
        "{}",
        "{\"content\":[],\"content\":[]}",
        "\u{0}",
    ];
    let mut world = Script::default();
    world.model.extend(nonsense.iter().map(|text| text.to_string()));
    world.model.push_back(calls(&[bash("a"), bash("b"), bash("c")]).to_string());
    world.model.push_back(says("Done.").to_string());
    world.tool.extend([
        "nonsense".to_owned(),
        "{\"output\":5}".to_owned(),
        format!("{{\"output\":{}1{}}}", "[".repeat(999), "]".repeat(999)),
    ]);
    world.input.extend(nonsense.iter().map(|_| json!({"text": ""}).to_string()));
    world.machine.push_back("nonsense".to_owned());
    let world = world.run(once("go"));
    assert_eq!(world.found("error").len(), nonsense.len());
    assert!(world.found("result").iter().all(|result| text(&result["output"]).contains("could not be read")));
    assert_eq!(world.finished(), "end_turn");
}

#[test]
fn a_person_who_is_never_heard_ends_the_session() {
    let mut world = Script::default();
    world.input.extend(std::iter::repeat("nonsense".to_owned()).take(50));
    let world = world.run(json!({"prompt": "go"}));
    assert_eq!(world.finished(), "no_input");
    assert_eq!(world.requests("input").len(), 8);
    let mut world = script(&[says("Done.")]);
    world.input.extend(std::iter::repeat(json!({"text": " "}).to_string()).take(50));
    let world = world.run(json!({"prompt": "go"}));
    assert_eq!(world.finished(), "no_input");
}

#[test]
fn the_turn_limit_asks_the_person_and_their_word_begins_anew() {
    let mut world = script(&vec![calls(&[bash("a")]); 7]);
    world.input.extend([json!({"text": ""}).to_string(), json!({"text": "on"}).to_string()]);
    let world = world.run(json!({"prompt": "go", "turn_limit": "2"}));
    assert_eq!(world.requests("model").len(), 6);
    assert!(world.requests("input").iter().all(|request| request["why"] == "turn_limit"));
    assert_eq!(world.finished(), "ended");
}

#[test]
fn the_call_limit_counts_the_whole_session() {
    let mut world = script(&vec![says("Done."); 9]);
    world.input.extend((0..8).map(|n| json!({"text": if n % 2 == 0 { "more" } else { "on" }}).to_string()));
    let world = world.run(json!({"prompt": "go", "call_limit": "3"}));
    let whys: Vec<&str> = world.requests("input").iter().map(|request| text(&request["why"])).collect();
    assert_eq!(whys, ["next", "next", "next", "call_limit", "next", "next", "next", "call_limit", "next"]);
}

#[test]
fn interactive_sessions_wait_for_the_person_until_they_end_it() {
    let mut world = script(&[says("One."), says("Two.")]);
    world.input.push_back(json!({"text": "next thing"}).to_string());
    let world = world.run(json!({"prompt": "go"}));
    assert_eq!(world.messages(1).len(), 3);
    assert_eq!(world.finished(), "ended");
}

#[test]
fn a_long_output_is_cut_for_the_model_and_whole_in_the_transcript() {
    let mut world = script(&[calls(&[bash("a"), bash("b"), bash("c")]), says("Done.")]);
    let long = "line\n".repeat(100_000);
    world.tool.extend(std::iter::repeat(json!({ "output": long }).to_string()).take(3));
    let world = world.run(once("go"));
    let sizes: Vec<usize> =
        world.messages(1)[2]["content"].as_array().unwrap().iter().map(|block| text(&block["content"]).len()).collect();
    assert!(sizes[0] > 90_000 && sizes[0] <= 100_100 && sizes[2] < 2_200, "{:?}", sizes);
    assert!(world.found("result").iter().all(|result| text(&result["output"]) == long));
}

#[test]
fn thoughts_stay_before_what_they_led_to_and_never_end_a_message() {
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let sealed = json!({"type": "redacted_thinking", "data": "d"});
    let first = json!({"content": [thought, sealed, {"type": "tool_use", "name": "bash", "input": {"command": "a"}}, thought], "stop_reason": "tool_use"});
    let second = json!({"content": [thought], "stop_reason": "max_tokens"});
    let world = script(&[first, second, says("Done.")]).run(once("go"));
    let kinds: Vec<Value> =
        world.messages(1)[1]["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect();
    assert_eq!(kinds, ["thinking", "redacted_thinking", "tool_use"]);
    assert_eq!(world.messages(2).len(), 3);
    assert_eq!(world.found("thinking").len(), 4);
}

#[test]
fn unknown_blocks_are_kept_in_the_transcript_only() {
    let reply = json!({"content": [{"type": "hologram", "x": [1]}, {"type": "text", "text": "Done."}, 5], "stop_reason": "end_turn"});
    let mut world = script(&[reply, says("Done.")]);
    world.input.push_back(json!({"text": "on"}).to_string());
    let world = world.run(json!({"prompt": "go"}));
    assert_eq!(world.found("other")[0]["block"], json!({"type": "hologram", "x": [1]}));
    assert_eq!(world.messages(1)[1]["content"], json!([{"type": "text", "text": "Done."}]));
}

#[test]
fn blank_texts_and_empty_replies_leave_no_message() {
    let blank =
        json!({"content": [{"type": "text", "text": " \n"}, {"type": "text", "text": ""}], "stop_reason": "end_turn"});
    let mut world = script(&[blank, says("Done.")]);
    world.input.push_back(json!({"text": "well?"}).to_string());
    let world = world.run(json!({"prompt": "go"}));
    assert_eq!(world.messages(1).len(), 1);
    assert_eq!(world.last_texts(1), ["go", "well?"]);
}

#[test]
fn usage_is_kept_as_far_as_it_is_numbers() {
    let mut reply = says("Done.");
    reply["usage"] =
        json!({"output_tokens": 5, "event": 7, "input_tokens": -1, "tier": "standard", "a": {"b": 1}, "c": null});
    let world = script(&[reply]).run(once("go"));
    assert_eq!(world.found("usage"), [json!({"event": "usage", "output_tokens": 5})]);
}

#[test]
fn odd_characters_come_through_and_half_surrogates_do_not() {
    let mut world = Script::default();
    world.model.push_back(
        r#"{"content": [{"type":"text","text":"a\ud800b \u00e9 \ud83d\ude00\n"}], "stop_reason": "end_turn"}"#.into(),
    );
    world.model.push_back(says("Done.").to_string());
    world.input.push_back(json!({"text": "on \u{1F600}"}).to_string());
    let world = world.run(json!({"prompt": "gö\u{0}"}));
    assert_eq!(world.messages(1)[1]["content"][0]["text"], "a\u{fffd}b é 😀\n");
    assert_eq!(world.last_texts(1), ["on 😀"]);
}
