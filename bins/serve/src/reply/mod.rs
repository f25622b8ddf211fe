//! From what the engine thread tells to what the client is sent.

pub mod chat;
pub mod completions;
pub mod responses;
pub mod tally;
pub mod token_text;

use std::collections::VecDeque;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use mtp_spec::TokenLogprobs;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::generate::job::{Event, Piece, RunEnd};
use crate::prepare::internal;
use crate::reply::tally::Tally;
use crate::sse;
use crate::wire::error::ApiError;

/// One route's way of telling an answer, piece by piece or whole.
pub trait Reply: Send + 'static {
    /// The whole answer.
    type Whole;

    /// What a stream begins with, before its request has its turn.
    fn opening(&mut self) -> Option<Bytes> {
        None
    }

    /// A generation begins.
    fn begun(&mut self, choice: usize) -> Option<Bytes>;

    /// Log-probabilities of a choice's prompt.
    fn prompt_logprobs(&mut self, choice: usize, logprobs: Vec<TokenLogprobs>) -> Option<Bytes>;

    /// Something to show.
    fn piece(&mut self, piece: Piece) -> Option<Bytes>;

    /// A choice is complete; `last` is given when all are and no frame of their usage follows.
    fn ended(&mut self, end: &RunEnd, last: Option<&Tally>) -> Option<Bytes>;

    /// The frame of the usage, if the client asked for it.
    fn usage(&mut self, tally: &Tally) -> Option<Bytes>;

    /// Whether the client asked for a frame of the usage.
    fn tells_usage(&self) -> bool;

    /// The last frame of a stream that went well.
    fn done(&mut self) -> Option<Bytes> {
        Some(sse::DONE)
    }

    /// The last frame of a stream that failed.
    fn failed(&mut self, error: &ApiError) -> Bytes {
        sse::data(&error.body())
    }

    /// Everything together.
    fn whole(self, tally: &Tally) -> Self::Whole;
}

/// Waits for the whole answer.
///
/// # Errors
/// Whatever the request failed with.
pub async fn whole<R: Reply>(
    mut events: UnboundedReceiver<Event>,
    mut reply: R,
    mut tally: Tally,
) -> Result<R::Whole, ApiError> {
    while let Some(event) = events.recv().await {
        match event {
            Event::Begun { choice, .. } => drop(reply.begun(choice)),
            Event::PromptLogprobs { choice, logprobs } => {
                drop(reply.prompt_logprobs(choice, logprobs));
            }
            Event::Piece(piece) => drop(reply.piece(piece)),
            Event::Ended(end) => {
                tally.add(&end);
                drop(reply.ended(&end, None));
            }
            Event::Failed(error) => return Err(error),
        }
    }
    if tally.is_complete() {
        Ok(reply.whole(&tally))
    } else {
        Err(internal("the engine thread went away"))
    }
}

/// Sends the answer as server-sent events. An error after the head is an event too, and no `[DONE]` follows it.
pub fn streamed<R: Reply>(
    events: UnboundedReceiver<Event>,
    mut reply: R,
    tally: Tally,
    ping: Duration,
) -> Response {
    let frames = reply.opening().into_iter().collect();
    let state = Streaming {
        events,
        reply,
        tally,
        frames,
        over: false,
    };
    let frames = stream::unfold(state, |mut state| async move {
        loop {
            if let Some(frame) = state.frames.pop_front() {
                return Some((frame, state));
            }
            if state.over {
                return None;
            }
            let event = state.events.recv().await;
            state.take(event);
        }
    });
    sse::response(frames, ping)
}

struct Streaming<R> {
    events: UnboundedReceiver<Event>,
    reply: R,
    tally: Tally,
    frames: VecDeque<Bytes>,
    over: bool,
}

impl<R: Reply> Streaming<R> {
    fn take(&mut self, event: Option<Event>) {
        match event {
            Some(Event::Begun { choice, .. }) => self.frames.extend(self.reply.begun(choice)),
            Some(Event::PromptLogprobs { choice, logprobs }) => {
                self.frames
                    .extend(self.reply.prompt_logprobs(choice, logprobs));
            }
            Some(Event::Piece(piece)) => self.frames.extend(self.reply.piece(piece)),
            Some(Event::Ended(end)) => {
                self.tally.add(&end);
                let last = self.tally.is_complete() && !self.reply.tells_usage();
                let tally = last.then_some(&self.tally);
                self.frames.extend(self.reply.ended(&end, tally));
                if self.tally.is_complete() {
                    self.frames.extend(self.reply.usage(&self.tally));
                    self.frames.extend(self.reply.done());
                    self.over = true;
                }
            }
            Some(Event::Failed(error)) => self.fail(&error),
            None => self.fail(&internal("the engine thread went away")),
        }
    }

    fn fail(&mut self, error: &ApiError) {
        self.frames.push_back(self.reply.failed(error));
        self.over = true;
    }
}
