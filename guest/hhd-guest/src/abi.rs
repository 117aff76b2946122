//! The doors to the host (`protocol/spec/guest-abi.md`, version 1): beside the heap the only unsafe code of a guest.

use std::panic::PanicInfo;

#[link(wasm_import_module = "hhd1")]
extern "C" {
    #[link_name = "effect"]
    fn host_effect(op: *const u8, op_len: usize, request: *const u8, request_len: usize) -> usize;
    #[link_name = "reply"]
    fn host_reply(target: *mut u8, offset: usize, len: usize);
    #[link_name = "emit"]
    fn host_emit(bytes: *const u8, len: usize);
    #[link_name = "panic"]
    fn host_panic(text: *const u8, len: usize);
    #[link_name = "args"]
    fn host_args(target: *mut u8, capacity: usize) -> usize;
}

/// Waits for the reply to an effect; returns its length.
pub fn effect(op: &[u8], request: &[u8]) -> usize {
    // SAFETY: both ranges are live slices that the host only reads; a stop and resume in between restores this memory.
    unsafe { host_effect(op.as_ptr(), op.len(), request.as_ptr(), request.len()) }
}

/// Copies the start of the latest reply into the whole of `target`.
pub fn reply(target: &mut [u8]) {
    // SAFETY: the host writes exactly `target.len()` bytes into this exclusively borrowed slice, or traps.
    unsafe { host_reply(target.as_mut_ptr(), 0, target.len()) }
}

/// Appends bytes to the transcript.
pub fn emit(bytes: &[u8]) {
    // SAFETY: the host only reads this live slice.
    unsafe { host_emit(bytes.as_ptr(), bytes.len()) }
}

/// The bytes of the arguments.
pub fn args() -> Vec<u8> {
    // SAFETY: a capacity of zero lets the host write nothing; the pointer is dangling but never used.
    let length = unsafe { host_args(std::ptr::NonNull::dangling().as_ptr(), 0) };
    let mut raw = vec![0; length];
    // SAFETY: the host writes at most `raw.len()` bytes into this exclusively owned buffer.
    unsafe { host_args(raw.as_mut_ptr(), raw.len()) };
    raw
}

/// Says why, and traps.
pub fn fail(sentence: &str) -> ! {
    // SAFETY: the host only reads this live text.
    unsafe { host_panic(sentence.as_ptr(), sentence.len()) }
    std::process::abort()
}

/// Lets a panic of the program reach the host as text before the trap.
pub fn begin() {
    std::panic::set_hook(Box::new(tell));
}

fn tell(info: &PanicInfo<'_>) {
    fail(&info.to_string())
}
