//! The tools: how the model is told of them, and whether a call of one is well formed.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::json;

#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// A whole number from 1 to this.
    Whole(u64),
    Flag,
}

struct Param {
    name: &'static str,
    kind: Kind,
    required: bool,
    about: &'static str,
}

struct Tool {
    name: &'static str,
    about: &'static str,
    params: &'static [Param],
}

/// More lines than any file that a tool reads.
const LINES_MAX: u64 = 1_000_000_000;

const fn need(name: &'static str, kind: Kind, about: &'static str) -> Param {
    Param { name, kind, required: true, about }
}

const fn may(name: &'static str, kind: Kind, about: &'static str) -> Param {
    Param { name, kind, required: false, about }
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "bash",
        about: "Runs a shell command in the workspace's top folder and returns what it wrote. Each call is a new shell: folder and \
                variables do not last from one to the next. Not for reading or changing files where another tool does it.",
        params: &[
            need("command", Kind::Text, "The command."),
            may("timeout_seconds", Kind::Whole(3600), "When to end it; the default is 120."),
        ],
    },
    Tool {
        name: "read",
        about: "Returns lines of a text file exactly as they are.",
        params: &[
            need("path", Kind::Text, "The file, relative to the workspace."),
            may("offset", Kind::Whole(LINES_MAX), "The first line, counted from 1."),
            may("limit", Kind::Whole(LINES_MAX), "How many lines at most."),
        ],
    },
    Tool {
        name: "write",
        about: "Writes a whole file, making its folders where they are missing. To change part of a file, use edit.",
        params: &[
            need("path", Kind::Text, "The file, relative to the workspace."),
            need("content", Kind::Text, "The whole new content."),
        ],
    },
    Tool {
        name: "edit",
        about: "Replaces a piece of a file. The piece must be there exactly once, unless replace_all is set; read the file first.",
        params: &[
            need("path", Kind::Text, "The file, relative to the workspace."),
            need("old", Kind::Text, "The piece to replace, exactly as in the file, with enough around it to be unique."),
            need("new", Kind::Text, "What to put in its place."),
            may("replace_all", Kind::Flag, "Replace the piece wherever it stands."),
        ],
    },
    Tool {
        name: "glob",
        about: "Lists files whose path matches a pattern, such as src/**/*.rs.",
        params: &[
            need("pattern", Kind::Text, "The pattern; ** crosses folders."),
            may("path", Kind::Text, "The folder to look in, relative to the workspace; the default is all of it."),
        ],
    },
    Tool {
        name: "grep",
        about: "Finds lines that match a regular expression, as PATH:LINE:TEXT.",
        params: &[
            need("pattern", Kind::Text, "The regular expression."),
            may("path", Kind::Text, "The file or folder to look in, relative to the workspace; the default is all of it."),
            may("glob", Kind::Text, "Only files whose name matches this pattern, such as *.py."),
            may("ignore_case", Kind::Flag, "Whether capitals do not matter."),
            may("limit", Kind::Whole(LINES_MAX), "How many lines at most."),
        ],
    },
];

/// The `tools` of a model request.
pub fn definitions() -> Vec<u8> {
    let mut out = vec![b'['];
    for (index, tool) in TOOLS.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"name\":");
        json::quote(&mut out, tool.name);
        out.extend_from_slice(b",\"description\":");
        json::quote(&mut out, tool.about);
        out.extend_from_slice(b",\"input_schema\":");
        schema(&mut out, tool.params);
        out.push(b'}');
    }
    out.push(b']');
    out
}

fn schema(out: &mut Vec<u8>, params: &[Param]) {
    out.extend_from_slice(b"{\"type\":\"object\",\"properties\":{");
    for (index, param) in params.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json::quote(out, param.name);
        out.extend_from_slice(b":{\"type\":");
        match param.kind {
            Kind::Text => out.extend_from_slice(b"\"string\""),
            Kind::Flag => out.extend_from_slice(b"\"boolean\""),
            Kind::Whole(most) => {
                out.extend_from_slice(format!("\"integer\",\"minimum\":1,\"maximum\":{}", most).as_bytes())
            }
        }
        out.extend_from_slice(b",\"description\":");
        json::quote(out, param.about);
        out.push(b'}');
    }
    out.extend_from_slice(b"},\"required\":[");
    for (index, param) in params.iter().filter(|param| param.required).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json::quote(out, param.name);
    }
    out.extend_from_slice(b"],\"additionalProperties\":false}");
}

/// Whether `name` may stand in a conversation; services refuse others.
pub fn is_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Checks a call; on failure returns what the model needs to know to do better. `input` is a JSON object.
pub fn check(name: &str, input: &str) -> Result<(), String> {
    let tool = match TOOLS.iter().find(|tool| tool.name == name) {
        Some(tool) => tool,
        None => {
            let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
            return Err(format!("There is no such tool; there are {}.", names.join(", ")));
        }
    };
    let given: BTreeMap<String, &RawValue> =
        serde_json::from_str(input).map_err(|_| "The input must be a JSON object.".to_owned())?;
    for param in tool.params {
        match given.get(param.name) {
            None if param.required => return Err(format!("{} needs {}.", name, param.name)),
            None => {}
            Some(raw) => {
                fits(param.kind, raw.get()).map_err(|what| format!("{} of {} must be {}.", param.name, name, what))?
            }
        }
    }
    match given.keys().find(|key| tool.params.iter().all(|param| param.name != key.as_str())) {
        None => Ok(()),
        Some(other) => {
            let names: Vec<&str> = tool.params.iter().map(|param| param.name).collect();
            Err(format!("{} knows no {:?}; it takes {}.", name, json::cut(other, 100), names.join(", ")))
        }
    }
}

fn fits(kind: Kind, raw: &str) -> Result<(), String> {
    match kind {
        Kind::Text if raw.starts_with('"') => Ok(()),
        Kind::Text => Err("text".to_owned()),
        Kind::Flag if raw == "true" || raw == "false" => Ok(()),
        Kind::Flag => Err("true or false".to_owned()),
        Kind::Whole(most) => match raw.parse::<u64>() {
            Ok(number) if (1..=most).contains(&number) => Ok(()),
            _ => Err(format!("a whole number from 1 to {}", most)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn definitions_name_each_tool_with_a_schema() {
        let tools: Value = serde_json::from_slice(&definitions()).unwrap();
        let names: Vec<&str> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["bash", "read", "write", "edit", "glob", "grep"]);
        assert_eq!(tools[3]["input_schema"]["required"], serde_json::json!(["path", "old", "new"]));
        assert_eq!(tools[0]["input_schema"]["properties"]["timeout_seconds"]["maximum"], 3600);
    }

    #[test]
    fn well_formed_calls_pass() {
        for (name, input) in [
            ("bash", r#"{"command":"ls"}"#),
            ("bash", r#"{"command":"ls","timeout_seconds":3600}"#),
            ("edit", r#"{"path":"a","old":"b","new":"","replace_all":true}"#),
            ("grep", r#"{"pattern":"x","limit":5,"ignore_case":false,"glob":"*.py","path":"src"}"#),
        ] {
            assert_eq!(check(name, input), Ok(()), "{}", input);
        }
    }

    #[test]
    fn each_fault_of_a_call_is_named() {
        for (name, input, sentence) in [
            ("rm", "{}", "no such tool; there are bash, read"),
            ("bash", "{}", "bash needs command"),
            ("bash", r#"{"command":["ls"]}"#, "command of bash must be text"),
            (
                "bash",
                r#"{"command":"ls","timeout_seconds":"30"}"#,
                "timeout_seconds of bash must be a whole number from 1 to 3600",
            ),
            ("bash", r#"{"command":"ls","timeout_seconds":0}"#, "a whole number"),
            ("read", r#"{"path":"a","offset":-1}"#, "a whole number"),
            ("read", r#"{"path":null}"#, "must be text"),
            ("edit", r#"{"path":"a","old":"b","new":"c","replace_all":1}"#, "true or false"),
            ("write", r#"{"path":"a","content":"b","mode":"x"}"#, "knows no \"mode\"; it takes path, content"),
        ] {
            let error = check(name, input).unwrap_err();
            assert!(error.contains(sentence), "{} gave {}", input, error);
        }
    }
}
