//! A loop that never yields, then one line with its result.
//!
//! It asks nothing of the world and calls nothing in its loop, so only interrupt checks can pause it: one check an
//! iteration.

use hhd_guest::{emit_line, Args};

const ITERATIONS: u64 = 2_000_000;
const ITERATIONS_MAX: u64 = 1 << 50;

hhd_guest::program!(run);

/// The program.
pub fn run() {
    let iterations = Args::read(&["iterations"]).number("iterations", ITERATIONS, ITERATIONS_MAX);
    emit_line(&format!("spin: {iterations} iterations, result {:016x}", spin(iterations)));
}

/// Steps a xorshift generator `iterations` times.
///
/// Each step needs the one before, and the count depends on the state (which is never zero), so that no compiler can
/// shorten or unroll the loop: one turn is one interrupt check.
pub fn spin(iterations: u64) -> u64 {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut done = 0;
    while done < iterations {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        done += u64::from(state != 0);
    }
    state
}
