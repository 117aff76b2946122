//! hhd's coding agent, as ordinary code that asks a `World` and waits for its answers.
//!
//! Inside the pausable guest nothing has to be saved by hand: the call stack, the conversation and every local variable
//! are the session. So the agent is written as straight code (`agent`), with no state of its own beside its memory. It gets
//! no clock, no random number and no file: given the same replies it emits the same transcript.
//!
//! The JSON that goes in and out is fixed in `protocol/spec/agent-effects.md`.
//!
//! * `agent`: what happens in which order, from the arguments to the last line of the transcript
//! * `turn`, `person`: its dealings with the model and with the person
//! * `talk`: the conversation, kept once, in the very bytes of the next model request
//! * `reply`: what a host answers, read so that nothing in it can do harm
//! * `tools`, `facts`, `prompt`, `args`, `compaction`, `transcript`, `json`: one matter each

#![forbid(unsafe_code)]

mod agent;
mod args;
mod compaction;
mod facts;
mod json;
mod person;
mod prompt;
mod reply;
mod talk;
mod tools;
mod transcript;
mod turn;

/// Everything outside: the host of the guest, or a test.
pub trait World {
    /// Asks for an effect and returns the reply, whenever that comes.
    fn ask(&mut self, op: &str, request: &[u8]) -> Vec<u8>;

    /// Appends one line, its newline included, to the transcript.
    fn emit(&mut self, line: &[u8]);
}

/// Runs one session from its arguments to its end. Returns only when the session is finished.
pub fn run<W: World>(world: &mut W, args: &[u8]) {
    agent::run(world, args);
}
