//! Text of others: names of programs, paths, what a trace says about itself.
//!
//! It may hold anything. A terminal obeys control characters, and characters that set the direction of
//! writing make a line read as another one (CVE-2021-42574).

use alloc::string::String;
use core::fmt::{self, Write};

/// Text that somebody else chose. It is shown as one line of [`Plain`] text; files and JSON have it as
/// it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Foreign(String);

impl Foreign {
    /// As it is: to compare it, or to write it where nobody's terminal reads it.
    pub fn raw(&self) -> &str {
        &self.0
    }
}

impl From<String> for Foreign {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Foreign {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl PartialEq<str> for Foreign {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Foreign {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Plain::line(&self.0).fmt(f)
    }
}

/// Text without characters that a terminal or a reader is led by: `\u{1b}` stands where ESC was.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a> {
    text: &'a str,
    /// Characters of layout that stay.
    layout: &'static [char],
}

impl<'a> Plain<'a> {
    /// One line: ends of lines and tabs are shown as `\n` and `\t`, too.
    pub fn line(text: &'a str) -> Self {
        Self { text, layout: &[] }
    }

    /// Whole lines, in which ends of lines and tabs stay.
    pub fn lines(text: &'a str) -> Self {
        Self { text, layout: &['\n', '\t'] }
    }

    fn write(&self, out: &mut dyn Write) -> fmt::Result {
        let escaped = |c: char| leads(c) && !self.layout.contains(&c);
        let mut rest = self.text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| escaped(*c)) {
            out.write_str(&rest[..at])?;
            write!(out, "{}", c.escape_default())?;
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_str(rest)
    }
}

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() && f.precision().is_none() {
            return self.write(f);
        }
        let mut whole = String::new();
        self.write(&mut whole)?;
        f.pad(&whole)
    }
}

/// Whether a character is not seen itself, but changes what is seen: control characters (category Cc),
/// separators of lines, and characters of format (Cf) that are no letters' signs. Source:
/// Unicode 16, `DerivedGeneralCategory.txt`.
pub fn leads(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    #[test]
    fn a_foreign_name_cannot_lead_a_terminal() {
        for (raw, shown) in [
            ("\x1b]0;title\x07", r"\u{1b}]0;title\u{7}"),
            ("a\nroot: b\r", r"a\nroot: b\r"),
            ("\u{9b}2J\u{7f}", r"\u{9b}2J\u{7f}"),
            ("a\u{202e}gpj.exe", r"a\u{202e}gpj.exe"),
            ("\u{2066}a\u{2069}\u{200b}", r"\u{2066}a\u{2069}\u{200b}"),
            ("tab\there", r"tab\there"),
            ("naïve 名前 🦀", "naïve 名前 🦀"),
        ] {
            let foreign = Foreign::from(raw);
            assert_eq!(foreign.to_string(), shown);
            assert_eq!(foreign.raw(), raw);
        }
    }

    #[test]
    fn nothing_that_leads_is_left_of_any_character() {
        for c in '\0'..=char::MAX {
            let text = c.to_string();
            assert!(!Plain::line(&text).to_string().chars().any(leads), "{c:?}");
            let kept = Plain::lines(&text).to_string() == text;
            assert_eq!(kept, !leads(c) || c == '\n' || c == '\t', "{c:?}");
        }
    }

    #[test]
    fn widths_count_what_is_shown() {
        assert_eq!(format!("{:8}|", Foreign::from("a\n")), "a\\n     |");
        assert_eq!(format!("{:.2}|", Foreign::from("a\nb")), "a\\|");
    }
}
