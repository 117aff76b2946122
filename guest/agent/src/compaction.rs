//! How a conversation is made short: what the model is shown to sum it up, and what stays.

use crate::facts::Facts;
use crate::json;
use crate::prompt;
use crate::talk::Talk;

/// The ways to ask for a summary, from the best to the one that always fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// The conversation as it is, with a last word: what the service has kept of it is used once more.
    Whole,
    /// The same, calls forbidden.
    WithoutTools,
    /// The messages as text, long parts cut, in half of the window or of what did not fit.
    Half,
    /// The same in a quarter.
    Quarter,
}

impl How {
    pub fn next_if_too_long(self) -> Option<How> {
        match self {
            How::Whole | How::WithoutTools => Some(How::Half),
            How::Half => Some(How::Quarter),
            How::Quarter => None,
        }
    }

    pub fn next_if_no_text(self) -> Option<How> {
        match self {
            How::Whole => Some(How::WithoutTools),
            other => other.next_if_too_long(),
        }
    }

    /// Bytes of conversation to show; `None` for all of it.
    pub fn bytes_max(self, context_tokens: u64, bytes: usize) -> Option<usize> {
        match self {
            How::Whole | How::WithoutTools => None,
            How::Half => Some(part(2, context_tokens, bytes)),
            How::Quarter => Some(part(4, context_tokens, bytes)),
        }
    }

    /// The end of the request's body.
    pub fn tail(self) -> &'static str {
        match self {
            How::Whole => "\"purpose\":\"compaction\"",
            _ => "\"tool_choice\":{\"type\":\"none\"},\"purpose\":\"compaction\"",
        }
    }
}

/// As text within text each quote may grow to four bytes, and a request has at most 16 MiB.
const DIGEST_BYTES_MAX: usize = 6 << 20;

/// No message is cut to less than this, as long as it is shown at all.
const PART_BYTES_MIN: usize = 200;

/// One `share`th of the window, a token being three bytes, or of a conversation of `bytes`, whichever is less: so each
/// try is smaller than what did not fit, whatever the window really is.
pub fn part(share: usize, context_tokens: u64, bytes: usize) -> usize {
    (context_tokens as usize * 3).min(DIGEST_BYTES_MAX).min(bytes) / share
}

/// The messages as text of at most about `bytes_max` bytes: long ones are cut first, then the oldest are left out.
pub fn digest(talk: &Talk, bytes_max: usize) -> String {
    let lengths: Vec<usize> = (0..talk.messages()).map(|index| talk.message(index).len()).collect();
    let mut part = bytes_max.max(PART_BYTES_MIN);
    while part > PART_BYTES_MIN && lengths.iter().map(|length| (*length).min(part)).sum::<usize>() > bytes_max {
        part = (part / 2).max(PART_BYTES_MIN);
    }
    let mut first = lengths.len();
    let mut room = bytes_max;
    while first > 0 && lengths[first - 1].min(part) <= room {
        room -= lengths[first - 1].min(part);
        first -= 1;
    }
    let parts: Vec<_> = (first..lengths.len()).map(|index| json::cut(talk.message(index), part)).collect();
    parts.join("\n")
}

/// The conversation after a summary, and how many of the newest messages are kept in it.
///
/// It begins with the summary and the facts; then come the newest messages, from one of the assistant on, so that calls
/// stay with their results. Where even these are too long, only the person's newest words are kept.
pub fn shortened(talk: &Talk, summary: &str, facts: &Facts, context_tokens: u64) -> (Talk, usize) {
    let bytes_max = (context_tokens / 8 * 3) as usize;
    let kept = talk.tail(bytes_max);
    let mut short = talk.fresh(summary.len() + bytes_max);
    short.say(&prompt::summary(summary));
    let facts = facts.text();
    if !facts.is_empty() {
        short.say(&prompt::facts(&facts));
    }
    short.pin();
    let count = kept.len();
    if kept.is_empty() {
        short.copy_words(talk, bytes_max);
    } else {
        short.copy(talk, kept);
    }
    (short, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_leads_to_an_end() {
        for next in [How::next_if_no_text, How::next_if_too_long] {
            let mut how = Some(How::Whole);
            for _ in 0..4 {
                how = how.and_then(next);
            }
            assert_eq!(how, None);
        }
    }

    #[test]
    fn a_digest_fits_and_keeps_the_newest() {
        let mut talk = Talk::new(b"\"max_tokens\":1");
        for index in 0..100 {
            let role = if index % 2 == 0 { crate::talk::Role::User } else { crate::talk::Role::Assistant };
            let text = format!("message {} {}", index, "x".repeat(if index == 99 { 1_000_000 } else { 1000 }));
            talk.block(role, &["{\"type\":\"text\",\"text\":\"", &text, "\"}"]);
        }
        for bytes_max in [1_000, 10_000, 30_000, 100_000] {
            let text = digest(&talk, bytes_max);
            assert!(text.len() < bytes_max * 3 / 2 + 500, "{} for {}", text.len(), bytes_max);
            assert!(text.contains("message 99"));
            assert_eq!(text.contains("message 0 "), bytes_max > 20_000);
        }
    }
}
