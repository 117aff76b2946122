//! Long conversations: when a summary is asked for, and what the conversation is afterwards.

mod world;

use serde_json::{json, Value};
use world::Script;

fn working(output_bytes: usize, turns: usize) -> Script {
    let mut world = Script::default();
    for turn in 0..turns {
        let block = json!({"type": "tool_use", "name": "bash", "input": {"command": format!("step {}", turn)}});
        world.model.push_back(json!({"content": [block], "stop_reason": "tool_use"}).to_string());
        world.tool.push_back(json!({"output": format!("{}:{}", turn, "x".repeat(output_bytes))}).to_string());
    }
    world
}

fn summary(text: &str) -> String {
    json!({"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": {"input_tokens": 10}})
        .to_string()
}

fn too_long() -> String {
    json!({"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}, "status": 400}).to_string()
}

fn args() -> Value {
    json!({"prompt": "the task", "once": "true", "context_tokens": "20000", "max_tokens": "1000"})
}

fn purposes(world: &Script) -> Vec<String> {
    world.requests("model").iter().map(|request| request["purpose"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_full_window_is_summed_up_and_the_newest_calls_stay_with_their_results() {
    let mut world = working(3000, 22);
    world.machine.push_back(json!({"system": "Linux"}).to_string());
    // Each turn has about 3200 bytes; 18000 tokens are taken to be full.
    world.model.insert(16, summary("SUMMARY"));
    world.model.push_back(summary("Done."));
    let world = world.run(args());
    let at = purposes(&world).iter().position(|purpose| purpose == "compaction").unwrap();
    assert_eq!(at, 16, "the script's summary is where it belongs");
    assert!(world.last_texts(at).last().unwrap().contains("Make no calls"));
    let after = world.messages(at + 1);
    assert!(after[0]["content"][0]["text"].as_str().unwrap().contains("SUMMARY"));
    assert!(after[0]["content"][1]["text"].as_str().unwrap().contains("system: Linux"));
    assert_eq!(after[1]["content"][0]["type"], "tool_use");
    assert!(after.len() >= 3 && after.len() < 8, "{} messages", after.len());
    let event = &world.found("compaction")[0];
    assert_eq!(event["summary"], "SUMMARY");
    assert_eq!(event["kept"].as_u64().unwrap() as usize, after.len() - 1);
    assert_eq!(world.found("result").len(), 22, "the originals stay in the transcript");
    assert_eq!(world.finished(), "end_turn");
}

#[test]
fn what_the_service_counts_goes_before_estimates() {
    let mut world = working(100, 3);
    let mut reply: Value = serde_json::from_str(&world.model[1]).unwrap();
    reply["usage"] = json!({"input_tokens": 1, "cache_read_input_tokens": 19_000, "output_tokens": 5});
    world.model[1] = reply.to_string();
    world.model.insert(2, summary("SUMMARY"));
    world.model.push_back(summary("Done."));
    let world = world.run(args());
    assert_eq!(purposes(&world), ["turn", "turn", "compaction", "turn", "turn"]);
}

#[test]
fn without_need_nothing_is_summed_up() {
    let mut world = working(100, 20);
    world.model.push_back(summary("Done."));
    let world = world.run(args());
    assert!(world.found("compaction").is_empty());
}

#[test]
fn a_request_that_is_too_long_is_summed_up_once_and_tried_again() {
    let mut world = working(1000, 3);
    world.model.extend([too_long(), summary("SUMMARY"), summary("Done.")]);
    let world = world.run(args());
    assert_eq!(purposes(&world), ["turn", "turn", "turn", "turn", "compaction", "turn"]);
    assert_eq!(world.requests("model")[4]["tool_choice"], json!({"type": "none"}));
    assert!(world.messages(4)[0]["content"][0]["text"].as_str().unwrap().contains("step 2"));
    assert!(world.requests("input").is_empty());
    assert_eq!(world.finished(), "end_turn");
}

#[test]
fn a_summary_that_does_not_help_ends_at_the_person_who_may_have_it_cut() {
    let mut world = working(9000, 3);
    world.model.extend([too_long(), summary(&"SUMMARY ".repeat(2000)), too_long(), summary("Done.")]);
    world.input.push_back(json!({"text": ""}).to_string());
    let world = world.run(args());
    assert_eq!(world.requests("input").len(), 1);
    assert!(world.requests("input")[0]["prompt"].as_str().unwrap().contains("long parts cut"));
    let sizes: Vec<usize> = world.requests("model").iter().map(|request| request.to_string().len()).collect();
    assert!(sizes[6] < sizes[5], "{:?}", sizes);
    assert!(world.messages(6)[0]["content"][0]["text"].as_str().unwrap().contains("SUMMARY"));
    assert_eq!(world.finished(), "end_turn");
}

#[test]
fn whatever_does_not_fit_gets_smaller_until_it_does() {
    let mut world = working(2000, 10);
    world.model.extend(std::iter::repeat(too_long()).take(20));
    world.input.extend(std::iter::repeat(json!({"text": ""}).to_string()).take(20));
    let world = world.run(json!({"prompt": "the task", "once": "true", "context_tokens": "1000000"}));
    let sizes: Vec<usize> = world
        .requests("model")
        .iter()
        .filter(|request| request["purpose"] == "turn")
        .map(|request| request["messages"].to_string().len())
        .collect();
    let tried = &sizes[10..];
    assert!(tried.windows(2).all(|pair| pair[1] <= pair[0]), "{:?}", tried);
    assert!(tried[0] > 20_000 && tried[tried.len() - 1] < 4_000, "{:?}", tried);
}

#[test]
fn a_window_that_is_smaller_than_was_said_is_learned() {
    let mut world = working(2000, 40);
    world.model.insert(10, too_long());
    world.model.insert(11, summary("FIRST"));
    for at in [22, 35] {
        world.model.insert(at, summary("LATER"));
    }
    let world =
        world.run(json!({"prompt": "the task", "once": "true", "context_tokens": "1000000", "max_tokens": "500"}));
    assert_eq!(world.found("error").iter().filter(|error| error["status"] == 400).count(), 1);
    assert!(world.found("compaction").len() >= 2, "the second came before an error");
}

#[test]
fn a_summary_that_cannot_be_had_is_asked_for_in_four_ways_and_then_left() {
    let mut world = working(1000, 3);
    let call = world.model[0].clone();
    let mut reply: Value = serde_json::from_str(&world.model[2]).unwrap();
    reply["usage"] = json!({"input_tokens": 19_000});
    world.model[2] = reply.to_string();
    world.model.extend([call.clone(), summary(" "), too_long(), call, summary("Done.")]);
    let world = world.run(args());
    assert_eq!(purposes(&world)[3..], ["compaction", "compaction", "compaction", "compaction", "turn"]);
    assert!(world.found("compaction").is_empty());
    assert_eq!(world.requests("tool").len(), 3, "calls in a summary are not run");
    assert_eq!(world.finished(), "end_turn");
}

#[test]
fn a_failed_summary_is_put_to_the_person_like_any_model_call() {
    let mut world = working(1000, 3);
    world.model.extend([
        too_long(),
        json!({"error": {"type": "overloaded_error", "message": "Overloaded"}, "status": 529}).to_string(),
        summary("SUMMARY"),
        summary("Done."),
    ]);
    world.input.push_back(json!({"text": "still there?"}).to_string());
    let world = world.run(args());
    assert_eq!(world.requests("input")[0]["why"], "error");
    assert_eq!(world.found("compaction").len(), 1);
    assert!(world.last_texts(6).contains(&"still there?".to_owned()), "words said meanwhile are kept");
    assert_eq!(world.finished(), "end_turn");
}

#[test]
fn a_first_message_that_is_too_long_is_taken_out_and_asked_for_again() {
    let mut world = Script::default();
    world.model.extend([too_long(), summary("Done.")]);
    world.input.push_back(json!({"text": "short"}).to_string());
    let world = world.run(args());
    assert_eq!(world.requests("input")[0]["why"], "error");
    assert_eq!(world.last_texts(1), ["short"]);
    assert_eq!(world.finished(), "end_turn");
}

#[test]
fn a_reply_of_a_megabyte_is_summed_up_from_its_ends() {
    let mut world = Script::default();
    let text = format!("BEGIN {} END", "word ".repeat(200_000));
    world.model.push_back(json!({"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}).to_string());
    world.model.extend([too_long(), summary("SUMMARY"), summary("Done.")]);
    world.input.push_back(json!({"text": "and now?"}).to_string());
    let world = world.run(json!({"prompt": "the task", "context_tokens": "20000"}));
    assert_eq!(purposes(&world), ["turn", "compaction", "compaction", "turn"]);
    let shown = world.last_texts(2)[0].clone();
    assert!(shown.contains("BEGIN") && shown.contains("END") && shown.len() < 60_000);
    assert_eq!(world.last_texts(3).last().unwrap(), "and now?");
    assert!(world.requests("model")[3].to_string().len() < 20_000);
}

#[test]
fn a_request_never_outgrows_what_a_host_takes() {
    let mut world = Script::default();
    let text = "\"quoted\" ".repeat(700_000);
    for _ in 0..2 {
        world
            .model
            .push_back(json!({"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}).to_string());
        world.input.push_back(json!({ "text": text }).to_string());
    }
    world.run(json!({"prompt": "the task", "context_tokens": "10000000"}));
}
