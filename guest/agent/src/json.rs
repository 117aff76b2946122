//! JSON as text: pieces are taken from a reply and put into a request without being built up in between.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// Deeper replies are unreadable. Tool inputs are flat; what a host would need a deep stack for has no use.
pub const DEPTH_MAX: usize = 64;

/// Appends `text` as a JSON string.
pub fn quote(out: &mut Vec<u8>, text: &str) {
    // Writing to a Vec cannot fail, and a str is always a JSON string.
    let _ = serde_json::to_writer(out, text);
}

/// `text` as a JSON string.
pub fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    quote(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// The text of a raw JSON string; nothing if it is not one.
pub fn text(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    unquoted(raw?.get())
}

/// The same for JSON that is at hand as text.
pub fn unquoted(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<String>(raw).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// The value itself, still as JSON, if it is a string.
pub fn string(raw: Option<&RawValue>) -> Option<&str> {
    raw.map(RawValue::get).filter(|raw| raw.starts_with('"'))
}

/// Whether a raw JSON string holds nothing but blanks.
pub fn is_blank(raw: &str) -> bool {
    match raw.as_bytes().get(1) {
        Some(first) if first.is_ascii_graphic() && !matches!(first, b'\\' | b'"') => false,
        _ => serde_json::from_str::<String>(raw).map_or(true, |text| text.trim().is_empty()),
    }
}

/// Brings a reply into one form: no blanks between tokens, so that it fits on a line, and no half surrogate pairs
/// (`\ud800`), which no UTF-8 text could carry. Returns whether its nesting is within bounds.
///
/// It only ever shortens, so it works in place. What was no JSON before is no JSON afterwards: two scalars keep a blank
/// between them.
pub fn tidy(bytes: &mut Vec<u8>) -> bool {
    let (mut from, mut to, mut depth, mut deepest) = (0, 0, 0_usize, 0);
    while from < bytes.len() {
        let byte = bytes[from];
        match byte {
            b'"' => {
                let (end, has_escapes) = string_end(bytes, from);
                if has_escapes {
                    mend_surrogates(&mut bytes[from..end]);
                }
                if to < from {
                    bytes.copy_within(from..end, to);
                }
                to += end - from;
                from = end;
                continue;
            }
            b' ' | b'\t' | b'\n' | b'\r' => {
                let next = bytes[from..].iter().position(|b| !matches!(b, b' ' | b'\t' | b'\n' | b'\r'));
                from = next.map_or(bytes.len(), |skip| from + skip);
                let between =
                    to > 0 && from < bytes.len() && !is_structure(bytes[to - 1]) && !is_structure(bytes[from]);
                if between {
                    bytes[to] = b' ';
                    to += 1;
                }
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        bytes[to] = byte;
        to += 1;
        from += 1;
    }
    bytes.truncate(to);
    deepest <= DEPTH_MAX
}

fn is_structure(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':' | b'"')
}

/// Where the string that begins at `start` ends, its quote included, and whether it has `\u` escapes.
fn string_end(bytes: &[u8], start: usize) -> (usize, bool) {
    let (mut at, mut has_escapes) = (start + 1, false);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return (at + 1, has_escapes),
            b'\\' => {
                has_escapes |= bytes.get(at + 1) == Some(&b'u');
                at += 2;
            }
            _ => at += 1,
        }
    }
    (bytes.len(), has_escapes)
}

/// Replaces each `\uXXXX` that is half of a surrogate pair, without its other half, by U+FFFD.
fn mend_surrogates(string: &mut [u8]) {
    let mut at = 0;
    while at + 1 < string.len() {
        if string[at] != b'\\' {
            at += 1;
            continue;
        }
        match surrogate(string, at) {
            None => at += 2,
            Some(first) if first < 0xDC00 && surrogate(string, at + 6).map_or(false, |low| low >= 0xDC00) => at += 12,
            Some(_) => {
                string[at..at + 6].copy_from_slice(b"\\ufffd");
                at += 6;
            }
        }
    }
}

/// The surrogate that is escaped at `at`, if one is.
fn surrogate(string: &[u8], at: usize) -> Option<u16> {
    let escape = string.get(at..at + 6)?;
    if !escape.starts_with(b"\\u") {
        return None;
    }
    let code = u16::from_str_radix(std::str::from_utf8(&escape[2..]).ok()?, 16).ok()?;
    (0xD800..0xE000).contains(&code).then_some(code)
}

/// `text`, or its first and last part if it is longer than `bytes_max`, with a line between that says so.
pub fn cut(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let mut head = bytes_max / 10 * 6;
    let mut tail = text.len() - bytes_max / 10 * 4;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    Cow::Owned(format!("{}\n[... {} bytes left out ...]\n{}", &text[..head], tail - head, &text[tail..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tidied(text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        tidy(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn blanks_go_outside_strings_only() {
        assert_eq!(tidied(" { \"a b\\\" c\" :\n[ 1 ,\t2 ] }\r\n"), r#"{"a b\" c":[1,2]}"#);
    }

    #[test]
    fn what_was_no_json_does_not_become_json() {
        for text in ["1 2", "tr ue", "[1 2]", "{\"a\" \"b\"}", "\"open", "\\", "\"\\"] {
            assert!(serde_json::from_str::<serde_json::Value>(&tidied(text)).is_err(), "{}", text);
        }
    }

    #[test]
    fn half_surrogates_become_replacement_characters() {
        assert_eq!(
            tidied(r#""\ud83d\ude00 \ud800 \uDE00 \\ud800 \ud800\ud83d\ude00 \ud8""#),
            r#""\ud83d\ude00 \ufffd \ufffd \\ud800 \ufffd\ud83d\ude00 \ud8""#
        );
    }

    #[test]
    fn deep_nesting_is_found() {
        let deep = |n: usize| tidy(&mut ("[".repeat(n) + &"]".repeat(n)).into_bytes());
        assert!(deep(DEPTH_MAX) && !deep(DEPTH_MAX + 1));
        assert!(tidy(&mut format!("\"{}\"", "[".repeat(DEPTH_MAX + 1)).into_bytes()));
    }

    #[test]
    fn a_long_text_keeps_both_ends_at_whole_characters() {
        let text = "äöü".repeat(100);
        let short = cut(&text, 101);
        assert!(short.starts_with("äöü") && short.ends_with("äöü") && short.contains("bytes left out"));
        assert_eq!(cut("abc", 3), "abc");
    }

    #[test]
    fn blank_strings_are_found_through_their_escapes() {
        for raw in [r#""""#, r#"" ""#, r#""\n\t ""#, "\"\u{a0}\"", r#""\u00a0""#] {
            assert!(is_blank(raw), "{}", raw);
        }
        for raw in [r#""a""#, r#""\\""#, r#"" a""#, "\"ä\""] {
            assert!(!is_blank(raw), "{}", raw);
        }
    }
}
