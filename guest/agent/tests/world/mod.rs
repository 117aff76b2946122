//! A world made of replies, which checks each request that it is asked.

use std::collections::{HashSet, VecDeque};

use agent::World;
use serde_json::{json, Value};

/// Answers from one queue for each effect; then with what ends a session.
#[derive(Default)]
pub struct Script {
    pub model: VecDeque<String>,
    pub tool: VecDeque<String>,
    pub input: VecDeque<String>,
    pub machine: VecDeque<String>,
    pub notes: Option<String>,
    pub asked: Vec<(String, Value)>,
    pub transcript: Vec<u8>,
}

impl World for Script {
    fn ask(&mut self, op: &str, request: &[u8]) -> Vec<u8> {
        assert!(request.len() <= 16 << 20, "a request of {} bytes", request.len());
        assert!(!request.contains(&b'\n'));
        let request: Value = serde_json::from_slice(request).expect("each request is JSON");
        let reply = match op {
            "model" => {
                check_request(&request);
                self.model
                    .pop_front()
                    .unwrap_or_else(|| r#"{"error":{"type":"script_end","message":"no reply left"}}"#.into())
            }
            "tool" if request["id"] == "notes" => {
                self.notes.clone().unwrap_or_else(|| r#"{"output":"no such file","is_error":true}"#.into())
            }
            "tool" => {
                check_call(&request);
                self.tool.pop_front().unwrap_or_else(|| r#"{"output":"done"}"#.into())
            }
            "input" => {
                check_input(&request);
                self.input.pop_front().unwrap_or_else(|| r#"{"end":true}"#.into())
            }
            "machine" => {
                assert_eq!(request, json!({}));
                self.machine.pop_front().unwrap_or_else(|| "{}".into())
            }
            other => panic!("unknown effect {}", other),
        };
        self.asked.push((op.to_owned(), request));
        reply.into_bytes()
    }

    fn emit(&mut self, line: &[u8]) {
        self.transcript.extend_from_slice(line);
    }
}

#[allow(dead_code)]
impl Script {
    pub fn run(mut self, args: Value) -> Script {
        agent::run(&mut self, args.to_string().as_bytes()).unwrap();
        check_transcript(&self.events());
        self
    }

    pub fn events(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.transcript).expect("a transcript is UTF-8");
        assert!(text.is_empty() || text.ends_with('\n'));
        let line = |line: &str| {
            assert!(line.starts_with("{\"event\":\""), "{}", line);
            serde_json::from_str(line).expect("each line is JSON")
        };
        text.lines().map(line).collect()
    }

    /// The events of one kind.
    pub fn found(&self, event: &str) -> Vec<Value> {
        self.events().into_iter().filter(|found| found["event"] == event).collect()
    }

    /// The requests of one effect; of tools, without that for the notes.
    pub fn requests(&self, op: &str) -> Vec<&Value> {
        self.asked
            .iter()
            .filter(|(asked, request)| asked == op && request["id"] != "notes")
            .map(|(_, request)| request)
            .collect()
    }

    /// The effects in order.
    pub fn order(&self) -> Vec<&str> {
        self.asked.iter().map(|(op, _)| op.as_str()).collect()
    }

    /// The messages of model request `index`, cache marks left out.
    pub fn messages(&self, index: usize) -> Vec<Value> {
        let mut messages = self.requests("model")[index]["messages"].as_array().unwrap().clone();
        for message in &mut messages {
            for block in message["content"].as_array_mut().unwrap() {
                block.as_object_mut().unwrap().remove("cache_control");
            }
        }
        messages
    }

    /// The texts of the last message of model request `index`.
    pub fn last_texts(&self, index: usize) -> Vec<String> {
        let messages = self.messages(index);
        let blocks = messages.last().unwrap()["content"].as_array().unwrap().clone();
        blocks
            .iter()
            .filter(|block| block["type"] == "text")
            .map(|block| block["text"].as_str().unwrap().to_owned())
            .collect()
    }

    pub fn finished(&self) -> String {
        self.events().last().unwrap()["reason"].as_str().unwrap().to_owned()
    }
}

/// What the service insists on, as `agent-effects.md` promises it.
pub fn check_request(body: &Value) {
    for key in body.as_object().unwrap().keys() {
        assert!(
            ["max_tokens", "tools", "system", "messages", "purpose", "tool_choice"].contains(&key.as_str()),
            "{}",
            key
        );
    }
    assert!(body["purpose"] == "turn" || body["purpose"] == "compaction");
    assert!(body["max_tokens"].as_u64().unwrap() > 0);
    let marks = body.to_string().matches("\"cache_control\":{\"type\":\"ephemeral\"}").count();
    assert!((1..=4).contains(&marks), "{} marks", marks);
    let messages = body["messages"].as_array().unwrap();
    assert!(!messages.is_empty());
    let mut ids = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        assert_eq!(message["role"], if index % 2 == 0 { "user" } else { "assistant" }, "roles alternate");
        let blocks = message["content"].as_array().unwrap();
        assert!(!blocks.is_empty(), "an empty message");
        let results: Vec<&Value> = blocks.iter().filter(|block| block["type"] == "tool_result").collect();
        let answered: Vec<String> =
            results.iter().map(|block| block["tool_use_id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(answered, open, "each call has its one result in the message after it, in order");
        assert!(blocks.iter().take(results.len()).all(|block| block["type"] == "tool_result"), "results come first");
        open.clear();
        for block in blocks {
            check_block(block, message["role"] == "user");
            if block["type"] == "tool_use" {
                let id = block["id"].as_str().unwrap().to_owned();
                assert!(ids.insert(id.clone()), "{} twice", id);
                open.push(id);
            }
        }
        let last = blocks.last().unwrap()["type"].as_str().unwrap();
        assert!(!last.ends_with("thinking"), "a message ends with a thought");
    }
    assert!(open.is_empty() && messages.len() % 2 == 1, "the last word is the user's");
}

fn check_block(block: &Value, is_user: bool) {
    match block["type"].as_str().unwrap() {
        "text" => assert!(!block["text"].as_str().unwrap().trim().is_empty(), "a blank text"),
        "tool_result" => assert!(is_user && !block["content"].as_str().unwrap().is_empty()),
        "tool_use" => {
            let name = block["name"].as_str().unwrap();
            assert!(!is_user && block["input"].is_object());
            assert!(
                !name.is_empty()
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
            );
        }
        "thinking" => assert!(!is_user && block["thinking"].is_string() && block["signature"].is_string()),
        "redacted_thinking" => assert!(!is_user && block["data"].is_string()),
        other => panic!("a block of type {}", other),
    }
}

fn check_call(request: &Value) {
    assert!(request["id"].as_str().unwrap().starts_with("call_"));
    let required: &[&str] = match request["name"].as_str().unwrap() {
        "bash" => &["command"],
        "read" => &["path"],
        "write" => &["path", "content"],
        "edit" => &["path", "old", "new"],
        "glob" | "grep" => &["pattern"],
        other => panic!("a call of {}", other),
    };
    assert!(required.iter().all(|key| request["input"][key].is_string()), "{}", request);
}

fn check_input(request: &Value) {
    assert!(!request["prompt"].as_str().unwrap().is_empty());
    let why = request["why"].as_str().unwrap();
    let known =
        ["prompt", "next", "error", "turn_limit", "call_limit", "max_tokens", "refusal", "stop_reason", "interrupted"];
    assert!(known.contains(&why), "{}", why);
}

/// The transcript begins and ends as promised, and each call has at most one result, after it.
pub fn check_transcript(events: &[Value]) {
    assert_eq!(events.last().unwrap()["event"], "finished");
    assert_eq!(events.iter().filter(|event| event["event"] == "finished").count(), 1);
    assert_eq!(events[0]["event"], "begin");
    let mut open = VecDeque::new();
    for event in events {
        match event["event"].as_str().unwrap() {
            "call" => open.push_back(event["id"].clone()),
            "result" => assert_eq!(Some(event["id"].clone()), open.pop_front(), "results in the order of calls"),
            "turn" => assert!(open.is_empty(), "a call without a result"),
            _ => {}
        }
    }
    assert!(open.is_empty(), "a call without a result");
}
