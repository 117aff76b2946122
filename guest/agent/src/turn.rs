//! One turn with the model: the call, its reply taken into the conversation, and the answers to its tool calls.

use std::ops::Range;

use serde_json::value::RawValue;

use crate::agent::{Agent, Finish};
use crate::json;
use crate::prompt;
use crate::reply::{self, Block, Failure, Reply};
use crate::talk::Role;
use crate::tools;
use crate::transcript::Line;
use crate::World;

/// What the model is given of one output at most; a page of prose has about 3000 bytes.
const OUTPUT_BYTES_MAX: usize = 100_000;

/// What it is given in any case, however much the turn already had.
const OUTPUT_BYTES_MIN: usize = 2_000;

/// How a model reply ended.
pub enum Stop {
    Done,
    Cut,
    WindowFull,
    Paused,
    Refused,
    Unknown(String),
}

/// A tool call of the newest assistant message.
struct Call {
    id: String,
    name: String,
    /// Where its input stands in the conversation.
    input: Range<usize>,
    /// Why it is not run.
    refused: Option<String>,
}

/// What a call is answered with; `raw` is a JSON string.
struct Answer<'a> {
    raw: &'a str,
    is_error: bool,
    ran: bool,
}

/// A reply on its way into the conversation.
struct Taking {
    stop: Stop,
    /// A message must not end with a thought, so thoughts wait for what follows them.
    thoughts: Vec<String>,
    calls: Vec<Call>,
}

impl<W: World> Agent<'_, W> {
    /// Makes one model call, answers its tool calls, and does what the end of the reply asks for.
    pub fn turn(&mut self) -> Result<(), Finish> {
        self.model_calls += 1;
        self.turn_calls += 1;
        Line::new("turn").number("n", self.model_calls).emit(self.world);
        let world = &mut *self.world;
        let bytes = self.talk.request("\"purpose\":\"turn\"", |body| world.ask("model", body));
        match self.hear_model(bytes, Self::take_reply) {
            Err(failure) => self.failed(&failure),
            Ok(Taking { stop, calls, .. }) => {
                self.summary_done = false;
                self.answer_calls(&calls);
                self.follow(stop, !calls.is_empty())
            }
        }
    }

    /// Reads a model reply. Its bytes are gone when this returns, so that no later snapshot holds them.
    pub fn hear_model<T>(
        &mut self,
        bytes: Vec<u8>,
        take: impl FnOnce(&mut Self, &Reply, Vec<&RawValue>) -> T,
    ) -> Result<T, Failure> {
        let text = reply::tidy(bytes);
        let reply = text.as_deref().and_then(reply::read).ok_or_else(Failure::unreadable)?;
        self.hear(&reply);
        if let Some(failure) = reply.failure() {
            return Err(failure);
        }
        let blocks = reply.blocks().ok_or_else(Failure::unreadable)?;
        Ok(take(self, &reply, blocks))
    }

    /// Notes what the service counted.
    pub fn count(&mut self, reply: &Reply) {
        const SIZES: [&str; 4] =
            ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
        let usage = reply.usage();
        let sizes = usage.iter().filter(|(key, _)| SIZES.contains(&key.as_str()));
        let total = sizes.fold(0_u64, |sum, (_, tokens)| sum.saturating_add(*tokens));
        if total > 0 {
            self.counted = Some((total, self.talk.bytes()));
        }
        if !usage.is_empty() {
            let line = Line::new("usage");
            usage.iter().fold(line, |line, (key, number)| line.number(key, *number)).emit(self.world);
        }
    }

    fn take_reply(&mut self, reply: &Reply, blocks: Vec<&RawValue>) -> Taking {
        let mut taking = Taking { stop: stop(reply), thoughts: Vec::new(), calls: Vec::new() };
        let last = blocks.len().saturating_sub(1);
        for (index, raw) in blocks.into_iter().enumerate() {
            let block = reply::block(raw);
            match json::text(block.kind).as_deref() {
                Some("text") => self.take_text(&mut taking, &block),
                Some("thinking") | Some("redacted_thinking") => self.take_thought(&mut taking, &block),
                Some("tool_use") if !matches!(taking.stop, Stop::Refused) => {
                    let is_cut = matches!(taking.stop, Stop::Cut | Stop::WindowFull) && index == last;
                    self.take_call(&mut taking, &block, is_cut);
                }
                _ => Line::new("other").raw("block", raw.get()).emit(self.world),
            }
        }
        self.count(reply);
        Line::new("stop").raw("reason", json::string(reply.stop_reason).unwrap_or("null")).emit(self.world);
        taking
    }

    fn take_text(&mut self, taking: &mut Taking, block: &Block) {
        if let Some(raw) = json::string(block.text).filter(|raw| !json::is_blank(raw)) {
            Line::new("text").raw("text", raw).emit(self.world);
            self.add(taking, &["{\"type\":\"text\",\"text\":", raw, "}"]);
        }
    }

    fn take_thought(&mut self, taking: &mut Taking, block: &Block) {
        let line = Line::new("thinking");
        let line = match json::string(block.thinking) {
            Some(raw) => line.raw("text", raw),
            None => line,
        };
        line.emit(self.world);
        match (json::string(block.thinking), json::string(block.signature), json::string(block.data)) {
            (Some(text), Some(signature), _) => {
                taking
                    .thoughts
                    .push(format!("{{\"type\":\"thinking\",\"thinking\":{},\"signature\":{}}}", text, signature));
            }
            (None, _, Some(sealed)) => {
                taking.thoughts.push(format!("{{\"type\":\"redacted_thinking\",\"data\":{}}}", sealed));
            }
            _ => {}
        }
    }

    fn take_call(&mut self, taking: &mut Taking, block: &Block, is_cut: bool) {
        self.tool_calls += 1;
        let id = format!("call_{}", self.tool_calls);
        let given = json::text(block.name).unwrap_or_default();
        let object = block.input.map(RawValue::get).filter(|raw| raw.starts_with('{'));
        let line = Line::new("call").text("id", &id).text("name", &given);
        line.raw("input", object.unwrap_or("null")).emit(self.world);
        let refused = match object {
            _ if is_cut => Some(prompt::CALL_CUT.to_owned()),
            _ if matches!(taking.stop, Stop::Unknown(_)) => Some(prompt::CALL_STOPPED.to_owned()),
            None => Some(prompt::CALL_NO_OBJECT.to_owned()),
            Some(input) => tools::check(&given, input).err().map(|fault| format!("Not run: {}", fault)),
        };
        let input = object.filter(|_| !is_cut).unwrap_or("{}");
        let name = if tools::is_name(&given) { given.into_owned() } else { "unknown".to_owned() };
        let place = self.add(
            taking,
            &["{\"type\":\"tool_use\",\"id\":\"", &id, "\",\"name\":\"", &name, "\",\"input\":", input, "}"],
        );
        let end = place.end - 1;
        taking.calls.push(Call { id, name, input: end - input.len()..end, refused });
    }

    /// Appends a block, after the thoughts that led to it. What was refused stays out of the conversation.
    fn add(&mut self, taking: &mut Taking, pieces: &[&str]) -> Range<usize> {
        let thoughts = std::mem::take(&mut taking.thoughts);
        if matches!(taking.stop, Stop::Refused) {
            return 0..0;
        }
        for thought in thoughts {
            self.talk.block(Role::Assistant, &[&thought]);
        }
        self.talk.block(Role::Assistant, pieces)
    }

    /// Answers each call, in order, in the one user message after the assistant's.
    fn answer_calls(&mut self, calls: &[Call]) {
        // A turn's outputs together take at most a quarter of the window, a token being three bytes or more.
        let mut room = self.args.context_tokens as usize / 4 * 3;
        for call in calls {
            match &call.refused {
                Some(fault) => self.refuse(call, fault, &mut room),
                None if self.interrupted => self.refuse(call, prompt::CALL_INTERRUPTED, &mut room),
                None => self.run(call, &mut room),
            }
            self.talk.pin();
        }
    }

    fn refuse(&mut self, call: &Call, fault: &str, room: &mut usize) {
        self.answer(call, Answer { raw: &json::quoted(fault), is_error: true, ran: false }, room);
    }

    fn run(&mut self, call: &Call, room: &mut usize) {
        let input = self.talk.at(&call.input);
        let request = ["{\"id\":\"", &call.id, "\",\"name\":\"", &call.name, "\",\"input\":", input, "}"].concat();
        let bytes = self.world.ask("tool", request.as_bytes());
        drop(request);
        let text = reply::tidy(bytes);
        let reply = text.as_deref().and_then(reply::read).unwrap_or_default();
        self.hear(&reply);
        match json::string(reply.output) {
            Some(raw) => self.answer(call, Answer { raw, is_error: reply::flag(reply.is_error), ran: true }, room),
            None => {
                let raw = json::quoted(prompt::CALL_UNREADABLE);
                self.answer(call, Answer { raw: &raw, is_error: true, ran: true }, room);
            }
        }
    }

    fn answer(&mut self, call: &Call, answer: Answer, room: &mut usize) {
        let line = Line::new("result").text("id", &call.id).raw("output", answer.raw);
        line.flag("is_error", answer.is_error).flag("ran", answer.ran).emit(self.world);
        let bytes_max = OUTPUT_BYTES_MAX.min(*room).max(OUTPUT_BYTES_MIN);
        let own = if answer.raw.len() > bytes_max {
            json::unquoted(answer.raw).map(|text| json::quoted(&json::cut(&text, bytes_max)))
        } else if json::is_blank(answer.raw) {
            Some(json::quoted(prompt::NO_OUTPUT))
        } else {
            None
        };
        let content = own.as_deref().unwrap_or(answer.raw);
        *room = room.saturating_sub(content.len());
        let end = if answer.is_error { ",\"is_error\":true}" } else { "}" };
        self.talk.block(
            Role::User,
            &["{\"type\":\"tool_result\",\"tool_use_id\":\"", &call.id, "\",\"content\":", content, end],
        );
    }
}

fn stop(reply: &Reply) -> Stop {
    match json::text(reply.stop_reason).as_deref() {
        Some("end_turn") | Some("tool_use") | Some("stop_sequence") => Stop::Done,
        Some("max_tokens") => Stop::Cut,
        Some("model_context_window_exceeded") => Stop::WindowFull,
        Some("pause_turn") => Stop::Paused,
        Some("refusal") => Stop::Refused,
        Some(other) => Stop::Unknown(json::cut(other, 100).into_owned()),
        None => Stop::Unknown("no reason given".to_owned()),
    }
}
