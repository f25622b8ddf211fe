//! The ways in which a server can be wrong.

/// What happens to one answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection closes after this many bytes of the body.
    CloseAfter(u64),
    /// After this many bytes nothing comes any more, and the connection stays open.
    StallAfter(u64),
    /// The body comes byte by byte, with a pause of this many milliseconds after each.
    Drip(u64),
    /// Only a status, with this `Retry-After`.
    Status(u16, Option<String>),
    /// A login page of a proxy: status 200, `text/html`.
    LoginPage,
    /// The file is shorter than it should be by this many bytes, with a Content-Length to match.
    ShorterBy(u64),
    /// The file has this many bytes too many and no Content-Length.
    LongerBy(u64),
    /// The byte at this offset of the file is flipped.
    Flip(u64),
    /// A 206 for a range that begins this many bytes later than the one asked for.
    RangeShifted(u64),
    /// A 206 whose Content-Range names another total length.
    RangeTotal(u64),
    /// A 206 whose Content-Range cannot be read.
    RangeGarbled,
    /// A 200 with the whole file, whatever range was asked for.
    NoRanges,
    /// A 206 though no range was asked for.
    UnaskedRange,
    /// 416, whatever was asked for.
    Unsatisfiable,
    /// Another entity tag than before; If-Range is judged against it.
    Tag(String),
    /// No entity tag.
    NoTag,
    /// Content-Encoding gzip, though identity was asked for.
    Gzip,
    /// Bytes as gzip would make them, and no header that says so.
    GzipUnsaid,
    /// A redirect to this address, with this status.
    Redirect(u16, String),
    /// A redirect with no Location.
    RedirectNowhere,
    /// A redirect to the same file at another Hub: its base address.
    RedirectTo(String),
    /// The answer names another commit.
    OtherCommit,
}
