//! One line of the transcript: an event as a JSON object, the key `event` first.

use crate::json;
use crate::World;

pub struct Line(Vec<u8>);

impl Line {
    pub fn new(event: &str) -> Line {
        let mut line = Line(Vec::new());
        line.0.extend_from_slice(b"{\"event\":");
        json::quote(&mut line.0, event);
        line
    }

    pub fn text(self, key: &str, text: &str) -> Line {
        let mut line = self.key(key);
        json::quote(&mut line.0, text);
        line
    }

    /// `raw` is JSON on one line.
    pub fn raw(self, key: &str, raw: &str) -> Line {
        let mut line = self.key(key);
        line.0.extend_from_slice(raw.as_bytes());
        line
    }

    pub fn number(self, key: &str, number: u64) -> Line {
        self.raw(key, &number.to_string())
    }

    pub fn flag(self, key: &str, flag: bool) -> Line {
        self.raw(key, if flag { "true" } else { "false" })
    }

    pub fn emit<W: World>(mut self, world: &mut W) {
        self.0.extend_from_slice(b"}\n");
        world.emit(&self.0);
    }

    fn key(mut self, key: &str) -> Line {
        self.0.push(b',');
        json::quote(&mut self.0, key);
        self.0.push(b':');
        self
    }
}
