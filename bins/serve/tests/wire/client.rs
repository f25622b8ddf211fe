//! A small HTTP client: one connection a request.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    headers: Vec<(String, String)>,
}

/// An answer whose body is still coming. Dropped, it closes the connection.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: hyper::HeaderMap,
    body: Incoming,
    buffer: String,
    _connection: AbortOnDrop,
}

#[derive(Debug)]
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            headers: Vec::new(),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.into(), value.into()));
        client
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body.to_string().into()))
            .await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Bytes>) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        let connection =
            AbortOnDrop(tokio::spawn(async move { drop(connection.await) }).abort_handle());
        let mut request = Request::builder().method(method).uri(path);
        let given = |name: &str| {
            self.headers
                .iter()
                .any(|(given, _)| given.eq_ignore_ascii_case(name))
        };
        if !given("host") {
            request = request.header(HOST, self.address.to_string());
        }
        if body.is_some() && !given("content-type") {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in self.headers.iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body.unwrap_or_default())).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (head, body) = response.into_parts();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
            buffer: String::new(),
            _connection: connection,
        }
    }
}

impl Answer {
    pub(crate) async fn text(mut self) -> String {
        while self.more().await {}
        self.buffer
    }

    pub(crate) async fn json(self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The body of an answer that must have this status.
    pub(crate) async fn expect(self, status: u16) -> Value {
        let found = self.status;
        let json = self.json().await;
        assert_eq!(found.as_u16(), status, "{json}");
        json
    }

    /// The next server-sent event or comment, without its line breaks.
    pub(crate) async fn frame(&mut self) -> Option<String> {
        loop {
            if let Some((frame, rest)) = self.buffer.split_once("\n\n") {
                let frame = frame.to_owned();
                self.buffer = rest.to_owned();
                return Some(frame);
            }
            if !self.more().await {
                assert_eq!(self.buffer, "", "a frame broke off");
                return None;
            }
        }
    }

    /// All chunks of a stream that must end with `[DONE]`.
    pub(crate) async fn chunks(mut self) -> Vec<Value> {
        assert_eq!(self.status, 200);
        let mut chunks = Vec::new();
        loop {
            let frame = self.frame().await.expect("the stream ends with [DONE]");
            if frame.starts_with(':') {
                continue;
            }
            let data = frame
                .strip_prefix("data: ")
                .unwrap_or_else(|| panic!("{frame}"));
            if data == "[DONE]" {
                assert_eq!(self.frame().await, None, "nothing follows [DONE]");
                return chunks;
            }
            chunks.push(serde_json::from_str(data).unwrap());
        }
    }

    async fn more(&mut self) -> bool {
        match self.body.frame().await {
            None => false,
            Some(frame) => {
                if let Ok(data) = frame.unwrap().into_data() {
                    // The tests only send whole characters at once; a frame's end may still cut one.
                    self.buffer.push_str(
                        std::str::from_utf8(&data).expect("frames end between characters"),
                    );
                }
                true
            }
        }
    }
}
