//! Whatever a host and a model answer, the session ends and each request is one that the service takes.

mod world;

use agent::World;
use serde_json::{json, Value};
use world::Script;

/// A small generator (xorshift), so that a failing seed can be run again by its number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.roll(items.len() as u64) as usize]
    }

    fn text(&mut self) -> String {
        let texts = ["", " ", "a", "fix it", "\n\t", "ä\u{1F600}\u{0}\"\\", "</summary>", "{\"a\":1}"];
        let text = self.pick(&texts).to_string();
        text.repeat(*self.pick(&[1, 1, 1, 1, 2, 300, 3000]))
    }

    fn value(&mut self) -> Value {
        match self.roll(8) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(self.roll(1 << 40) as i64 - 9),
            3 => json!([self.text()]),
            4 => json!({ self.text(): self.text() }),
            5 => json!(1.5e300),
            _ => json!(self.text()),
        }
    }

    fn input(&mut self) -> Value {
        let mut input = json!({});
        for key in ["command", "path", "content", "pattern", "old", "new", "limit", "x"] {
            match self.roll(6) {
                0 => input[key] = self.value(),
                1 | 2 => input[key] = json!(self.text()),
                _ => {}
            }
        }
        input
    }

    fn block(&mut self) -> Value {
        match self.roll(12) {
            0..=3 => json!({"type": "text", "text": self.text()}),
            4 => json!({"type": "thinking", "thinking": self.text(), "signature": self.value()}),
            5 => json!({"type": "redacted_thinking", "data": self.value()}),
            6 => self.value(),
            7 => json!({"type": self.value(), "text": self.value(), "id": self.value()}),
            8 => json!({"type": "tool_use", "id": self.value(), "name": self.value(), "input": self.value()}),
            _ => {
                let name = *self.pick(&["bash", "read", "write", "edit", "glob", "grep", "sudo"]);
                json!({"type": "tool_use", "id": "same", "name": name, "input": self.input()})
            }
        }
    }

    fn model(&mut self) -> Value {
        if self.roll(8) == 0 {
            let status = *self.pick(&[400, 401, 413, 429, 500, 529]);
            let message = if self.roll(2) == 0 { "prompt is too long".to_owned() } else { self.text() };
            return json!({"error": {"type": self.text(), "message": message}, "status": status});
        }
        let blocks: Vec<Value> = (0..self.roll(5)).map(|_| self.block()).collect();
        let reasons = [
            "end_turn",
            "tool_use",
            "tool_use",
            "tool_use",
            "max_tokens",
            "refusal",
            "pause_turn",
            "stop_sequence",
            "model_context_window_exceeded",
            "new",
        ];
        let mut reply = json!({"content": blocks, "stop_reason": *self.pick(&reasons)});
        if self.roll(3) == 0 {
            reply["usage"] = json!({"input_tokens": self.roll(30_000), "output_tokens": self.value(), "x": u64::MAX});
        }
        reply
    }

    fn reply(&mut self, op: &str) -> Value {
        let mut reply = match op {
            "model" => self.model(),
            "tool" => json!({"output": self.text(), "is_error": self.roll(4) == 0}),
            "input" => json!({ "text": self.text() }),
            _ => json!({"system": *self.pick(&["Linux x86_64", "Linux aarch64"]), "tools": self.value()}),
        };
        if self.roll(12) == 0 {
            reply["steering"] = if self.roll(4) == 0 { self.value() } else { json!([self.text(), self.value()]) };
        }
        if self.roll(12) == 0 {
            reply["moved"] = json!(true);
        }
        if self.roll(20) == 0 {
            reply["interrupt"] = json!(true);
        }
        reply
    }

    /// A reply as bytes, sometimes damaged.
    fn bytes(&mut self, op: &str) -> Vec<u8> {
        let value = self.reply(op);
        let mut bytes = if self.roll(2) == 0 { value.to_string() } else { format!("{:#}", value) }.into_bytes();
        if self.roll(25) == 0 && !bytes.is_empty() {
            for _ in 0..=self.roll(3) {
                let at = self.roll(bytes.len() as u64) as usize;
                bytes[at] = self.roll(256) as u8;
            }
        }
        if self.roll(50) == 0 {
            let at = self.roll(bytes.len() as u64 + 1) as usize;
            bytes.truncate(at);
        }
        bytes
    }
}

/// Answers at random for a while, then with what ends the session. Each request is checked by the script's world.
struct Random {
    dice: Dice,
    left: u32,
    script: Script,
}

impl World for Random {
    fn ask(&mut self, op: &str, request: &[u8]) -> Vec<u8> {
        let last = self.script.ask(op, request);
        self.script.asked.clear();
        if self.left == 0 {
            return last;
        }
        self.left -= 1;
        self.dice.bytes(op)
    }

    fn emit(&mut self, line: &[u8]) {
        self.script.emit(line);
    }
}

fn session(seed: u64, replies: u32) -> Vec<u8> {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut args = json!({"context_tokens": "8000", "turn_limit": dice.pick(&["1", "5", "100"]), "call_limit": dice.pick(&["3", "1000"])});
    if dice.roll(4) > 0 {
        args["prompt"] = json!(dice.text());
    }
    if dice.roll(4) == 0 {
        args["once"] = json!("true");
    }
    let mut world = Random { dice, left: replies, script: Script::default() };
    agent::run(&mut world, args.to_string().as_bytes()).unwrap();
    world::check_transcript(&world.script.events());
    world.script.transcript
}

#[test]
fn random_replies_never_break_a_conversation() {
    let (mut ends, mut summaries) = (std::collections::BTreeSet::new(), 0);
    for seed in 0..200 {
        println!("seed {}", seed);
        let transcript = String::from_utf8(session(seed, 150)).unwrap();
        summaries += transcript.matches("{\"event\":\"compaction\"").count();
        ends.insert(transcript.lines().last().unwrap().to_owned());
    }
    // The dice reach what they are meant to reach.
    assert!(summaries > 50, "{} summaries", summaries);
    assert_eq!(ends.len(), 3, "{:?}", ends);
}

#[test]
fn the_same_replies_leave_the_same_transcript() {
    for seed in 0..20 {
        assert_eq!(session(seed, 100), session(seed, 100));
    }
    assert_ne!(session(1, 100), session(2, 100));
}

#[test]
fn any_bytes_as_arguments_are_answered() {
    let mut dice = Dice(7);
    for _ in 0..500 {
        let bytes: Vec<u8> = (0..dice.roll(40)).map(|_| *dice.pick(b"{}[]\":,promtnce18 \\u\xff")).collect();
        let mut world = Script::default();
        let done = agent::run(&mut world, &bytes);
        assert_eq!(done.is_ok(), !world.transcript.is_empty());
    }
}
