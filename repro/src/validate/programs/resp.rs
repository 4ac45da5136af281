//! The protocol of Redis: requests as arrays of strings, and answers of which only the kind counts.

use anyhow::{Context, bail};
use std::io::{BufRead, Read};

/// Appends a request.
pub fn request(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        out.extend(format!("${}\r\n", word.len()).bytes());
        out.extend_from_slice(word);
        out.extend(b"\r\n");
    }
}

/// Reads an answer with all that is in it.
///
/// # Errors
/// Where it is an error, or says that there is no such key.
pub fn answer(from: &mut impl BufRead) -> anyhow::Result<()> {
    let mut left: u64 = 1;
    while left > 0 {
        left -= 1;
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        let text = std::str::from_utf8(&line).ok().and_then(|line| line.strip_suffix("\r\n"));
        let text = text.context("the server went away, or speaks another language")?;
        let number = || text[1..].parse::<i64>().with_context(|| format!("no number: {text}"));
        match text.bytes().next() {
            Some(b'+' | b':') => {}
            Some(b'$') => {
                let bytes = u64::try_from(number()?).ok().context("there is no such key")? + 2;
                let skipped = std::io::copy(&mut from.take(bytes), &mut std::io::sink())?;
                if skipped < bytes {
                    bail!("the server went away");
                }
            }
            Some(b'*') => {
                let items = u64::try_from(number()?).ok().filter(|&items| items > 0);
                left += items.context("there is no such key")?;
            }
            Some(b'-') => bail!("the server refuses: {}", &text[1..]),
            _ => bail!("the server speaks another language: {text}"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_arrays_of_strings() {
        let mut out = Vec::new();
        request(&mut out, &[b"SET", b"a", b"\r\n"]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n");
    }

    #[test]
    fn one_answer_is_read_and_no_more() {
        for good in ["+OK\r\n", ":5\r\n", "$3\r\na\r\n\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n"] {
            let text = format!("{good}+next\r\n");
            let mut left = text.as_bytes();
            answer(&mut left).expect(good);
            assert_eq!(left, b"+next\r\n", "{good}");
        }
    }

    #[test]
    fn bad_answers_say_what_is_wrong() {
        for (bad, why) in [
            ("-ERR no\r\n", "refuses: ERR no"),
            ("$-1\r\n", "no such key"),
            ("*0\r\n", "no such key"),
            ("$5\r\nab", "went away"),
            ("", "went away"),
            ("HTTP/1.1\r\n", "another language"),
        ] {
            let error = answer(&mut bad.as_bytes()).expect_err(bad).to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
