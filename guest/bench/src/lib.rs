//! Work of several kinds, to measure what instrumentation costs: `--arg work=NAME --arg rounds=N`.
//!
//! Each kind ends in a number that depends on all of its work, so that nothing can be left out.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use hhd_guest::{emit_line, refuse, Args};
use serde_json::{json, Value};

hhd_guest::program!(run);

type Work = fn(u64) -> u64;

const KINDS: [(&str, Work); 10] = [
    ("hash", hash),
    ("bytes", bytes),
    ("sum", sum),
    ("vector", vector),
    ("float", float),
    ("json", json_round),
    ("json_parse", json_parse),
    ("maps", maps),
    ("sort", sort),
    ("recursion", recursion),
];

/// The program.
pub fn run() {
    let args = Args::read(&["work", "rounds"]);
    let name = args.text("work").unwrap_or("hash");
    let rounds = args.number("rounds", 1, 1 << 40);
    match KINDS.iter().find(|(kind, _)| *kind == name) {
        Some((_, work)) => emit_line(&format!("bench: {name} {rounds} {:016x}", work(rounds))),
        None => refuse(&format!("there is no work named {name:?}")),
    }
}

/// A generator of numbers that look random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn noise(length: usize) -> Vec<u8> {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    (0..length).map(|_| dice.roll() as u8).collect()
}

/// FNV-1a over 64 KiB, byte by byte.
fn hash(rounds: u64) -> u64 {
    let input = noise(1 << 16);
    let mut state = 0xcbf2_9ce4_8422_2325;
    for _ in 0..rounds {
        for byte in &input {
            state = (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    state
}

/// Changes 64 KiB in place and counts what it met.
fn bytes(rounds: u64) -> u64 {
    let mut buffer = noise(1 << 16);
    let mut met = 0;
    for round in 0..rounds {
        for byte in buffer.iter_mut() {
            if *byte < 0x40 {
                met += 1;
            }
            *byte = byte.rotate_left(3) ^ round as u8;
        }
    }
    met
}

/// A sum in which each step needs the one before.
fn sum(rounds: u64) -> u64 {
    let mut total: u64 = 1;
    for round in 0..rounds * 65536 {
        total = total.rotate_left(1).wrapping_add(round);
    }
    total
}

/// A sum of independent terms, which a compiler may unroll or vectorise.
fn vector(rounds: u64) -> u64 {
    let numbers: Vec<u32> = noise(1 << 16).into_iter().map(u32::from).collect();
    let mut total: u32 = 0;
    for round in 0..rounds {
        total = total.rotate_left(1) ^ numbers.iter().map(|number| number ^ round as u32).fold(0, u32::wrapping_add);
    }
    u64::from(total)
}

/// A logistic map beside a few roots.
fn float(rounds: u64) -> u64 {
    let (mut x, mut total) = (0.37_f64, 0.0);
    for _ in 0..rounds * 4096 {
        x *= 3.99 * (1.0 - x);
        total += (x + 1.0).sqrt() / (x + 0.5);
    }
    f64::to_bits(total)
}

fn document(entries: u64) -> Value {
    let mut dice = Dice(42);
    let list: Vec<Value> = (0..entries)
        .map(|number| {
            json!({
                "id": format!("toolu_{:08x}", dice.roll() as u32),
                "role": if number % 2 == 0 { "user" } else { "assistant" },
                "content": [
                    {"type": "text", "text": format!("Line {number}\nof \"some\" text with \u{e9}scapes and {} words", dice.roll() % 99)},
                    {"type": "tool_use", "input": {"path": "src/lib.rs", "line": number, "score": (dice.roll() % 1000) as f64 / 8.0}}
                ],
                "done": number % 3 == 0,
                "next": null
            })
        })
        .collect();
    json!({ "messages": list })
}

/// Parses and prints a document of about 25 kB.
fn json_round(rounds: u64) -> u64 {
    let mut text = document(100).to_string();
    for _ in 0..rounds {
        let value: Value = serde_json::from_str(&text).expect("what was printed is JSON");
        text = value.to_string();
    }
    fold(text.as_bytes())
}

/// Parses a document of about a megabyte, `rounds` times.
fn json_parse(rounds: u64) -> u64 {
    let text = document(4000).to_string();
    let mut found = text.len();
    for _ in 0..rounds {
        let value: Value = serde_json::from_str(&text).expect("what was printed is JSON");
        found += value["messages"].as_array().map_or(0, Vec::len);
    }
    found as u64
}

/// A hasher with fixed keys.
#[derive(Default)]
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// Counts words in an ordered and in a hashed map.
fn maps(rounds: u64) -> u64 {
    let mut dice = Dice(7);
    let mut total = 0;
    for _ in 0..rounds {
        let mut ordered: BTreeMap<String, u64> = BTreeMap::new();
        let mut hashed: HashMap<u64, u64, BuildHasherDefault<Fnv>> = HashMap::default();
        for _ in 0..2000 {
            let key = dice.roll() % 500;
            *ordered.entry(format!("word {key}")).or_default() += key;
            *hashed.entry(key).or_default() += 1;
        }
        total += ordered.values().sum::<u64>() ^ hashed.values().max().copied().unwrap_or(0);
    }
    total
}

/// Sorts numbers and text.
fn sort(rounds: u64) -> u64 {
    let mut dice = Dice(11);
    let mut total = 0;
    for _ in 0..rounds {
        let mut numbers: Vec<u64> = (0..2000).map(|_| dice.roll()).collect();
        numbers.sort_unstable();
        let mut words: Vec<String> = numbers.iter().step_by(4).map(|number| (number % 1000).to_string()).collect();
        words.sort();
        total ^= numbers[1000] ^ words[250].len() as u64;
    }
    total
}

/// The doubly recursive Fibonacci function, and a tree that is built and walked.
fn recursion(rounds: u64) -> u64 {
    (0..rounds).map(|round| fibonacci(20 + (round & 1)) + Tree::grow(10, round).total()).fold(0, u64::wrapping_add)
}

fn fibonacci(n: u64) -> u64 {
    if n < 2 {
        n
    } else {
        fibonacci(n - 1) + fibonacci(n - 2)
    }
}

struct Tree {
    value: u64,
    branches: Option<Box<(Tree, Tree)>>,
}

impl Tree {
    fn grow(depth: u32, value: u64) -> Tree {
        let branches = (depth > 0).then(|| {
            Box::new((Tree::grow(depth - 1, value.rotate_left(3) ^ 1), Tree::grow(depth - 1, value.rotate_left(5) ^ 2)))
        });
        Tree { value, branches }
    }

    fn total(&self) -> u64 {
        let below = self.branches.as_ref().map_or(0, |both| both.0.total().wrapping_add(both.1.total()));
        self.value.wrapping_add(below)
    }
}

fn fold(bytes: &[u8]) -> u64 {
    let mut hasher = Fnv::default();
    hasher.write(bytes);
    hasher.finish()
}
