//! One file from the Hub: ranges in parallel, each resumed where it broke.
//!
//! ```text
//! until the digest is right (whole_file times):
//!     open the part; for each gap a stream, the first one alone until the server has shown that it keeps ranges:
//!         until the gap is filled (attempts without progress):
//!             GET Range: at-end, If-Range: tag
//!             206 with that range and tag   take the bytes
//!             200 at the start of the file  take the bytes, as one stream
//!             200 elsewhere, 416, other tag the file is another: begin anew
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use native_manifest::{CommitId, RepoId};
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, IF_RANGE, RANGE};
use reqwest::{Response, StatusCode, Url};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};

use crate::contents::{Wanted, check_commit};
use crate::endpoint::without_secrets;
use crate::error::FetchError;
use crate::http::{Failure, Http, connection, web_page};
use crate::part::Gap;
use crate::retry::Attempts;
use crate::sink::{Feed, Settled, Sink, Site, Step};

/// Fetches files of one commit.
pub(crate) struct Transfers<'a> {
    pub(crate) http: &'a Http,
    pub(crate) repo: &'a RepoId,
    pub(crate) commit: &'a CommitId,
    pub(crate) site: Site,
    /// One permit a connection.
    pub(crate) permits: &'a Semaphore,
    pub(crate) jobs: usize,
    /// Bytes of file content that came, the wasted ones included.
    pub(crate) received: &'a AtomicU64,
}

/// One file on its way.
struct Course<'a> {
    url: Url,
    file: &'a Wanted,
    steps: mpsc::Sender<Step>,
    /// Entity tag of the bytes that are there.
    tag: Mutex<Option<String>>,
}

/// Why a round of a file ended early.
enum Broken {
    /// What is there belongs to another file than what the server has, or ranges are not kept.
    Anew {
        reason: &'static str,
        ranges_kept: bool,
    },
    Failed(FetchError),
}

impl From<FetchError> for Broken {
    fn from(error: FetchError) -> Self {
        Self::Failed(error)
    }
}

/// What the server answered to a stream's request.
enum Answer {
    /// Bytes from where they were asked for.
    Rest(Response),
    /// The file from its first byte.
    Whole(Response),
    /// The range lies beyond the file.
    Beyond,
}

impl Transfers<'_> {
    /// Fetches one file, verifies it and puts it under its name.
    pub(crate) async fn fetch(&self, file: &Arc<Wanted>) -> Result<(), FetchError> {
        let mut wrong = 0;
        loop {
            let sink = self.open(file).await?;
            let (gaps, tag) = (sink.gaps(), sink.tag());
            let feed = Feed::start(sink);
            let course = Course {
                url: self
                    .http
                    .options
                    .endpoint
                    .file(self.repo, self.commit, &file.path),
                file,
                steps: feed.steps.clone(),
                tag: Mutex::new(tag),
            };
            let fetched = self.fill(&course, gaps).await;
            drop(course);
            // A sink that failed closes its queue; its own error is the one that says why.
            let found = match feed.settle().await? {
                Settled::Whole => return Ok(()),
                Settled::Wrong { found } => found,
                Settled::Incomplete => {
                    fetched?;
                    let path = self.site.layout.part(&file.path).0;
                    return Err(FetchError::Obstacle {
                        path,
                        reason: "was changed by another process",
                    });
                }
            };
            wrong += 1;
            if wrong >= self.http.options.retry.whole_file {
                let (path, expected) = (file.path.clone(), file.digest.hex());
                return Err(FetchError::Digest {
                    path,
                    expected,
                    found,
                });
            }
            tracing::warn!(path = %file.path, found, "the digest is wrong, fetching again");
        }
    }

    async fn open(&self, file: &Arc<Wanted>) -> Result<Sink, FetchError> {
        let (site, file) = (self.site.clone(), Arc::clone(file));
        match tokio::task::spawn_blocking(move || Sink::open(site, file)).await {
            Ok(sink) => sink,
            Err(stopped) => std::panic::resume_unwind(stopped.into_panic()),
        }
    }

    /// Fills the gaps; begins anew when the file turns out to be another one.
    async fn fill(&self, course: &Course<'_>, mut gaps: Vec<Gap>) -> Result<(), FetchError> {
        let whole = Gap {
            start: 0,
            end: course.file.bytes,
        };
        let mut anew = 0;
        while !gaps.is_empty() {
            match self.round(course, &gaps).await {
                Ok(()) => return Ok(()),
                Err(Broken::Failed(error)) => return Err(error),
                Err(Broken::Anew {
                    reason,
                    ranges_kept,
                }) => {
                    anew += 1;
                    if anew > self.http.options.retry.whole_file {
                        return Err(FetchError::Changed {
                            path: course.file.path.clone(),
                        });
                    }
                    tracing::info!(path = %course.file.path, reason, "beginning anew");
                    course.forget(reason).await?;
                    gaps = if ranges_kept {
                        self.ranges(course.file.bytes)
                    } else {
                        vec![whole]
                    };
                }
            }
        }
        Ok(())
    }

    fn ranges(&self, bytes: u64) -> Vec<Gap> {
        let length = self.site.range_bytes.max(1);
        let starts = (0..bytes.div_ceil(length)).map(|i| i * length);
        starts
            .map(|start| Gap {
                start,
                end: bytes.min(start + length),
            })
            .collect()
    }

    /// Runs one stream a gap. The others wait until the first one has seen that the server keeps ranges.
    async fn round(&self, course: &Course<'_>, gaps: &[Gap]) -> Result<(), Broken> {
        let Some((first, others)) = gaps.split_first() else {
            return Ok(());
        };
        let (kept, keeps) = oneshot::channel();
        let lead = self.stream(course, *first, Some(kept));
        let rest = async {
            // The lead stream ends without a word when it took the whole file.
            if keeps.await.is_err() {
                return Ok(());
            }
            stream::iter(others)
                .map(|gap| self.stream(course, *gap, None))
                .buffer_unordered(self.jobs)
                .try_for_each(|()| async { Ok(()) })
                .await
        };
        tokio::try_join!(lead, rest).map(|_| ())
    }

    /// Fills one gap, resuming where a connection broke.
    async fn stream(
        &self,
        course: &Course<'_>,
        gap: Gap,
        mut lead: Option<oneshot::Sender<()>>,
    ) -> Result<(), Broken> {
        let retry = &self.http.options.retry;
        let mut attempts = Attempts::new(retry);
        let Gap {
            start: mut at,
            mut end,
        } = gap;
        let mut whole = false;
        while at < end {
            let permit = self.permits.acquire().await;
            let before = at;
            let taken = match self.ask(course, at, end).await {
                Ok(Answer::Rest(answer)) => {
                    course.same_file(&answer).await?;
                    if let Some(kept) = lead.take() {
                        let _ = kept.send(());
                    }
                    self.pump(course, answer, &mut at, end).await
                }
                Ok(Answer::Whole(answer)) if at == 0 && (whole || lead.is_some()) => {
                    if end < course.file.bytes {
                        course.forget("the server sends the whole file").await?;
                    }
                    course.same_file(&answer).await?;
                    // This stream takes all; the others end when the sender is gone.
                    (whole, lead, end) = (true, None, course.file.bytes);
                    self.pump(course, answer, &mut at, end).await
                }
                Ok(Answer::Whole(_)) => {
                    let reason = "the server has another file or keeps no ranges";
                    return Err(Broken::Anew {
                        reason,
                        ranges_kept: false,
                    });
                }
                Ok(Answer::Beyond) if at == 0 => {
                    let reason = "no byte of it is there (status 416)".to_owned();
                    let url = without_secrets(&course.url);
                    Err(Failure::passing(FetchError::Protocol { url, reason }))
                }
                Ok(Answer::Beyond) => {
                    return Err(Broken::Anew {
                        reason: "the file ends earlier on the server",
                        ranges_kept: true,
                    });
                }
                Err(failure) => Err(failure),
            };
            drop(permit);
            let taken = taken.and_then(|()| {
                if at < end {
                    Err(ended_early(course, end - at))
                } else {
                    Ok(())
                }
            });
            if let Err(failure) = taken {
                let what = course.file.path.as_str();
                let progress = &*self.site.progress;
                self.http
                    .pause(what, &mut attempts, failure, at - before, progress)
                    .await?;
            }
        }
        Ok(())
    }

    /// Sends the request and holds the head of the answer against it.
    async fn ask(&self, course: &Course<'_>, at: u64, end: u64) -> Result<Answer, Failure> {
        let bytes = course.file.bytes;
        let ranged = at > 0 || end < bytes;
        let mut headers = HeaderMap::new();
        if ranged {
            headers.insert(RANGE, header(&format!("bytes={at}-{}", end - 1)));
            // A weak tag says "equivalent", not "equal", and must not stand in If-Range.
            if let Some(tag) = course
                .tag
                .lock()
                .await
                .as_deref()
                .filter(|tag| !tag.starts_with("W/"))
            {
                headers.insert(IF_RANGE, header(tag));
            }
        }
        let answer = self.http.open(&course.url, headers).await?;
        check_commit(answer.headers(), self.commit).map_err(Failure::lasting)?;
        let wrong = |reason: String| {
            let url = without_secrets(answer.url());
            Failure::passing(FetchError::Protocol { url, reason })
        };
        let length = answer.content_length();
        match answer.status() {
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(Answer::Beyond),
            StatusCode::PARTIAL_CONTENT if ranged => {
                let text = answer
                    .headers()
                    .get(CONTENT_RANGE)
                    .and_then(|v| v.to_str().ok())
                    .unwrap_or_default();
                let range = ContentRange::parse(text)
                    .ok_or_else(|| wrong(format!("content-range {text:?}")))?;
                let asked = range.first == at
                    && range.last < end
                    && range.total.is_none_or(|total| total == bytes);
                if !asked {
                    return Err(wrong(format!(
                        "bytes {at}-{} of {bytes} asked for, {text:?} came",
                        end - 1
                    )));
                }
                if length.is_some_and(|n| n != range.last - range.first + 1) {
                    return Err(wrong(format!(
                        "content-range {text:?} with {} bytes",
                        length.unwrap_or_default()
                    )));
                }
                Ok(Answer::Rest(answer))
            }
            StatusCode::OK => {
                if length.is_none_or(|n| n == bytes) {
                    return Ok(Answer::Whole(answer));
                }
                let found = length.unwrap_or_default();
                if let Some(content_type) = web_page(answer.headers()) {
                    let url = without_secrets(answer.url());
                    return Err(Failure::lasting(FetchError::WebPage {
                        url,
                        content_type,
                        found,
                        expected: bytes,
                    }));
                }
                Err(wrong(format!("{found} bytes for a file of {bytes}")))
            }
            status => Err(wrong(format!("status {status}"))),
        }
    }

    /// Takes the bytes of an answer until `end`, under the stall floor. `at` says how far it came.
    async fn pump(
        &self,
        course: &Course<'_>,
        mut answer: Response,
        at: &mut u64,
        end: u64,
    ) -> Result<(), Failure> {
        let floor = self.http.options.stall;
        let url = answer.url().clone();
        let (mut began, mut came) = (Instant::now(), 0_u64);
        loop {
            let left = floor.window.saturating_sub(began.elapsed());
            if left.is_zero() {
                if came < floor.bytes && *at < end {
                    let url = without_secrets(&url);
                    let (received, floor, window) = (came, floor.bytes, floor.window);
                    let error = FetchError::Stalled {
                        url,
                        received,
                        floor,
                        window,
                        attempts: 1,
                    };
                    return Err(Failure::passing(error));
                }
                (began, came) = (Instant::now(), 0);
                continue;
            }
            let Ok(piece) = tokio::time::timeout(left, answer.chunk()).await else {
                continue;
            };
            let Some(piece) = piece.map_err(|e| connection(&url, e))? else {
                break;
            };
            let length = piece.len() as u64;
            self.received.fetch_add(length, Ordering::Relaxed);
            if length > end - *at {
                let reason = format!("more bytes than the {end} that the file or range has");
                let error = FetchError::Protocol {
                    url: without_secrets(&url),
                    reason,
                };
                return Err(Failure::passing(error));
            }
            came += length;
            // Waiting for the disk is not the line's fault: the window is moved on by it.
            let handed = Instant::now();
            course
                .send(Step::Write {
                    at: *at,
                    bytes: piece,
                })
                .await
                .map_err(Failure::lasting)?;
            began += handed.elapsed();
            *at += length;
        }
        Ok(())
    }
}

impl Course<'_> {
    /// Hands a step to the sink. An error means that the sink stopped; it tells the reason itself when it is settled.
    async fn send(&self, step: Step) -> Result<(), FetchError> {
        self.steps.send(step).await.map_err(|_| FetchError::Io {
            doing: "writing",
            path: self.file.path.as_str().into(),
            source: std::io::ErrorKind::BrokenPipe.into(),
        })
    }

    async fn forget(&self, reason: &'static str) -> Result<(), FetchError> {
        *self.tag.lock().await = None;
        self.send(Step::Rewind(reason)).await
    }

    /// Holds the entity tag against that of the bytes that are there, or keeps it when they have none.
    async fn same_file(&self, answer: &Response) -> Result<(), Broken> {
        let Some(found) = answer.headers().get(ETAG).and_then(|v| v.to_str().ok()) else {
            return Ok(());
        };
        let mut tag = self.tag.lock().await;
        match tag.as_deref() {
            Some(known) if known == found => Ok(()),
            Some(_) => Err(Broken::Anew {
                reason: "its entity tag changed",
                ranges_kept: true,
            }),
            None => {
                *tag = Some(found.to_owned());
                drop(tag);
                Ok(self.send(Step::Tag(found.to_owned())).await?)
            }
        }
    }
}

fn ended_early(course: &Course<'_>, missing: u64) -> Failure {
    let reason = format!("it ended {missing} bytes early");
    Failure::passing(FetchError::Protocol {
        url: without_secrets(&course.url),
        reason,
    })
}

/// `Content-Range: bytes first-last/total`.
#[derive(Debug, PartialEq, Eq)]
struct ContentRange {
    first: u64,
    last: u64,
    total: Option<u64>,
}

impl ContentRange {
    fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let total = if total == "*" {
            None
        } else {
            Some(total.parse().ok()?)
        };
        let parsed = Self {
            first: first.trim().parse().ok()?,
            last: last.trim().parse().ok()?,
            total,
        };
        (parsed.first <= parsed.last && parsed.last < u64::MAX).then_some(parsed)
    }
}

/// Text that this crate made itself, or an entity tag that came out of a header.
fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_range_is_read_or_refused() {
        let range = |first, last, total| Some(ContentRange { first, last, total });
        assert_eq!(ContentRange::parse("bytes 0-9/10"), range(0, 9, Some(10)));
        assert_eq!(ContentRange::parse("bytes 5-5/*"), range(5, 5, None));
        for odd in [
            "",
            "bytes */10",
            "bytes 9-0/10",
            "bytes 0-9",
            "items 0-9/10",
            "bytes -9/10",
            "bytes 0-x/10",
        ] {
            assert_eq!(ContentRange::parse(odd), None, "{odd}");
        }
        assert_eq!(
            ContentRange::parse(&format!("bytes 0-{}/*", u64::MAX)),
            None
        );
    }
}
