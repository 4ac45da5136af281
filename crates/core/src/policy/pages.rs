//! Size of the pages that a policy's programs have: base pages, huge ones, or what the machine maps.
//!
//! An entry names the size with which its source was published. It is the default of the parameter `pages`,
//! which every policy has.

use super::contract::PageSize;
use super::offer::Offer;
use super::settings::Settings;
use super::suited::{Lack, Suited};
use crate::params::{Kind, Param};
use crate::spec::{Spec, SpecError};
use alloc::string::{String, ToString};

const KEY: &str = "pages";
const WORDS: &[&str] = &[MACHINE, "base", "huge"];
const MACHINE: &str = "machine";

/// As in listings and parameters; `None` is the machine's.
pub const fn name(pages: Option<PageSize>) -> &'static str {
    match pages {
        None => MACHINE,
        Some(PageSize::Base) => "base",
        Some(PageSize::Folio) => "huge",
    }
}

/// A described policy with this size of pages.
///
/// # Errors
/// A description that cannot be read.
pub fn set(policy: &str, pages: PageSize) -> Result<String, SpecError> {
    Ok(Spec::parse(policy)?.with(KEY, name(Some(pages))).to_string())
}

/// The parameter with this default.
pub(super) const fn param(pages: Option<PageSize>) -> Param {
    let about = "of new memory: 4 KiB (`base`), or as the machine maps it (`huge`, `machine`)";
    Param::fixed(KEY, Kind::Choice(WORDS), name(pages), "", about)
}

/// Where nobody can choose, pages are what the machine maps. Policies that take huge ones where they get
/// them notice nothing.
pub(super) fn suits(pages: Option<PageSize>, offer: &Offer) -> Option<Suited> {
    let lacks = !offer.chooses_page_size && pages == Some(PageSize::Base);
    let instead = "has pages of the sizes that the system maps";
    lacks.then(|| Suited::without(Lack::PageSize, KEY, MACHINE, instead))
}

/// Whether new memory is to have base pages only.
pub(super) fn base(settings: &Settings) -> bool {
    settings.word(KEY) == name(Some(PageSize::Base))
}
