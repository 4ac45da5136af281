//! Connection of a reader of the page: the part of the request that has come, and the rest of the answer.

use rustix::event::PollFlags;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// A page, shared by all who are being sent it.
pub type Page = Arc<str>;

/// Longest request, in bytes.
pub const REQUEST: usize = 8192;
/// What its head ends with; a body is of no interest.
const END: &[u8] = b"\r\n\r\n";

/// A connection that is never waited for.
pub struct Connection {
    stream: TcpStream,
    phase: Phase,
}

enum Phase {
    /// So much of the request has come.
    Asking(Vec<u8>),
    /// So many bytes of the answer were sent.
    Answering(Answer, usize),
    /// All was sent. What still comes is read: closed with something unread, the connection would take the
    /// answer along.
    Closing,
}

struct Answer {
    head: String,
    page: Page,
}

impl Connection {
    /// With somebody who has just come.
    ///
    /// # Errors
    /// Where he has gone.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, phase: Phase::Asking(Vec::new()) })
    }

    /// To be waited on.
    pub fn stream(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// What for.
    pub fn waits_for(&self) -> PollFlags {
        match self.phase {
            Phase::Answering(..) => PollFlags::OUT,
            Phase::Asking(_) | Phase::Closing => PollFlags::IN,
        }
    }

    /// Does what can be done without waiting, and not more than one piece of it; false at the end.
    pub fn go_on(&mut self, page: impl FnMut() -> Page) -> bool {
        match self.step(page) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        }
    }

    fn step(&mut self, page: impl FnMut() -> Page) -> io::Result<bool> {
        let mut piece = [0; REQUEST];
        if let Phase::Asking(request) = &mut self.phase {
            let count = self.stream.read(&mut piece)?;
            request.extend_from_slice(&piece[..count]);
            match Answer::to(request, page) {
                Some(answer) => self.phase = Phase::Answering(answer, 0),
                None => return Ok(count > 0),
            }
        }
        if let Phase::Answering(answer, sent) = &mut self.phase {
            while let Some(rest) = answer.rest(*sent) {
                *sent += self.stream.write(rest)?;
            }
            self.stream.shutdown(Shutdown::Write)?;
            self.phase = Phase::Closing;
        }
        Ok(self.stream.read(&mut piece)? > 0)
    }
}

impl Answer {
    /// `None` as long as the request is not whole.
    fn to(request: &[u8], mut page: impl FnMut() -> Page) -> Option<Self> {
        let end = request.windows(END.len()).position(|window| window == END);
        if request.len() > REQUEST && end.is_none_or(|end| end > REQUEST) {
            let status = "431 Request Header Fields Too Large";
            return Some(Self::refusal(status, "the request is too long\n"));
        }
        let head = String::from_utf8_lossy(&request[..end?]);
        let line: Vec<&str> = head.lines().next().unwrap_or_default().split(' ').collect();
        let [method, path, version] = line[..] else {
            return Some(Self::refusal("400 Bad Request", "this is not HTTP\n"));
        };
        if !version.starts_with("HTTP/1.") {
            return Some(Self::refusal("400 Bad Request", "this is not HTTP/1\n"));
        }
        let is_head = method == "HEAD";
        let path = path.split('?').next();
        let mut answer = match method {
            "GET" | "HEAD" if path == Some("/metrics") => {
                Self::new("200 OK", super::CONTENT_TYPE, page())
            }
            "GET" | "HEAD" => Self::refusal("404 Not Found", "there is only /metrics\n"),
            _ => Self::refusal("405 Method Not Allowed", "there is only GET, and HEAD\n"),
        };
        if is_head {
            answer.page = "".into();
        }
        Some(answer)
    }

    fn refusal(status: &str, why: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", why.into())
    }

    fn new(status: &str, kind: &str, page: Page) -> Self {
        let head = format!(
            "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Allow: GET, HEAD\r\nConnection: close\r\n\r\n",
            page.len()
        );
        Self { head, page }
    }

    /// What comes after so many bytes; `None` at the end.
    fn rest(&self, sent: usize) -> Option<&[u8]> {
        let rest = match self.head.as_bytes().get(sent..) {
            Some(head) if !head.is_empty() => head,
            _ => self.page.as_bytes().get(sent - self.head.len()..)?,
        };
        Some(rest).filter(|rest| !rest.is_empty())
    }
}
