//! A response body whose beginning was read ahead.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

/// A body: the frames that were read, then the rest. Nothing of it is lost, trailers neither.
#[derive(Debug)]
pub(crate) struct Buffered {
    read: VecDeque<Frame<Bytes>>,
    /// `None` when all of it was read.
    rest: Option<reqwest::Body>,
}

impl Buffered {
    /// Reads at least this many bytes, or all that there are.
    pub(crate) async fn read_ahead(
        mut body: reqwest::Body,
        limit: usize,
    ) -> Result<Self, reqwest::Error> {
        let mut read = VecDeque::new();
        let mut length = 0;
        // Not `<=`: a body of exactly the limit is read to its end.
        while length <= limit && limit > 0 {
            let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await else {
                return Ok(Self { read, rest: None });
            };
            let frame = frame?;
            length += frame.data_ref().map_or(0, Bytes::len);
            read.push_back(frame);
        }
        let rest = Some(body);
        Ok(Self { read, rest })
    }

    /// The body, if all of it was read.
    pub(crate) fn whole(&self) -> Option<Bytes> {
        if self.rest.is_some() {
            return None;
        }
        let mut whole = BytesMut::new();
        for frame in &self.read {
            whole.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        }
        Some(whole.freeze())
    }
}

impl Body for Buffered {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        if let Some(frame) = self.read.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        let Some(rest) = &mut self.rest else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(rest).poll_frame(cx));
        if frame.is_none() {
            self.rest = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.iter().filter_map(Frame::data_ref);
        let read: u64 = read.map(|data| data.len() as u64).sum();
        let rest = self
            .rest
            .as_ref()
            .map_or(SizeHint::with_exact(0), Body::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(read.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper() {
            hint.set_upper(read.saturating_add(upper));
        }
        hint
    }
}
