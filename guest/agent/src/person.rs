//! Hearing the person: what they answer, and what they say while the agent works.

use crate::agent::{Agent, Finish};
use crate::json;
use crate::prompt;
use crate::reply::{self, Reply};
use crate::talk::Role;
use crate::transcript::Line;
use crate::World;

/// So often in a row `input` may bring nothing before the session is finished.
const UNHEARD_MAX: u32 = 8;

impl<W: World> Agent<'_, W> {
    /// Waits for the person and puts what they say into the conversation. With `insist` an empty answer is asked again.
    pub fn ask_person(&mut self, why: &str, text: &str, insist: bool) -> Result<(), Finish> {
        if let Some(text) = self.listen(why, text, insist)? {
            self.say("input", &text);
        }
        Ok(())
    }

    /// Waits for the person; returns their text, or nothing where an empty answer will do or steering came instead.
    pub fn listen(&mut self, why: &str, text: &str, insist: bool) -> Result<Option<String>, Finish> {
        let mut blanks = 0;
        loop {
            Line::new("waiting").text("why", why).emit(self.world);
            let request = ["{\"prompt\":", &json::quoted(text), ",\"why\":", &json::quoted(why), "}"].concat();
            let answer = reply::tidy(self.world.ask("input", request.as_bytes()));
            let reply = answer.as_deref().and_then(reply::read).unwrap_or_default();
            if reply::flag(reply.end) {
                return Err(Finish("ended"));
            }
            self.hear(&reply);
            // Whoever answers has been heard.
            self.interrupted = false;
            let said = json::text(reply.text);
            self.unheard = if said.is_some() { 0 } else { self.unheard + 1 };
            let said = said.filter(|text| !text.trim().is_empty());
            if said.is_some() || !self.steering.is_empty() {
                return Ok(said.map(|text| text.into_owned()));
            }
            blanks += 1;
            if self.unheard >= UNHEARD_MAX || blanks >= UNHEARD_MAX {
                return Err(Finish("no_input"));
            }
            if !insist {
                return Ok(None);
            }
        }
    }

    /// Takes what any reply may carry.
    pub fn hear(&mut self, reply: &Reply) {
        self.steering.extend(reply.steering());
        self.interrupted |= reply::flag(reply.interrupt);
        self.moved |= reply::flag(reply.moved);
    }

    /// Puts what the person said meanwhile into the conversation.
    pub fn say_steering(&mut self) {
        let is_working = self.talk.ends_with(Role::User);
        for text in std::mem::take(&mut self.steering) {
            Line::new("user").text("from", "steering").text("text", &text).emit(self.world);
            if is_working {
                self.talk.say(&[prompt::STEERING, &text].concat());
            } else {
                self.talk.say(&text);
            }
        }
        self.turn_calls = 0;
    }

    /// Puts the person's words into the conversation.
    pub fn say(&mut self, from: &str, text: &str) {
        Line::new("user").text("from", from).text("text", text).emit(self.world);
        self.talk.say(text);
        self.turn_calls = 0;
    }

    /// Tells the model something of our own.
    pub fn note(&mut self, text: &str) {
        Line::new("notice").text("text", text).emit(self.world);
        self.talk.say(text);
    }
}
