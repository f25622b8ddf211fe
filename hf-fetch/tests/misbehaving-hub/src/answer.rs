//! From a request to a right or a wrong answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;

use crate::content::Content;
use crate::fault::Fault;
use crate::repository::{Repository, sha256};
use crate::{Shared, lock};

/// Bytes of a piece of a body.
const PIECE_BYTES: usize = 256 << 10;

pub(crate) fn answer(shared: &Arc<Shared>, request: &Request) -> Response {
    if request.method() == axum::http::Method::CONNECT {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let path = decode(request.uri().path());
    let query = request.uri().query().unwrap_or_default().to_owned();
    let raw_revision = request
        .uri()
        .path()
        .rsplit('/')
        .next()
        .map(decode)
        .unwrap_or_default();
    let parts: Vec<&str> = path.trim_start_matches('/').splitn(6, '/').collect();
    let (id, what) = match parts.as_slice() {
        ["api", "models", owner, name, "revision", ..] => (format!("{owner}/{name}"), "revision"),
        ["api", "models", owner, name, "tree", ..] => (format!("{owner}/{name}"), "tree"),
        [owner, name, "resolve", ..] => (format!("{owner}/{name}"), "resolve"),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let commit = match (what, parts.as_slice()) {
        ("tree", [.., "tree", commit]) | ("resolve", [_, _, _, commit, ..]) => Some(*commit),
        _ => None,
    };
    let found = lock(&shared.repositories).get(&id).and_then(|commits| {
        let named = commits
            .iter()
            .find(|repository| commit.is_none_or(|c| c == repository.commit));
        commit.map_or(commits.last(), |_| named).cloned()
    });
    let Some(repository) = found else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if let Some(token) = &repository.token {
        let sent = request
            .headers()
            .get(header::AUTHORIZATION)
            .and_then(|v| v.to_str().ok());
        if sent != Some(&format!("Bearer {token}")) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
    }
    match what {
        "revision" => revision(shared, &repository, &raw_revision),
        "tree" => tree(&repository, &query),
        _ => {
            let file = path
                .trim_start_matches('/')
                .splitn(5, '/')
                .nth(4)
                .unwrap_or_default();
            resolve(shared, &repository, file, request)
        }
    }
}

fn revision(shared: &Shared, repository: &Repository, revision: &str) -> Response {
    match shared.next_fault(&format!("revision:{revision}")) {
        Some(Fault::Status(status, retry_after)) => status_only(status, retry_after),
        _ if revision == "nosuch" => StatusCode::NOT_FOUND.into_response(),
        _ => axum::Json(serde_json::json!({"id": repository.id, "sha": repository.commit}))
            .into_response(),
    }
}

fn tree(repository: &Repository, query: &str) -> Response {
    let page = query
        .split('&')
        .find_map(|p| p.strip_prefix("cursor="))
        .and_then(|p| p.parse().ok())
        .unwrap_or(0);
    let (entries, more) = repository.tree(page);
    let mut response = axum::Json(entries).into_response();
    if more {
        let (id, commit, next) = (&repository.id, &repository.commit, page + 1);
        let link =
            format!("</api/models/{id}/tree/{commit}?recursive=true&cursor={next}>; rel=\"next\"");
        if let Ok(link) = link.parse() {
            response.headers_mut().insert(header::LINK, link);
        }
    }
    response
}

/// The parts of an answer that a fault can change.
struct Draft {
    status: StatusCode,
    headers: HeaderMap,
    content: Content,
    start: u64,
    end: u64,
    length: bool,
    fault: Option<Fault>,
}

fn resolve(
    shared: &Arc<Shared>,
    repository: &Repository,
    path: &str,
    request: &Request,
) -> Response {
    let Some(content) = repository.files.get(path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let fault = shared.next_fault(path);
    match &fault {
        Some(Fault::Status(status, retry_after)) => {
            return status_only(*status, retry_after.clone());
        }
        Some(Fault::LoginPage) => {
            let page = format!("<html><body>please log in{}</body></html>", " ".repeat(600));
            return ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response();
        }
        Some(Fault::Unsatisfiable) => return StatusCode::RANGE_NOT_SATISFIABLE.into_response(),
        Some(Fault::Redirect(status, to)) => return redirect(*status, Some(to)),
        Some(Fault::RedirectTo(base)) => {
            let to = format!("{base}{}", request.uri().path());
            return redirect(302, Some(&to));
        }
        Some(Fault::RedirectNowhere) => return redirect(302, None),
        _ => {}
    }
    let tag = match &fault {
        Some(Fault::Tag(tag)) => Some(tag.clone()),
        Some(Fault::NoTag) => None,
        _ => Some(format!("\"{}\"", &sha256_of(content))),
    };
    let mut draft = Draft {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        content: content.clone(),
        start: 0,
        end: content.bytes(),
        length: true,
        fault,
    };
    draft.take_range(request.headers(), tag.as_deref());
    draft.spoil();
    let other = matches!(draft.fault, Some(Fault::OtherCommit));
    let named = if other {
        "f".repeat(40)
    } else {
        repository.commit.clone()
    };
    set(&mut draft.headers, "x-repo-commit", &named);
    if let Some(tag) = tag {
        set(&mut draft.headers, "etag", &tag);
    }
    draft.send(shared)
}

impl Draft {
    /// Answers with a part of the file, as RFC 9110 says, when one was asked for and If-Range holds.
    fn take_range(&mut self, asked: &HeaderMap, tag: Option<&str>) {
        let text = |name| {
            asked
                .get(name)
                .and_then(|v: &axum::http::HeaderValue| v.to_str().ok())
        };
        let total = self.content.bytes();
        let unasked = matches!(self.fault, Some(Fault::UnaskedRange)).then_some("bytes=0-");
        let Some(range) = text("range")
            .or(unasked)
            .and_then(|r| r.strip_prefix("bytes="))
        else {
            return;
        };
        if matches!(self.fault, Some(Fault::NoRanges))
            || text("if-range").is_some_and(|t| Some(t) != tag)
        {
            return;
        }
        let Some((first, last)) = range.split_once('-') else {
            return;
        };
        let Ok(first) = first.parse::<u64>() else {
            return;
        };
        if first >= total {
            self.status = StatusCode::RANGE_NOT_SATISFIABLE;
            (self.start, self.end) = (0, 0);
            set(
                &mut self.headers,
                "content-range",
                &format!("bytes */{total}"),
            );
            return;
        }
        let last = last.parse::<u64>().unwrap_or(total - 1).min(total - 1);
        self.status = StatusCode::PARTIAL_CONTENT;
        (self.start, self.end) = (first, last + 1);
        let mut said = (first, last, total);
        match &self.fault {
            Some(Fault::RangeShifted(by)) => {
                said.0 += by;
                self.start += by;
            }
            Some(Fault::RangeTotal(total)) => said.2 = *total,
            _ => {}
        }
        let text = match &self.fault {
            Some(Fault::RangeGarbled) => "bytes all of it".to_owned(),
            _ => format!("bytes {}-{}/{}", said.0, said.1, said.2),
        };
        set(&mut self.headers, "content-range", &text);
    }

    fn spoil(&mut self) {
        match self.fault.clone() {
            Some(Fault::ShorterBy(by)) => self.end = self.end.saturating_sub(by).max(self.start),
            Some(Fault::LongerBy(by)) => {
                let mut bytes = whole(&self.content);
                bytes.extend(std::iter::repeat_n(b'+', usize::try_from(by).unwrap_or(0)));
                self.content = bytes.into();
                self.end += by;
                self.length = false;
            }
            Some(Fault::Flip(at)) => {
                let mut bytes = whole(&self.content);
                if let Some(byte) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
                    *byte ^= 0x10;
                }
                self.content = bytes.into();
            }
            Some(Fault::Gzip) => set(&mut self.headers, "content-encoding", "gzip"),
            Some(Fault::GzipUnsaid) => {
                let bytes = [
                    &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..],
                    &whole(&self.content),
                ]
                .concat();
                self.content = bytes.into();
                self.end = self.content.bytes();
                self.length = false;
            }
            _ => {}
        }
    }

    fn send(self, shared: &Arc<Shared>) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        set(
            response.headers_mut(),
            "content-type",
            "application/octet-stream",
        );
        if self.length {
            set(
                response.headers_mut(),
                "content-length",
                &(self.end - self.start).to_string(),
            );
        }
        *response.body_mut() = body(
            Arc::clone(shared),
            self.content,
            self.start,
            self.end,
            self.fault,
        );
        response
    }
}

/// The bytes from `start` to `end`, cut short or slowed down as the fault says.
fn body(shared: Arc<Shared>, content: Content, start: u64, end: u64, fault: Option<Fault>) -> Body {
    let (stop, most) = match fault {
        Some(Fault::CloseAfter(bytes) | Fault::StallAfter(bytes)) => (start + bytes, PIECE_BYTES),
        Some(Fault::Drip(_)) => (end, 1),
        _ => (end, PIECE_BYTES),
    };
    let pieces = stream::unfold(start, move |at| {
        let (shared, content, fault) = (Arc::clone(&shared), content.clone(), fault.clone());
        async move {
            if at >= end {
                return None;
            }
            if at >= stop {
                // A pending body makes the server flush what it has: the bytes before the fault do arrive.
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
                match fault {
                    Some(Fault::CloseAfter(_)) => {
                        return Some((Err(std::io::Error::other("closed on purpose")), end));
                    }
                    _ => std::future::pending::<()>().await,
                }
            }
            let piece: Bytes = content.piece(at, stop.min(end), most);
            if let Some(Fault::Drip(pause)) = fault {
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            shared.sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
            let next = at + piece.len() as u64;
            Some((Ok(piece), next))
        }
    });
    Body::from_stream(pieces)
}

fn status_only(status: u16, retry_after: Option<String>) -> Response {
    let mut response = StatusCode::from_u16(status)
        .unwrap_or(StatusCode::IM_A_TEAPOT)
        .into_response();
    if let Some(text) = retry_after {
        set(response.headers_mut(), "retry-after", &text);
    }
    response
}

fn redirect(status: u16, to: Option<&str>) -> Response {
    let mut response = StatusCode::from_u16(status)
        .unwrap_or(StatusCode::FOUND)
        .into_response();
    if let Some(to) = to {
        set(response.headers_mut(), "location", to);
    }
    // A redirect's own length is not the file's.
    set(response.headers_mut(), "x-linked-size", "7");
    response
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = value.parse() {
        headers.insert(name, value);
    }
}

fn whole(content: &Content) -> Vec<u8> {
    let mut bytes = Vec::new();
    content.for_each(|piece| bytes.extend_from_slice(piece));
    bytes
}

/// A tag that names the content without hashing gigabytes for each request.
fn sha256_of(content: &Content) -> String {
    match content {
        Content::Whole(bytes) if bytes.len() <= 1 << 20 => sha256(content),
        _ => format!("length-{}", content.bytes()),
    }
}

/// Percent-decodes.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text
            .get(at + 1..at + 3)
            .filter(|_| bytes[at] == b'%')
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        decoded.push(hex.unwrap_or(bytes[at]));
        at += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
