//! The agent itself: what happens in which order, from the arguments to the last line of the transcript.
//!
//! One loop: `ready` brings everything in order for the next model request (the person's words, a move, limits, the
//! size of the conversation), then `turn` makes it and answers its tool calls. Whatever happens is bounded by replies:
//! there is no loop that goes round without an effect, and none that asks the model over and over without the person.

use serde_json::value::RawValue;

use crate::args::{Args, CONTEXT_TOKENS_MIN};
use crate::compaction::{self, How};
use crate::facts::Facts;
use crate::json;
use crate::prompt::{self, ask};
use crate::reply::{self, Failure, Reply};
use crate::talk::{text_block, Role, Talk};
use crate::tools;
use crate::transcript::Line;
use crate::turn::Stop;
use crate::World;

/// Of the workspace's notes; also at most an eighth of the window.
const NOTES_BYTES_MAX: usize = 32_768;

/// A request has at most 16 MiB; this leaves room for marks and for a last word.
const REQUEST_BYTES_MAX: usize = 15 << 20;

/// So often in a row a reply may be cut before the person is asked.
const CUTS_MAX: u32 = 3;

/// Why a session is over.
pub struct Finish(pub &'static str);

pub struct Agent<'w, W: World> {
    pub world: &'w mut W,
    pub args: Args,
    pub talk: Talk,
    /// What the model was told of the machine.
    pub facts: Facts,
    /// Said by the person and not yet in the conversation.
    pub steering: Vec<String>,
    pub interrupted: bool,
    pub moved: bool,
    pub model_calls: u64,
    model_calls_max: u64,
    /// Model calls since the person last spoke.
    pub turn_calls: u64,
    pub tool_calls: u64,
    cuts: u32,
    pub unheard: u32,
    /// Tokens that the service counted, and how many bytes the request had then.
    pub counted: Option<(u64, usize)>,
    /// How the next summary is asked for, if one is due.
    summary_due: Option<How>,
    /// Whether a summary was made or given up since the last reply: another would not help.
    pub summary_done: bool,
}

/// Runs a whole session.
pub fn run<W: World>(world: &mut W, args: Args) {
    Line::new("begin").number("format", 1).flag("once", args.once).emit(world);
    let Finish(reason) = Agent::new(world, args).work();
    Line::new("finished").text("reason", reason).emit(world);
}

impl<'w, W: World> Agent<'w, W> {
    fn new(world: &'w mut W, args: Args) -> Self {
        Agent {
            world,
            talk: Talk::new(b""),
            facts: Facts::default(),
            steering: Vec::new(),
            interrupted: false,
            moved: false,
            model_calls: 0,
            model_calls_max: args.call_limit,
            turn_calls: 0,
            tool_calls: 0,
            cuts: 0,
            unheard: 0,
            counted: None,
            summary_due: None,
            summary_done: false,
            args,
        }
    }

    fn work(&mut self) -> Finish {
        let mut step = self.begin();
        while step.is_ok() {
            step = self.ready().and_then(|()| self.turn());
        }
        step.err().unwrap_or(Finish("ended"))
    }

    /// The head of all requests, then the first words: what the machine is like, and what the person wants.
    fn begin(&mut self) -> Result<(), Finish> {
        let (prompt, from) = match self.args.prompt.take() {
            Some(prompt) => (Some(prompt), "prompt"),
            None => (self.listen("prompt", ask::PROMPT, true)?, "input"),
        };
        let facts = self.ask_machine();
        let notes = self.read_notes();
        self.talk = Talk::new(&head(self.args.max_tokens, notes.as_deref()));
        if let Some(text) = facts {
            self.talk.say(&prompt::facts(&text));
        }
        if let Some(text) = prompt {
            self.say(from, &text);
        }
        Ok(())
    }

    /// Does what is to be done before the next model request; afterwards the conversation ends with a user message.
    fn ready(&mut self) -> Result<(), Finish> {
        loop {
            if self.interrupted {
                self.interrupted = false;
                if self.steering.is_empty() {
                    self.ask_person("interrupted", ask::INTERRUPTED, true)?;
                }
            } else if !self.steering.is_empty() {
                self.say_steering();
            } else if self.turn_calls >= self.args.turn_limit {
                self.ask_person("turn_limit", &ask::turn_limit(self.args.turn_limit), false)?;
                self.turn_calls = 0;
            } else if self.model_calls >= self.model_calls_max {
                self.ask_person("call_limit", &ask::call_limit(self.model_calls), false)?;
                self.model_calls_max = self.model_calls.saturating_add(self.args.call_limit);
            } else if self.moved {
                if let Some(text) = self.ask_machine() {
                    self.talk.say(&prompt::facts_changed(&text));
                    self.talk.pin();
                }
            } else if let Some(how) = self.summary_due {
                self.shorten(how)?;
            } else if self.talk.bytes() > REQUEST_BYTES_MAX {
                self.too_long()?;
            } else if self.is_window_filling() {
                self.summary_due = Some(How::Whole);
            } else if !self.talk.ends_with(Role::User) {
                self.note(prompt::GO_ON);
            } else {
                return Ok(());
            }
        }
    }

    /// Does what the end of a reply asks for.
    pub fn follow(&mut self, stop: Stop, has_calls: bool) -> Result<(), Finish> {
        self.cuts = if matches!(stop, Stop::Cut | Stop::WindowFull) { self.cuts + 1 } else { 0 };
        match stop {
            Stop::Done if has_calls => Ok(()),
            Stop::Done => self.turn_over(),
            Stop::Paused => Ok(()),
            Stop::Cut | Stop::WindowFull => {
                if matches!(stop, Stop::WindowFull) {
                    self.note(prompt::WINDOW_FULL);
                    self.summary_due = Some(How::Half);
                } else {
                    self.note(&prompt::cut(self.args.max_tokens));
                }
                self.talk.pin();
                if self.cuts < CUTS_MAX {
                    return Ok(());
                }
                self.cuts = 0;
                self.ask_person("max_tokens", ask::MAX_TOKENS, false)
            }
            Stop::Refused => {
                self.take_out_last();
                self.ask_person("refusal", ask::REFUSAL, true)
            }
            Stop::Unknown(reason) => self.ask_person("stop_reason", &ask::stop_reason(&reason), false),
        }
    }

    fn turn_over(&mut self) -> Result<(), Finish> {
        if !self.steering.is_empty() {
            return Ok(());
        }
        if self.args.once && !self.interrupted {
            return Err(Finish("end_turn"));
        }
        self.ask_person("next", ask::NEXT, true)
    }

    /// A model call brought no reply.
    pub fn failed(&mut self, failure: &Failure) -> Result<(), Finish> {
        let status = failure.status.map_or_else(|| "null".to_owned(), |status| status.to_string());
        let line = Line::new("error").raw("status", &status).text("type", &failure.kind).text("text", &failure.message);
        line.emit(self.world);
        if failure.is_too_long() {
            self.too_long()
        } else {
            self.ask_person("error", &ask::error(&failure.sentence()), false)
        }
    }

    /// The request does not fit: a summary may help, else taking out what the person said last, else cutting.
    fn too_long(&mut self) -> Result<(), Finish> {
        // The window is smaller than we were told: from now on it is kept from filling that far.
        self.args.context_tokens = self.args.context_tokens.min(self.tokens()).max(CONTEXT_TOKENS_MIN);
        if self.can_shorten() {
            self.summary_due = Some(How::Half);
            return Ok(());
        }
        self.summary_done = false;
        if self.take_out_last() {
            return self.ask_person("error", ask::TOO_LONG, true);
        }
        self.ask_person("error", ask::CUT, false)?;
        let bytes_max = compaction::part(4, self.args.context_tokens, self.talk.bytes());
        let digest = compaction::digest(&self.talk, bytes_max);
        self.replace(&prompt::digest(&digest));
        Ok(())
    }

    /// Takes out the newest message if it is only the person's words. What it said of the machine is then told again.
    fn take_out_last(&mut self) -> bool {
        let is_out = self.talk.take_out_last();
        if is_out && self.talk.messages() == 0 {
            self.facts.forget();
            self.moved = true;
        }
        is_out
    }

    /// Asks for one summary; where there is none, plans the next way to ask.
    fn shorten(&mut self, how: How) -> Result<(), Finish> {
        self.summary_due = None;
        if !self.can_shorten() {
            return Ok(());
        }
        self.model_calls += 1;
        let world = &mut *self.world;
        let send = |body: &[u8]| world.ask("model", body);
        let bytes = match how.bytes_max(self.args.context_tokens, self.talk.bytes()) {
            None => self.talk.request_with(prompt::COMPACT, how.tail(), send),
            Some(bytes_max) => {
                let digest = prompt::digest(&compaction::digest(&self.talk, bytes_max));
                let mut small = self.talk.fresh(digest.len());
                small.say(&digest);
                drop(digest);
                small.request_with(prompt::COMPACT, how.tail(), send)
            }
        };
        let next = match self.hear_model(bytes, Self::take_summary) {
            Ok(Some(summary)) => {
                self.replace(&summary);
                return Ok(());
            }
            Ok(None) => how.next_if_no_text(),
            Err(failure) if failure.is_too_long() => how.next_if_too_long(),
            Err(failure) => {
                self.summary_due = Some(how);
                return self.failed(&failure);
            }
        };
        self.summary_due = next;
        self.summary_done = next.is_none();
        Ok(())
    }

    fn take_summary(&mut self, reply: &Reply, blocks: Vec<&RawValue>) -> Option<String> {
        let mut summary = String::new();
        for block in blocks.into_iter().map(reply::block) {
            if json::text(block.kind).as_deref() == Some("text") {
                summary.push_str(&json::text(block.text).unwrap_or_default());
            }
        }
        self.count(reply);
        let is_refused = json::text(reply.stop_reason).as_deref() == Some("refusal");
        Some(summary).filter(|summary| !is_refused && !summary.trim().is_empty())
    }

    /// Puts a summary in the place of the older messages.
    fn replace(&mut self, summary: &str) {
        let (short, kept) = compaction::shortened(&self.talk, summary, &self.facts, self.args.context_tokens);
        let dropped = self.talk.messages() - kept;
        self.talk = short;
        self.counted = None;
        self.summary_done = true;
        let line = Line::new("compaction").number("n", self.model_calls).text("summary", summary);
        line.number("dropped", dropped as u64).number("kept", kept as u64).emit(self.world);
    }

    /// Whether a summary could help: there is something to sum up, and none was tried for this request.
    fn can_shorten(&self) -> bool {
        !self.summary_done && self.talk.messages() >= 3
    }

    /// Whether the next reply might not fit any more.
    fn is_window_filling(&self) -> bool {
        // The summary's own prompt, and what a host puts around a request, take a little too.
        let reserve = self.args.max_tokens + self.args.context_tokens / 20;
        self.can_shorten() && self.tokens() > self.args.context_tokens.saturating_sub(reserve)
    }

    /// The size of the request. What the service did not count is taken at three bytes a token, which is high.
    fn tokens(&self) -> u64 {
        match self.counted {
            Some((tokens, bytes)) => tokens.saturating_add(self.talk.bytes().saturating_sub(bytes) as u64 / 3),
            None => self.talk.bytes() as u64 / 3,
        }
    }

    /// Asks what the machine is like; returns what is to be told of it.
    fn ask_machine(&mut self) -> Option<String> {
        let answer = reply::tidy(self.world.ask("machine", b"{}"));
        let answer = answer.as_deref().unwrap_or_default();
        if let Some(reply) = reply::read(answer) {
            self.hear(&reply);
        }
        // This answer is from where the session is now.
        self.moved = false;
        let change = self.facts.learn(answer)?;
        let names: Vec<String> = change.names.iter().map(|name| json::quoted(name)).collect();
        Line::new("machine").raw("changed", &format!("[{}]", names.join(","))).emit(self.world);
        Some(change.text)
    }

    /// Reads the workspace's notes, as they are told to the model.
    fn read_notes(&mut self) -> Option<String> {
        const REQUEST: &[u8] = br#"{"id":"notes","name":"read","input":{"limit":1000,"path":"AGENTS.md"}}"#;
        let answer = reply::tidy(self.world.ask("tool", REQUEST))?;
        let reply = reply::read(&answer)?;
        self.hear(&reply);
        let text = json::text(reply.output).filter(|text| !text.trim().is_empty() && !reply::flag(reply.is_error))?;
        let bytes_max = NOTES_BYTES_MAX.min(self.args.context_tokens as usize / 8 * 3);
        let kept = json::cut(&text, bytes_max);
        let is_cut = text.len() > bytes_max;
        let line = Line::new("notes").text("path", "AGENTS.md").number("bytes", text.len() as u64);
        line.flag("cut", is_cut).emit(self.world);
        Some(prompt::notes(&kept, is_cut))
    }
}

/// What all requests of a session begin with. The mark at its end covers the tools too.
fn head(max_tokens: u64, notes: Option<&str>) -> Vec<u8> {
    let mut out = format!("\"max_tokens\":{},\"tools\":", max_tokens).into_bytes();
    out.extend_from_slice(&tools::definitions());
    out.extend_from_slice(b",\"system\":[");
    text_block(&mut out, prompt::SYSTEM);
    if let Some(notes) = notes {
        out.push(b',');
        text_block(&mut out, notes);
    }
    out.pop();
    out.extend_from_slice(b",\"cache_control\":{\"type\":\"ephemeral\"}}]");
    out
}
