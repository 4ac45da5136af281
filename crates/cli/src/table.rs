//! Tables in plain text.

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

    /// The text, `indent` spaces in front of each line, two between columns.
    pub fn show(&self, indent: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(c));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (c, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - cell.chars().count());
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
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
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
}
