//! Tables in plain text.

/// Columns that a terminal has.
pub const WIDTH: usize = 80;
/// Least width that is left to the first column when it has to give way.
const LEAST: usize = 8;

/// Rows of cells under headings. The first column is aligned left, all others right.
pub struct Table {
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Table {
    /// With these headings.
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|h| (*h).to_owned()).collect()], left: 1 }
    }

    /// Aligns so many of the first columns left.
    #[must_use]
    pub fn left(self, columns: usize) -> Self {
        Self { left: columns, ..self }
    }

    /// Adds a row; cells that are missing stay empty.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Adds a line of its own, for the rows that follow.
    pub fn heading(&mut self, text: &str) {
        self.rows.push(vec![text.to_owned()]);
    }

    /// The text, `indent` spaces in front of each line, two between columns.
    pub fn show(&self, indent: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let heads = |row: &Vec<String>| row.len() == 1 && columns > 1;
        let rows = || self.rows.iter().filter(|row| !heads(row));
        let width = |c: usize| {
            let cells = rows().filter_map(|row| row.get(c));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..columns).map(width).collect();
        let others: usize = indent + widths.iter().skip(1).map(|width| width + 2).sum::<usize>();
        let room = WIDTH.saturating_sub(others);
        if let Some(first) = widths.first_mut().filter(|first| room >= LEAST && **first > room) {
            // What is longer stands on a line of its own.
            let names = rows().filter_map(|row| row.first()).map(|name| name.chars().count());
            *first = names.filter(|&name| name <= room).max().unwrap_or(LEAST);
        }
        let mut out = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (c, cell) in row.iter().enumerate() {
                let letters = cell.chars().count();
                if c == 0 && letters > widths[0] {
                    out.push_str(&format!("{line}{cell}\n"));
                    line.push_str(&" ".repeat(widths[0]));
                    continue;
                }
                let pad = " ".repeat(widths[c] - letters);
                if c > 0 {
                    line.push_str("  ");
                }
                if c < self.left {
                    line.push_str(cell);
                    line.push_str(&pad);
                } else {
                    line.push_str(&pad);
                    line.push_str(cell);
                }
            }
            if !(heads(row) && line.trim().is_empty()) {
                out.push_str(line.trim_end());
                out.push('\n');
            }
        }
        out
    }
}

/// Words in lines that fit a terminal; every line but the first begins with `indent` spaces, the
/// first one is taken to be as long already. An empty line stays one.
pub fn wrap(text: &str, indent: usize) -> String {
    let mut out = String::new();
    for (i, paragraph) in text.split("\n\n").enumerate() {
        if i > 0 {
            out.push_str("\n\n");
            out.push_str(&" ".repeat(indent));
        }
        let mut used = indent;
        for word in paragraph.split_whitespace() {
            let letters = word.chars().count();
            if used > indent && used + 1 + letters > WIDTH {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                used = indent;
            } else if used > indent {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += letters;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", "n", "share"]);
        table.row(vec!["a".into(), "10 ±1".into(), "n/a".into()]);
        table.row(vec!["longer".into(), "7".into(), "93.1 %".into()]);
        assert_eq!(
            table.show(2),
            "  name        n   share\n  a       10 ±1     n/a\n  longer      7  93.1 %\n"
        );
    }

    #[test]
    fn long_names_give_way() {
        let mut table = Table::new(&["name", "what"]);
        table.row(vec!["n".repeat(30), "x".repeat(60)]);
        table.row(vec!["short".into(), "y".into()]);
        let lines: Vec<String> = table.show(2).lines().map(str::to_owned).collect();
        assert_eq!(lines[0], format!("  name   {}what", " ".repeat(56)));
        assert_eq!(lines[1], format!("  {}", "n".repeat(30)));
        assert_eq!(lines[2], format!("  {}{}", " ".repeat(7), "x".repeat(60)));
        assert!(lines.iter().all(|line| line.len() <= WIDTH));
        assert_eq!(lines[3], format!("  short  {}y", " ".repeat(59)));
    }

    #[test]
    fn headings_do_not_widen_columns() {
        let mut table = Table::new(&["workload", "n"]);
        table.heading("a heading that is longer");
        table.row(vec!["a".into(), "1".into()]);
        assert_eq!(table.show(0), "workload  n\na heading that is longer\na         1\n");
    }

    #[test]
    fn words_are_kept_whole() {
        let text = wrap(&"word ".repeat(40), 4);
        assert!(text.lines().all(|line| line.len() <= WIDTH && !line.ends_with(' ')));
        assert!(text.lines().skip(1).all(|line| line.starts_with("    word")));
        assert_eq!(text.split_whitespace().count(), 40);
        assert_eq!(wrap("a\nb\n\nc", 0), "a b\n\nc");
    }
}
