//! What a host answers, read so that nothing in it can do harm: every part may be missing, of another type, or huge.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json;

/// An error page may be long; the person is shown this much of it, the transcript has it whole.
const SENTENCE_BYTES_MAX: usize = 500;

/// The keys of every reply that there is. An effect looks at its own; the last three may come with any.
#[derive(Deserialize, Default)]
pub struct Reply<'a> {
    #[serde(borrow, default)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub is_error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub end: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub steering: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub interrupt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub moved: Option<&'a RawValue>,
}

/// One content block of a model reply.
#[derive(Deserialize, Default)]
pub struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub input: Option<&'a RawValue>,
}

/// The `error` of a model reply.
#[derive(Deserialize, Default)]
struct Fault<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

/// A model call that failed.
pub struct Failure {
    pub status: Option<u64>,
    pub kind: String,
    pub message: String,
}

impl Failure {
    pub fn unreadable() -> Failure {
        let message = "The reply could not be read.".to_owned();
        Failure { status: None, kind: "unreadable_reply".to_owned(), message }
    }

    /// What happened, for the person.
    pub fn sentence(&self) -> String {
        let what = if self.message.is_empty() { &self.kind } else { &self.message };
        let what = json::cut(what.trim().trim_end_matches('.'), SENTENCE_BYTES_MAX);
        match self.status {
            Some(status) => format!("{} (status {}).", what, status),
            None => format!("{}.", what),
        }
    }

    /// Whether the service said that the request does not fit.
    pub fn is_too_long(&self) -> bool {
        let message = self.message.to_ascii_lowercase();
        self.status == Some(413)
            || self.status == Some(400)
                && [
                    "prompt is too long",
                    "context window",
                    "context limit",
                    "context length",
                    "input length",
                    "too many tokens",
                ]
                .iter()
                .any(|words| message.contains(words))
    }
}

/// The text of a reply in the one form that the rest of the agent reads, or nothing if it cannot be brought there.
pub fn tidy(mut bytes: Vec<u8>) -> Option<String> {
    if !json::tidy(&mut bytes) {
        return None;
    }
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => Some(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

/// Reads a tidied reply; nothing if it is no JSON object.
pub fn read(text: &str) -> Option<Reply<'_>> {
    if !text.starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Whether a key holds exactly `true`.
pub fn flag(raw: Option<&RawValue>) -> bool {
    raw.map_or(false, |raw| raw.get() == "true")
}

impl<'a> Reply<'a> {
    /// What the person said meanwhile, without blanks.
    pub fn steering(&self) -> Vec<String> {
        let texts: Vec<&RawValue> =
            self.steering.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let texts = texts.into_iter().filter_map(|raw| json::text(Some(raw)));
        texts.filter(|text| !text.trim().is_empty()).map(|text| text.into_owned()).collect()
    }

    /// The blocks of a model reply; nothing if there is no list of them.
    pub fn blocks(&self) -> Option<Vec<&'a RawValue>> {
        serde_json::from_str(self.content?.get()).ok()
    }

    /// How a model call failed, if this says so.
    pub fn failure(&self) -> Option<Failure> {
        let raw = self.error?;
        let fault: Fault = serde_json::from_str(raw.get()).unwrap_or_default();
        Some(Failure {
            status: self.status.and_then(|raw| raw.get().parse().ok()),
            kind: json::text(fault.kind).unwrap_or_default().into_owned(),
            message: json::text(fault.message).or_else(|| json::text(Some(raw))).unwrap_or_default().into_owned(),
        })
    }

    /// The numbers of `usage`, by name. (`event` is what a line of the transcript is named by.)
    pub fn usage(&self) -> Vec<(String, u64)> {
        let raw = match self.usage {
            None => return Vec::new(),
            Some(raw) => raw,
        };
        let found: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
        found
            .into_iter()
            .filter(|(key, _)| key != "event")
            .filter_map(|(key, raw)| Some((key, raw.get().parse().ok()?)))
            .collect()
    }
}

/// Reads one block; what is no object has no type either.
pub fn block(raw: &RawValue) -> Block<'_> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}
