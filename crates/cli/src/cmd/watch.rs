//! `frostline status --watch`: what runs here, every second.

use crate::live::top::{View, draw, text};
use frostline_driver::instances;
use frostline_linux::Root;
use frostline_terminal::errors::usage;
use frostline_terminal::output;
use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Between two pictures.
const EVERY: Duration = Duration::from_secs(1);
/// The picture that `--once` prints; it gets a line more for each further target.
const PICTURE: Rect = Rect::new(0, 0, 120, 30);

/// Shows it until a key ends that, or one picture as text.
///
/// # Errors
/// Where the list cannot be read, or the screen not be drawn on.
pub fn run(once: bool) -> anyhow::Result<ExitCode> {
    let root = Root::system();
    let mut view = View::default();
    view.update(instances::list(&root)?);
    if once {
        let lines = u16::try_from(view.rows.len()).unwrap_or(u16::MAX);
        let area = Rect { height: PICTURE.height.saturating_add(lines), ..PICTURE };
        let mut buffer = Buffer::empty(area);
        draw(&view, area, &mut buffer);
        output::text(&text(&buffer))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !std::io::stdout().is_terminal() {
        return Err(usage("--watch needs a terminal", "--once prints one picture as text"));
    }
    let mut terminal = ratatui::try_init()?;
    let outcome = watch(&mut terminal, &root, &mut view);
    ratatui::try_restore()?;
    outcome?;
    Ok(ExitCode::SUCCESS)
}

fn watch(terminal: &mut DefaultTerminal, root: &Root, view: &mut View) -> anyhow::Result<()> {
    loop {
        terminal.draw(|frame| draw(view, frame.area(), frame.buffer_mut()))?;
        let until = Instant::now() + EVERY;
        while event::poll(until.saturating_duration_since(Instant::now()))? {
            let Event::Key(key) = event::read()? else { break };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c') if control => return Ok(()),
                KeyCode::Down | KeyCode::Char('j') => view.select(true),
                KeyCode::Up | KeyCode::Char('k') => view.select(false),
                _ => continue,
            }
            terminal.draw(|frame| draw(view, frame.area(), frame.buffer_mut()))?;
        }
        view.update(instances::list(root)?);
    }
}
