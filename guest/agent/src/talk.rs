//! The conversation, kept once, as the bytes of the next model request.
//!
//! A request is `HEAD` (bounds, system prompt, tools), the messages and a short tail. Head and messages stay in one
//! buffer for the whole session; for a request the cache marks and the tail are put in, and taken out again when the
//! reply is there. So a turn costs what it adds, not what was said before, and a snapshot holds the conversation once.
//!
//! Kept true here: roles alternate, beginning with the user, and no message is empty (a block opens its message).
//! Kept true by `agent`: each tool call of an assistant message is answered in the message after it.

use std::ops::Range;

use crate::json;

/// Marks a block as the end of a prefix that the service may keep.
const MARK: &[u8] = b",\"cache_control\":{\"type\":\"ephemeral\"}";

/// What a message ends with while it is in the buffer.
const CLOSE: &[u8] = b"]}";

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    User,
    Assistant,
}

struct Message {
    role: Role,
    start: usize,
    /// Whether it holds more than the person's words: it must not be taken out alone.
    pinned: bool,
}

pub struct Talk {
    body: Vec<u8>,
    head_bytes: usize,
    messages: Vec<Message>,
}

impl Talk {
    /// `head` is everything up to the messages, without the outer brace: `"max_tokens":...,"tools":[...]`.
    pub fn new(head: &[u8]) -> Talk {
        let mut body = Vec::with_capacity(head.len() + 16);
        body.push(b'{');
        body.extend_from_slice(head);
        body.extend_from_slice(b",\"messages\":[");
        Talk { head_bytes: body.len(), body, messages: Vec::new() }
    }

    /// Bytes of the request as it stands.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    pub fn ends_with(&self, role: Role) -> bool {
        self.messages.last().map_or(false, |message| message.role == role)
    }

    /// Appends text of a user message.
    pub fn say(&mut self, text: &str) {
        self.open(Role::User);
        text_block(&mut self.body, text);
        self.close();
    }

    /// Appends a block, given as pieces of JSON, to the newest message if that is of `role`, else to a new one. Returns
    /// where the block stands, until messages before it are taken out.
    pub fn block(&mut self, role: Role, pieces: &[&str]) -> Range<usize> {
        self.open(role);
        let start = self.body.len();
        for piece in pieces {
            self.body.extend_from_slice(piece.as_bytes());
        }
        let end = self.body.len();
        self.close();
        start..end
    }

    /// Ties the newest message to those before it.
    pub fn pin(&mut self) {
        if let Some(message) = self.messages.last_mut() {
            message.pinned = true;
        }
    }

    /// Takes out the newest message if it is only the person's words, and says whether it did.
    pub fn take_out_last(&mut self) -> bool {
        match self.messages.last() {
            Some(message) if message.role == Role::User && !message.pinned => {
                // The comma before it goes too.
                self.body.truncate(if self.messages.len() == 1 { message.start } else { message.start - 1 });
                self.messages.pop();
                true
            }
            _ => false,
        }
    }

    /// The JSON at a place that `block` returned, or within it.
    pub fn at(&self, place: &Range<usize>) -> &str {
        self.body.get(place.clone()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("{}")
    }

    /// Message `index` as JSON.
    pub fn message(&self, index: usize) -> &str {
        self.at(&(self.messages[index].start..self.end(index)))
    }

    /// Makes the request whole, hands it to `send`, and takes out again what is not conversation. `tail` is further
    /// JSON of the body: `"purpose":"turn"`.
    pub fn request<T>(&mut self, tail: &str, send: impl FnOnce(&[u8]) -> T) -> T {
        let marks = self.marks();
        for at in marks.iter().rev() {
            insert(&mut self.body, *at, MARK);
        }
        let whole = self.body.len();
        self.body.extend_from_slice(b"],");
        self.body.extend_from_slice(tail.as_bytes());
        self.body.push(b'}');
        let answer = send(&self.body);
        self.body.truncate(whole);
        for at in marks {
            self.body.drain(at..at + MARK.len());
        }
        answer
    }

    /// Like `request`, with `text` added to the newest user message for this one request.
    pub fn request_with<T>(&mut self, text: &str, tail: &str, send: impl FnOnce(&[u8]) -> T) -> T {
        let (bytes, count) = (self.body.len(), self.messages.len());
        self.say(text);
        let answer = self.request(tail, send);
        if self.messages.len() > count {
            self.messages.truncate(count);
            self.body.truncate(bytes);
        } else {
            self.body.truncate(bytes - CLOSE.len());
            self.close();
        }
        answer
    }

    /// Another conversation with the same head and no messages.
    pub fn fresh(&self, room: usize) -> Talk {
        let mut body = Vec::with_capacity(self.head_bytes + room);
        body.extend_from_slice(&self.body[..self.head_bytes]);
        Talk { body, head_bytes: self.head_bytes, messages: Vec::new() }
    }

    /// The longest run of newest messages that begins with the assistant and is at most `bytes_max` long; where even
    /// the last two are longer, none.
    pub fn tail(&self, bytes_max: usize) -> Range<usize> {
        let end = self.messages.len();
        let fits = |index: &usize| self.body.len() - self.messages[*index].start <= bytes_max;
        let first = (0..end).filter(|index| self.messages[*index].role == Role::Assistant).find(fits);
        first.unwrap_or(end)..end
    }

    /// Appends messages `range` of `other`. The first must be of the other role than the newest here.
    pub fn copy(&mut self, other: &Talk, range: Range<usize>) {
        for index in range {
            self.separate();
            let (start, message) = (self.body.len(), &other.messages[index]);
            self.body.extend_from_slice(&other.body[message.start..other.end(index)]);
            self.messages.push(Message { role: message.role, start, pinned: message.pinned });
        }
    }

    /// Appends the blocks of the newest message of `other` to the newest user message here, if they are only the
    /// person's words and at most `bytes_max` long.
    pub fn copy_words(&mut self, other: &Talk, bytes_max: usize) {
        let last = match other.messages.last() {
            Some(last) if last.role == Role::User && !last.pinned => last,
            _ => return,
        };
        let blocks = other.at(&(last.start + opening(Role::User).len()..other.body.len() - CLOSE.len()));
        if blocks.len() <= bytes_max {
            self.block(Role::User, &[blocks]);
        }
    }

    fn open(&mut self, role: Role) {
        if self.ends_with(role) {
            self.body.truncate(self.body.len() - CLOSE.len());
            self.body.push(b',');
            return;
        }
        self.separate();
        self.messages.push(Message { role, start: self.body.len(), pinned: false });
        self.body.extend_from_slice(opening(role));
    }

    fn close(&mut self) {
        self.body.extend_from_slice(CLOSE);
    }

    fn separate(&mut self) {
        if !self.messages.is_empty() {
            self.body.push(b',');
        }
    }

    fn end(&self, index: usize) -> usize {
        self.messages.get(index + 1).map_or(self.body.len(), |next| next.start - 1)
    }

    /// Where marks go, ascending: into the last block of the two newest user messages, so that a request finds what the
    /// one before it left. With the one at the end of the system prompt these are three of the four that the service
    /// allows.
    fn marks(&self) -> Vec<usize> {
        let mut marks: Vec<usize> = (0..self.messages.len())
            .rev()
            .filter(|index| self.messages[*index].role == Role::User)
            .take(2)
            .map(|index| self.end(index) - CLOSE.len() - 1)
            .collect();
        marks.reverse();
        marks
    }
}

/// Appends a text block.
pub fn text_block(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    json::quote(out, text);
    out.push(b'}');
}

fn opening(role: Role) -> &'static [u8] {
    match role {
        Role::User => b"{\"role\":\"user\",\"content\":[",
        Role::Assistant => b"{\"role\":\"assistant\",\"content\":[",
    }
}

fn insert(body: &mut Vec<u8>, at: usize, piece: &[u8]) {
    let end = body.len();
    body.extend_from_slice(piece);
    body.copy_within(at..end, at + piece.len());
    body[at..at + piece.len()].copy_from_slice(piece);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn sent(talk: &mut Talk) -> Value {
        talk.request("\"purpose\":\"turn\"", |body| serde_json::from_slice(body).unwrap())
    }

    fn spoken(words: &[&str]) -> Talk {
        let mut talk = Talk::new(b"\"max_tokens\":1");
        for (index, text) in words.iter().enumerate() {
            let role = if index % 2 == 0 { Role::User } else { Role::Assistant };
            talk.block(role, &["{\"type\":\"text\",\"text\":", &json::quoted(text), "}"]);
        }
        talk
    }

    #[test]
    fn a_request_leaves_the_conversation_as_it_was() {
        let mut talk = spoken(&["one", "two", "three", "four", "five"]);
        let before = talk.body.clone();
        let first = sent(&mut talk);
        assert_eq!(talk.body, before);
        let summary = talk.request_with("and six", "\"purpose\":\"compaction\"", |body| {
            serde_json::from_slice::<Value>(body).unwrap()
        });
        assert_eq!(summary["messages"][4]["content"][1]["text"], "and six");
        assert_eq!(talk.body, before);
        assert_eq!(sent(&mut talk), first);
    }

    #[test]
    fn only_the_two_newest_user_messages_are_marked_at_their_last_block() {
        let mut talk = spoken(&["one", "two", "three", "four", "five"]);
        talk.say("six");
        let messages = sent(&mut talk)["messages"].clone();
        let marked: Vec<bool> = messages
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|message| message["content"].as_array().unwrap())
            .map(|block| block.get("cache_control").is_some())
            .collect();
        assert_eq!(marked, [false, false, true, false, false, true]);
    }

    #[test]
    fn only_the_persons_words_can_be_taken_out() {
        let mut talk = spoken(&["one", "two", "three"]);
        assert!(talk.take_out_last());
        assert_eq!(sent(&mut talk)["messages"].as_array().unwrap().len(), 2);
        assert!(!talk.take_out_last());
        talk.say("four");
        talk.pin();
        assert!(!talk.take_out_last());
        let mut talk = spoken(&["one"]);
        assert!(talk.take_out_last() && talk.messages() == 0);
        talk.say("again");
        assert_eq!(sent(&mut talk)["messages"][0]["content"][0]["text"], "again");
    }

    #[test]
    fn a_tail_begins_with_the_assistant_and_is_copied_whole() {
        let talk = spoken(&["one", "two", "three", "four", "five"]);
        assert_eq!(talk.tail(10_000), 1..5);
        assert_eq!(talk.tail(140), 3..5);
        assert_eq!(talk.tail(20), 5..5);
        let mut other = talk.fresh(100);
        other.say("summary");
        other.copy(&talk, 3..5);
        let messages = sent(&mut other)["messages"].clone();
        assert_eq!(messages[1], serde_json::from_str::<Value>(talk.message(3)).unwrap());
        assert_eq!(messages[2]["content"][0]["text"], "five");
        let mut other = talk.fresh(100);
        other.say("summary");
        other.copy_words(&talk, 100);
        assert_eq!(sent(&mut other)["messages"][0]["content"][1]["text"], "five");
    }
}
