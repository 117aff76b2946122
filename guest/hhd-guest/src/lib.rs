//! What a program links to run as an hhd guest: effects, the transcript, arguments, a panic hook.
//!
//! The border itself is `protocol/spec/guest-abi.md`. A guest has no clock, no dice, no files and no network; whatever
//! it learns comes from its arguments and from effects, so the same replies lead to the same transcript.
//! Built natively, the same functions speak to a script in the same thread (`native`), for plain `cargo test`.

#[cfg(target_arch = "wasm32")]
mod abi;
mod heap;
#[cfg(not(target_arch = "wasm32"))]
pub mod native;

#[cfg(not(target_arch = "wasm32"))]
use native as abi;

use std::collections::BTreeMap;

pub use heap::Heap;

/// Asks the world for something and returns the reply; the guest may be stopped, moved and resumed in between.
///
/// `op` is a short name of `[a-z0-9_.-]`, at most 64 bytes; request and reply are at most 16 MiB. What they mean is
/// between the guest and the effect host.
pub fn effect(op: &str, request: &[u8]) -> Vec<u8> {
    let length = abi::effect(op.as_bytes(), request);
    let mut reply = vec![0; length];
    abi::reply(&mut reply);
    reply
}

/// Appends bytes to the transcript.
pub fn emit(bytes: &[u8]) {
    abi::emit(bytes);
}

/// Appends one line of text to the transcript.
pub fn emit_line(text: &str) {
    let mut line = String::with_capacity(text.len() + 1);
    line.push_str(text);
    line.push('\n');
    emit(line.as_bytes());
}

/// Ends the program as failed, with one sentence for the person who started it.
pub fn refuse(sentence: &str) -> ! {
    abi::fail(sentence)
}

/// The arguments as the host hands them over: a JSON object of text to text.
pub fn raw_args() -> Vec<u8> {
    abi::args()
}

/// The arguments that the program was started with: text by name.
pub struct Args {
    values: BTreeMap<String, String>,
}

impl Args {
    /// Reads the arguments, and refuses to go on when one has a name that is not in `known`.
    pub fn read(known: &[&str]) -> Args {
        let raw = raw_args();
        let values: BTreeMap<String, String> = match serde_json::from_slice(&raw) {
            Ok(values) => values,
            Err(error) => refuse(&format!("the arguments are not an object of text: {error}")),
        };
        for name in values.keys() {
            if !known.contains(&name.as_str()) {
                let list = known.join(", ");
                refuse(&format!("there is no argument named {name:?}; there is: {list}"));
            }
        }
        Args { values }
    }

    /// The text of one argument, if it was given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// One argument as a whole number of at most `most`, `otherwise` when it was not given; refuses anything else.
    pub fn number(&self, name: &str, otherwise: u64, most: u64) -> u64 {
        let text = match self.text(name) {
            None => return otherwise,
            Some(text) => text,
        };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u64>() {
            Ok(value) if digits && value <= most => value,
            _ => refuse(&format!("the argument {name} is {text:?}; it must be a whole number from 0 to {most}")),
        }
    }
}

/// Prepares the process for running a program; `program!` calls it.
pub fn begin() {
    abi::begin();
}

/// Makes a function `fn()` the program of this module: what the host enters by.
#[macro_export]
macro_rules! program {
    ($main:path) => {
        #[cfg(target_arch = "wasm32")]
        #[no_mangle]
        pub extern "C" fn hhd_run() {
            $crate::begin();
            $main();
        }
    };
}
