//! A stand-in for the host in native tests: a script of replies, and what the program did with them.

use std::cell::RefCell;
use std::collections::VecDeque;

/// What one thread's program is given, and what it did.
#[derive(Default)]
pub struct Script {
    /// The arguments, as the JSON text that the host hands over.
    pub arguments: String,
    /// Replies to come, in order.
    pub replies: VecDeque<Vec<u8>>,
    /// Effects that were asked: name and request.
    pub asked: Vec<(String, Vec<u8>)>,
    /// Everything emitted so far.
    pub transcript: Vec<u8>,
    latest: Vec<u8>,
}

thread_local! {
    static SCRIPT: RefCell<Script> = RefCell::new(Script::default());
}

/// Runs `program` against these arguments and replies; returns the script as it is afterwards.
///
/// Panics as the program does: `refuse` is a panic with its sentence here.
pub fn play(arguments: &str, replies: Vec<Vec<u8>>, program: fn()) -> Script {
    let script = Script { arguments: arguments.into(), replies: replies.into(), ..Script::default() };
    SCRIPT.with(|cell| cell.replace(script));
    program();
    SCRIPT.with(|cell| cell.take())
}

pub(crate) fn effect(op: &[u8], request: &[u8]) -> usize {
    SCRIPT.with(|cell| {
        let mut script = cell.borrow_mut();
        script.asked.push((String::from_utf8_lossy(op).into_owned(), request.to_vec()));
        script.latest = script.replies.pop_front().expect("the script has a reply for every effect");
        script.latest.len()
    })
}

pub(crate) fn reply(target: &mut [u8]) {
    SCRIPT.with(|cell| target.copy_from_slice(&cell.borrow().latest[..target.len()]))
}

pub(crate) fn emit(bytes: &[u8]) {
    SCRIPT.with(|cell| cell.borrow_mut().transcript.extend_from_slice(bytes))
}

pub(crate) fn args() -> Vec<u8> {
    SCRIPT.with(|cell| cell.borrow().arguments.clone().into_bytes())
}

pub(crate) fn fail(sentence: &str) -> ! {
    panic!("{sentence}")
}

pub(crate) fn begin() {}
