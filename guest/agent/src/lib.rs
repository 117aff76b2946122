//! hhd's coding agent, as ordinary code that asks a `World` and waits for its answers.
//!
//! Inside the pausable guest nothing has to be saved by hand: the call stack, the conversation and every local variable
//! are the session. So the agent is written as straight code (`agent`), with no state of its own beside its memory. It
//! gets no clock, no random number and no file: given the same replies it emits the same transcript.
//!
//! The JSON that goes in and out is fixed in `protocol/spec/agent-effects.md`.
//!
//! * `agent`: what happens in which order, from the arguments to the last line of the transcript
//! * `turn`, `person`: its dealings with the model and with the person
//! * `talk`: the conversation, kept once, in the very bytes of the next model request
//! * `reply`: what a host answers, read so that nothing in it can do harm
//! * `tools`, `facts`, `prompt`, `args`, `compaction`, `transcript`, `json`: one matter each

#![deny(unsafe_code)]

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

use args::Args;

/// Everything outside: the host of the guest, or a test.
pub trait World {
    /// Asks for an effect and returns the reply, whenever that comes.
    fn ask(&mut self, op: &str, request: &[u8]) -> Vec<u8>;

    /// Appends one line, its newline included, to the transcript.
    fn emit(&mut self, line: &[u8]);
}

/// Runs one session from its arguments to its end; where the arguments are wrong, returns a sentence that says so.
pub fn run<W: World>(world: &mut W, args: &[u8]) -> Result<(), String> {
    agent::run(world, Args::parse(args)?);
    Ok(())
}

/// The host of the guest that this is built into.
struct Host;

impl World for Host {
    fn ask(&mut self, op: &str, request: &[u8]) -> Vec<u8> {
        hhd_guest::effect(op, request)
    }

    fn emit(&mut self, line: &[u8]) {
        hhd_guest::emit(line);
    }
}

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static HEAP: hhd_guest::Heap = hhd_guest::Heap;

/// The program of the module.
pub fn main() {
    if let Err(sentence) = run(&mut Host, &hhd_guest::raw_args()) {
        hhd_guest::refuse(&sentence);
    }
}

hhd_guest::program!(main);
