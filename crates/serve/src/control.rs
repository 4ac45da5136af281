//! Control: what can be changed by the page, where that is allowed.
//!
//! The size of a target's fast memory, until its frostline ends or that is taken back. A request names a secret in a header.
//! Only pages of this site can read it, and no other site can have a browser send that header.

use crate::access::{same, secret, value};
use crate::http::Answer;
use frostline_driver::{Limit, Status, Written, wishes};
use frostline_linux::Root;
use hyper::{Request, StatusCode};
use percent_encoding::percent_decode_str;
use std::io;

/// Where it is asked for.
const PATH: &str = "/api/fast";
/// Header with the secret.
const HEADER: &str = "x-frostline-control";

/// See the module.
pub struct Control {
    secret: String,
}

impl Control {
    /// With a secret of its own.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub fn new() -> io::Result<Self> {
        Ok(Self { secret: secret()? })
    }

    /// What pages of this site are told.
    pub(crate) fn told(&self) -> String {
        format!("{{\"secret\":\"{}\"}}", self.secret)
    }

    /// Changes what a request of somebody who may see the page asks for; `target` finds one by its key.
    pub(crate) fn change<'a, B>(
        &self,
        root: &Root,
        request: &Request<B>,
        target: impl Fn(&str) -> Option<&'a Status>,
    ) -> Answer {
        let say = |status, text: &str| Answer::whole(status, format!("{text}\n"));
        let named = request.headers().get(HEADER).and_then(|value| value.to_str().ok());
        if !named.is_some_and(|named| same(named, &self.secret)) {
            return say(StatusCode::FORBIDDEN, "only the page itself may ask for this");
        }
        if request.uri().path() != PATH {
            return say(StatusCode::NOT_FOUND, "there is nothing here to be changed");
        }
        let query = request.uri().query();
        let Some(target) = value(query, "target").and_then(target) else {
            return say(StatusCode::NOT_FOUND, "there is no such target");
        };
        let size = percent_decode_str(value(query, "size").unwrap_or_default()).decode_utf8_lossy();
        let fast = match size.trim() {
            "" => None,
            size => match size.parse::<Written<Limit>>() {
                Ok(fast) => Some(fast),
                Err(error) => return say(StatusCode::BAD_REQUEST, &error.to_string()),
            },
        };
        match wishes::set(root, target, fast.as_ref()) {
            Ok(()) => Answer::whole(StatusCode::NO_CONTENT, ""),
            Err(error) => say(StatusCode::FORBIDDEN, &error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_knows_the_secret_changes_what_there_is() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("run")).expect("a folder");
        let (root, control) = (Root::at(folder.path()), Control::new().expect("random numbers"));
        let status = Status { pid: 7, name: "load".into(), ..Status::default() };
        let key = status.key();
        let told = control.told();
        let secret = told.strip_prefix("{\"secret\":\"").and_then(|rest| rest.strip_suffix("\"}"));
        let secret = secret.expect("it is told");
        let ask = |path: &str, secret: &str| {
            let request = Request::post(path).header(HEADER, secret).body(()).expect("a request");
            let answer = control.change(&root, &request, |named| (named == key).then_some(&status));
            answer.response.status().as_u16()
        };
        let wished = || wishes::of(&root, &key).map(|wish| wish.text().to_owned());
        let half = format!("{PATH}?target={key}&size=50%25");
        for wrong in ["", "x", &secret[1..]] {
            assert_eq!(ask(&half, wrong), 403, "{wrong}");
        }
        let bare = Request::post(half.as_str()).body(()).expect("a request");
        let refused = control.change(&root, &bare, |_| Some(&status));
        assert_eq!(refused.response.status(), StatusCode::FORBIDDEN);
        assert_eq!(wished(), None);
        for (path, code) in [
            ("/api/history", 404),
            (PATH, 404),
            ("/api/fast?target=../../etc/passwd&size=50%25", 404),
            (&format!("{PATH}?target={key}&size=-3"), 400),
            (&format!("{PATH}?target={key}&size=0%25"), 400),
        ] {
            assert_eq!(ask(path, secret), code, "{path}");
        }
        assert_eq!(wished(), None);
        assert_eq!(ask(&half, secret), 204);
        assert_eq!(wished(), Some("50%".into()));
        assert_eq!(ask(&format!("{PATH}?target={key}&size=2GiB"), secret), 204);
        assert_eq!(wished(), Some("2GiB".into()));
        assert_eq!(ask(&format!("{PATH}?target={key}&size="), secret), 204);
        assert_eq!(wished(), None);
        // Nobody may write there any more.
        std::fs::write(folder.path().join("run/frostline/wishes").join("x"), "").expect("room");
        std::fs::remove_dir_all(folder.path().join("run/frostline")).expect("it goes");
        std::fs::write(folder.path().join("run/frostline"), "no folder").expect("room");
        assert_eq!(ask(&half, secret), 403);
    }
}
