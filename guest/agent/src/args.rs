//! The arguments of a session, read and checked.

use std::collections::BTreeMap;

/// Below this, prompt and tools leave no room to work.
pub const CONTEXT_TOKENS_MIN: u64 = 8_000;

const DEFAULT_CONTEXT_TOKENS: u64 = 200_000;
const DEFAULT_MAX_TOKENS: u64 = 16_000;

/// What `protocol/spec/agent-effects.md` lists under Arguments.
#[derive(Debug, PartialEq)]
pub struct Args {
    pub prompt: Option<String>,
    pub once: bool,
    pub turn_limit: u64,
    pub call_limit: u64,
    pub context_tokens: u64,
    pub max_tokens: u64,
}

impl Args {
    /// Reads a JSON object of text to text; on failure returns one sentence that says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Args, String> {
        let mut given: BTreeMap<String, String> = serde_json::from_slice(bytes)
            .map_err(|error| format!("The arguments are not a JSON object of text to text: {}.", error))?;
        let prompt = given.remove("prompt").filter(|text| !text.trim().is_empty());
        let once = match given.remove("once").as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => return Err(format!("once is {:?}; it must be true or false.", other)),
        };
        let turn_limit = number(&mut given, "turn_limit", 100, 1, 10_000)?;
        let call_limit = number(&mut given, "call_limit", 1_000, 1, 1_000_000)?;
        let context_tokens =
            number(&mut given, "context_tokens", DEFAULT_CONTEXT_TOKENS, CONTEXT_TOKENS_MIN, 10_000_000)?;
        let most = (context_tokens / 2).min(1_000_000);
        let max_tokens = number(&mut given, "max_tokens", DEFAULT_MAX_TOKENS.min(context_tokens / 4), 256, most)?;
        match given.keys().next() {
            Some(key) => Err(format!(
                "There is no argument {:?}; there are prompt, once, turn_limit, call_limit, context_tokens and max_tokens.",
                key
            )),
            None => Ok(Args { prompt, once, turn_limit, call_limit, context_tokens, max_tokens }),
        }
    }
}

fn number(given: &mut BTreeMap<String, String>, key: &str, default: u64, least: u64, most: u64) -> Result<u64, String> {
    let text = match given.remove(key) {
        None => return Ok(default),
        Some(text) => text,
    };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(value) if digits && (least..=most).contains(&value) => Ok(value),
        _ => Err(format!("{} is {:?}; it must be a whole number from {} to {}.", key, text, least, most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_fill_what_is_absent() {
        let args = Args::parse(b"{}").unwrap();
        assert_eq!(
            args,
            Args {
                prompt: None,
                once: false,
                turn_limit: 100,
                call_limit: 1000,
                context_tokens: 200_000,
                max_tokens: 16_000
            }
        );
        assert_eq!(Args::parse(br#"{"context_tokens":"8000"}"#).unwrap().max_tokens, 2000);
    }

    #[test]
    fn each_wrong_argument_is_named_in_a_sentence() {
        let cases = [
            ("[]", "not a JSON object"),
            (r#"{"once":true}"#, "not a JSON object"),
            (r#"{"once":"yes"}"#, "once is \"yes\""),
            (r#"{"turn_limit":"0"}"#, "turn_limit is \"0\"; it must be a whole number from 1 to 10000"),
            (r#"{"turn_limit":"+1"}"#, "turn_limit"),
            (r#"{"call_limit":"99999999999999999999"}"#, "call_limit"),
            (r#"{"context_tokens":"10000","max_tokens":"5001"}"#, "from 256 to 5000"),
            (r#"{"colour":"red"}"#, "no argument \"colour\""),
        ];
        for (given, sentence) in cases {
            let error = Args::parse(given.as_bytes()).unwrap_err();
            assert!(error.contains(sentence), "{} gave {}", given, error);
        }
    }

    #[test]
    fn a_blank_prompt_is_none() {
        assert_eq!(Args::parse(br#"{"prompt":" \n"}"#).unwrap().prompt, None);
    }
}
