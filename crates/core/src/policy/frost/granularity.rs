//! Granularity: folios are split, and base pages collapsed, by what that is seen to be worth.
//!
//! Each region has an account in nanoseconds: what base pages would have saved so far over a folio. Each
//! sample adds what it would have saved as a base page less what it does as part of a folio, walks included.
//! Rent is paid for the fast memory that either takes. Where the balance exceeds the price, the region
//! changes. Some folios are split only to see how many of their pages are in use: where few are, base pages
//! take less, of whatever tier. What was right once may be wrong when others have changed, too: prices double with each return.

use crate::action::{Action, Lane, Plan};
use crate::placement::View;
use crate::types::*;
use alloc::vec::Vec;

/// Folios that are split to see how many of their pages are in use: at most so many, and one in so many.
const TRIALS: (usize, usize) = (4, 64);
/// Samples before that.
const SAMPLES_BEFORE_TRIALS: u32 = 1024;
/// Changes proposed at once.
const AT_ONCE: usize = 4;

/// Doublings of prices, at most.
const MOST_RETURNS: u8 = 10;

/// A region's account.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Base pages over a folio (ns).
    balance: f32,
    /// Sample at which rent was last paid.
    paid: u32,
    /// Times that it was changed back, each of which doubles the prices.
    returns: u8,
    huge: bool,
    asked: bool,
    /// It was split since it was last looked at: what is freed was not in use.
    fresh: bool,
}

/// Prices of changes (ns); infinite where there are to be none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prices {
    pub split: f32,
    pub collapse: f32,
}

/// A region as the hand finds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub region: Region,
    pub huge: bool,
    /// All its pages are resident base pages that nothing moves.
    pub whole: bool,
    /// Base pages that would be in fast memory.
    pub hot: u32,
    /// It would be in fast memory as a folio.
    pub dense: bool,
}

/// Accounts of all regions.
#[derive(Debug)]
pub(super) struct Granularity {
    prices: Prices,
    accounts: Vec<Account>,
    /// Regions whose balance exceeds the price, with the balance.
    to_split: Vec<(f32, Region)>,
    to_collapse: Vec<(Region, bool)>,
    /// Pages that splits have freed.
    pub unused: u64,
    tried: usize,
    pub splits: u64,
    pub collapses: u64,
}

impl Granularity {
    pub(super) fn new(prices: Prices) -> Self {
        Self {
            prices,
            accounts: Vec::new(),
            to_split: Vec::new(),
            to_collapse: Vec::new(),
            unused: 0,
            tried: 0,
            splits: 0,
            collapses: 0,
        }
    }

    pub(super) fn set_prices(&mut self, prices: Prices) {
        self.prices = prices;
    }

    pub(super) fn grow(&mut self, pages: u32) {
        let regions = (pages / HUGE_PAGES) as usize;
        if regions > self.accounts.len() {
            self.accounts.resize(regions, Account::default());
        }
    }

    /// Enters what base pages save over a folio (ns).
    #[inline]
    pub(super) fn enter(&mut self, region: Region, saved: f32) {
        self.accounts[region.index()].balance += saved;
    }

    /// Nothing is known of a region any more.
    pub(super) fn forget(&mut self, region: Region) {
        if let Some(account) = self.accounts.get_mut(region.index()) {
            *account = Account::default();
        }
    }

    /// Charges a region for fast memory, `rent` (ns) a page and sample, up to sample `now`, and notes what
    /// is worth a change.
    pub(super) fn charge(&mut self, found: Found, rent: f32, now: u32) {
        let most = TRIALS.0.min(self.accounts.len() / TRIALS.1);
        let tries = self.tried < most && now > SAMPLES_BEFORE_TRIALS && rent > 0.0 && found.dense;
        let account = &mut self.accounts[found.region.index()];
        account.fresh = false;
        let elapsed = now.wrapping_sub(account.paid);
        account.paid = now;
        if found.huge != account.huge {
            let returns = account.returns.saturating_add(u8::from(found.huge)).min(MOST_RETURNS);
            *account = Account { huge: found.huge, paid: now, returns, ..Account::default() };
            return;
        }
        let folio = if found.dense { HUGE_PAGES as f32 } else { 0.0 };
        account.balance += rent * elapsed as f32 * (folio - found.hot as f32);
        // What was long ago does not outweigh what has changed since.
        let dearer = f32::from(1u16 << account.returns);
        let (split, collapse) = (self.prices.split * dearer, self.prices.collapse * dearer);
        if found.huge {
            account.balance = account.balance.max(-split);
            if tries && !account.asked && split.is_finite() {
                self.tried += 1;
                self.to_split.push((split, found.region));
            } else if account.balance > split && !account.asked {
                self.to_split.push((account.balance, found.region));
            }
        } else {
            account.balance = account.balance.min(split);
            if account.balance < -collapse && found.whole {
                self.collapse(found.region, found.dense);
            }
        }
    }

    /// Wants a folio to be split that finds no room in one piece, where folios are split at all.
    pub(super) fn refused(&mut self, region: Region) {
        let account = &mut self.accounts[region.index()];
        if self.prices.split.is_finite() && !core::mem::replace(&mut account.asked, true) {
            self.to_split.push((f32::INFINITY, region));
        }
    }

    /// Wants a region to be a folio, in fast memory or not.
    pub(super) fn collapse(&mut self, region: Region, fast: bool) {
        let account = &mut self.accounts[region.index()];
        if !core::mem::replace(&mut account.asked, true) {
            self.to_collapse.push((region, fast));
        }
    }

    /// Proposes changes, those of the largest balance first, or forgets them where they cannot be afforded.
    pub(super) fn propose(&mut self, affords: bool, view: &View<'_>, plan: &mut Plan) {
        if !affords {
            for (_, region) in self.to_split.drain(..) {
                self.accounts[region.index()].asked = false;
            }
            for (region, _) in self.to_collapse.drain(..) {
                self.accounts[region.index()].asked = false;
            }
            return;
        }
        if !self.to_split.is_empty() {
            self.to_split.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
            let others = self.to_split.split_off(AT_ONCE.min(self.to_split.len()));
            for (_, region) in others {
                self.accounts[region.index()].asked = false;
            }
            for (_, region) in self.to_split.drain(..) {
                self.accounts[region.index()].asked = true;
                plan.push(Action::Split { region, lane: Lane::SCAN });
            }
        }
        for (region, dense) in self.to_collapse.drain(..) {
            let room = view.free(TierId::FAST).0 >= 2 * u64::from(HUGE_PAGES);
            let to = if dense && room { TierId::FAST } else { TierId::FAST.slower() };
            plan.push(Action::Collapse { region, to, lane: Lane::SCAN });
        }
    }

    /// A proposal has ended.
    pub(super) fn ended(&mut self, region: Region, huge: bool, changed: bool) {
        let count = if huge { &mut self.collapses } else { &mut self.splits };
        *count += u64::from(changed);
        if let Some(account) = self.accounts.get_mut(region.index()) {
            account.asked = false;
            account.balance = 0.0;
            account.fresh = changed && !huge;
        }
    }

    /// Pages were freed: where their folio was just split, they were not in use.
    pub(super) fn freed(&mut self, run: PageRun) {
        let account = self.accounts.get(run.start.region().index());
        if account.is_some_and(|account| account.fresh) {
            self.unused += u64::from(run.pages);
        }
    }

    /// Share of a folio's pages that is thought to be in use, by the folios that were split and one that
    /// was in use as a whole.
    pub(super) fn in_use(&self) -> f32 {
        let pages = (self.splits + 1) * u64::from(HUGE_PAGES);
        (pages - self.unused.min(pages - 1)) as f32 / pages as f32
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes((self.accounts.capacity() * size_of::<Account>()) as u64)
    }
}
