//! A heap that leaves nothing behind: what is freed is wiped, so that a snapshot holds what is in use and little else.
//!
//! A snapshot keeps every page that is not as it was at first. Freed buffers are still there, full of old text: an agent that
//! builds, sends and drops a request each turn would carry several copies of its conversation with it. Wiped, they
//! are pages of zeros, which cost nothing (past the first memory) or next to nothing (packed). The wiping itself is one
//! bulk fill.
//!
//! A program chooses it: `#[global_allocator] static HEAP: hhd_guest::Heap = hhd_guest::Heap;`

#![deny(unsafe_op_in_unsafe_fn)]

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's heap, with freed memory wiped.
pub struct Heap;

// SAFETY: every call goes on to the system's heap with the layout that it came with; what is written lies within the
// block that the caller owns.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the system's heap asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller owns the `layout.size()` bytes at `block` until this returns.
        unsafe {
            block.write_bytes(0, layout.size());
            System.dealloc(block, layout);
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the new layout has the old alignment and the caller's size, as the caller promises it is valid; both
        // blocks are at least as long as what is copied; the old one is given up only once there is a new one.
        unsafe {
            let target = System.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !target.is_null() {
                target.copy_from_nonoverlapping(block, layout.size().min(bytes));
                self.dealloc(block, layout);
            }
            target
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_move_with_what_they_hold() {
        let layout = Layout::from_size_align(100, 8).unwrap();
        // SAFETY: the block is used within its size and freed once.
        unsafe {
            let block = Heap.alloc(layout);
            block.write_bytes(7, 100);
            let grown = Heap.realloc(block, layout, 5000);
            assert!((0..100).all(|index| grown.add(index).read() == 7));
            let layout = Layout::from_size_align(5000, 8).unwrap();
            let shrunk = Heap.realloc(grown, layout, 10);
            assert!((0..10).all(|index| shrunk.add(index).read() == 7));
            Heap.dealloc(shrunk, Layout::from_size_align(10, 8).unwrap());
        }
    }
}
