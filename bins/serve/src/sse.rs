//! Server-sent events: frames, pings and the response head.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::Stream;
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, Sleep};

/// `data: {json}` and an empty line.
///
/// JSON text holds no line break, so one `data:` line is enough.
#[must_use]
pub fn data(value: &impl Serialize) -> Bytes {
    let mut frame = BytesMut::with_capacity(256);
    frame.put_slice(b"data: ");
    write_json(&mut frame, value);
    frame.put_slice(b"\n\n");
    frame.freeze()
}

/// `event: NAME`, `data: {json}` and an empty line.
#[must_use]
pub fn named(event: &str, value: &impl Serialize) -> Bytes {
    let mut frame = BytesMut::with_capacity(256);
    frame.put_slice(b"event: ");
    frame.put_slice(event.as_bytes());
    frame.put_slice(b"\ndata: ");
    write_json(&mut frame, value);
    frame.put_slice(b"\n\n");
    frame.freeze()
}

/// The last frame of a stream that went well.
pub const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

/// A comment, which clients skip: it keeps proxies and clients from giving up during a long prefill.
pub const PING: Bytes = Bytes::from_static(b": ping\n\n");

/// A response whose body is `frames`, with a ping after each `ping` without a frame.
pub fn response<S>(frames: S, ping: Duration) -> Response
where
    S: Stream<Item = Bytes> + Send + 'static,
{
    let body = Body::from_stream(Pinged {
        frames: Box::pin(frames),
        ping,
        timer: Box::pin(tokio::time::sleep(ping)),
    });
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx buffers responses unless told not to.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A receiver as a stream.
#[derive(Debug)]
pub struct Received<T>(pub UnboundedReceiver<T>);

impl<T> Stream for Received<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(cx)
    }
}

struct Pinged<S> {
    frames: Pin<Box<S>>,
    ping: Duration,
    timer: Pin<Box<Sleep>>,
}

impl<S: Stream<Item = Bytes>> Stream for Pinged<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Instant::now() + self.ping;
        if let Poll::Ready(frame) = self.frames.as_mut().poll_next(cx) {
            self.timer.as_mut().reset(next);
            return Poll::Ready(frame.map(Ok));
        }
        if self.timer.as_mut().poll(cx).is_ready() {
            self.timer.as_mut().reset(next);
            return Poll::Ready(Some(Ok(PING)));
        }
        Poll::Pending
    }
}

fn write_json(frame: &mut BytesMut, value: &impl Serialize) {
    match serde_json::to_vec(value) {
        Ok(json) => frame.put_slice(&json),
        // Our own types always serialise; if one ever did not, an empty object keeps the stream readable.
        Err(_) => frame.put_slice(b"{}"),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn line_breaks_in_text_stay_inside_one_data_line() {
        let frame = data(&"a\nb\r\u{2028}");
        assert_eq!(frame, "data: \"a\\nb\\r\u{2028}\"\n\n".as_bytes());
        assert_eq!(named("x", &1), "event: x\ndata: 1\n\n".as_bytes());
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_comes_only_when_nothing_else_did() {
        let (send, receive) = mpsc::unbounded_channel();
        let response = response(Received(receive), Duration::from_secs(10));
        let mut body = response.into_body().into_data_stream();
        send.send(data(&1)).unwrap();
        assert_eq!(body.next().await.unwrap().unwrap(), "data: 1\n\n");
        // Time is paused: it jumps to the next timer whenever everything waits.
        assert_eq!(body.next().await.unwrap().unwrap(), PING);
        assert_eq!(body.next().await.unwrap().unwrap(), PING);
        drop(send);
        assert!(body.next().await.is_none());
    }
}
