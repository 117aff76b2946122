//! What the machine is like, as far as the model was told.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::json;

/// A host that says more about its machine than this says too much; the rest is not kept.
const BYTES_MAX: usize = 8192;

/// Keys of every reply, which are no facts.
const ENVELOPE: [&str; 3] = ["steering", "interrupt", "moved"];

/// Facts by name, each value as JSON.
#[derive(Default)]
pub struct Facts(BTreeMap<String, String>);

/// What is new since the model was last told.
pub struct Change {
    pub names: Vec<String>,
    pub text: String,
}

impl Facts {
    /// Takes the answer of a `machine` effect; an unreadable one changes nothing.
    pub fn learn(&mut self, reply: &str) -> Option<Change> {
        let found: BTreeMap<String, &RawValue> = serde_json::from_str(reply).ok()?;
        let mut room = BYTES_MAX;
        let mut facts = BTreeMap::new();
        for (name, raw) in found {
            let bytes = name.len() + raw.get().len();
            let bare = raw.get() == "null" || name.trim().is_empty() || ENVELOPE.contains(&name.as_str());
            if !bare && bytes <= room {
                room -= bytes;
                facts.insert(name, raw.get().to_owned());
            }
        }
        let mut names: Vec<String> = facts
            .iter()
            .filter(|(name, value)| self.0.get(*name) != Some(value))
            .map(|(name, _)| name.clone())
            .collect();
        let gone: Vec<String> = self.0.keys().filter(|name| !facts.contains_key(*name)).cloned().collect();
        if names.is_empty() && gone.is_empty() {
            return None;
        }
        let mut text = String::new();
        for name in &names {
            line(&mut text, name, &facts[name]);
        }
        for name in &gone {
            text.push_str(&format!("{}: no longer known\n", name));
        }
        self.0 = facts;
        names.extend(gone);
        names.sort();
        Some(Change { names, text })
    }

    /// All facts, one a line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.0 {
            line(&mut text, name, value);
        }
        text
    }

    /// Forgets what the model was told, so that it is told anew.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

fn line(out: &mut String, name: &str, value: &str) {
    let raw: Option<&RawValue> = serde_json::from_str(value).ok();
    let list: Option<Vec<String>> = serde_json::from_str(value).ok();
    let shown = match list {
        Some(items) => items.join(", "),
        None => json::text(raw).map_or_else(|| value.to_owned(), |text| text.into_owned()),
    };
    out.push_str(&format!("{}: {}\n", name, shown));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_facts_are_no_change() {
        let mut facts = Facts::default();
        let first = facts.learn(r#"{"system":"Linux x86_64","tools":["git","rg"],"moved":true}"#).unwrap();
        assert_eq!(first.names, ["system", "tools"]);
        assert_eq!(first.text, "system: Linux x86_64\ntools: git, rg\n");
        assert!(facts.learn(r#"{"tools":["git","rg"],"system":"Linux x86_64"}"#).is_none());
    }

    #[test]
    fn only_what_differs_is_told() {
        let mut facts = Facts::default();
        facts.learn(r#"{"date":"2026-11-29","system":"Linux x86_64","cores":2}"#).unwrap();
        let change = facts.learn(r#"{"date":"2026-11-29","system":"Linux aarch64"}"#).unwrap();
        assert_eq!(change.names, ["cores", "system"]);
        assert_eq!(change.text, "system: Linux aarch64\ncores: no longer known\n");
        assert_eq!(facts.text(), "date: 2026-11-29\nsystem: Linux aarch64\n");
    }

    #[test]
    fn an_unreadable_answer_changes_nothing_and_a_flood_is_cut() {
        let mut facts = Facts::default();
        facts.learn(r#"{"system":"Linux"}"#).unwrap();
        assert!(facts.learn("nonsense").is_none() && facts.learn("[1]").is_none());
        let flood = format!(r#"{{"a":"{}","system":"Linux"}}"#, "x".repeat(BYTES_MAX));
        assert!(facts.learn(&flood).is_none());
    }
}
