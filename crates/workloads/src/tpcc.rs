//! `tpcc`: the transactions of TPC-C on an in-memory database.
//!
//! Model: rows with 32 B headers and B+trees of 320 B nodes. The five transactions have their
//! shares (New-Order 45 %, Payment 43 %, the others 4 % each), customers and items are drawn by
//! NURand, 60 % of the customers by name, 1 % of the stock and 15 % of the payments are remote.
//! Orders, their lines and the history grow at their ends, in memory touched just then; when
//! `room` is used up, the oldest ones are dropped.
//! Source: TPC-C, revision 5.11, clauses 1.2, 2 and 4.3; VoltDB-TPCC in HotBox, section 6.
//! Not: VoltDB or Silo. One thread, no log, no aborts, terminals anywhere; 4 warehouses at the
//! default size instead of 256.

use super::cpu::{Cpu, Marks};
use super::made::{Made, Workload};
use super::memory::{Cached, Memory, Untraced};
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::stage::Stage;
use super::tpcc_tables::{GrowingIndex, INDEX_BYTES, Ring, Table};
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;
use std::collections::VecDeque;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::text(
        "items",
        "100K",
        "items, 1K to 100K; customers and first orders of a warehouse are fewer in proportion",
    ),
    Param::text("room", "20%", "share of the footprint for orders to come, 1% to 80%"),
    params::gap("30"),
    params::LLC,
    params::MARK,
    params::THINK,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

/// New-Order, Payment, Order-Status, Delivery, Stock-Level: parts of a hundred.
const SHARES: [u64; 5] = [45, 43, 4, 4, 4];
const DISTRICTS: u64 = 10;
/// Customers, and first orders, of a district with 100 000 items.
const CUSTOMERS: u64 = 3000;

/// Rows of clause 1.2 with 32 B in front, in multiples of 16 B.
const WAREHOUSE_BYTES: u64 = 128;
const DISTRICT_BYTES: u64 = 128;
const CUSTOMER_BYTES: u64 = 688;
const ITEM_BYTES: u64 = 128;
const STOCK_BYTES: u64 = 352;
const ORDER_BYTES: u64 = 64;
const LINE_BYTES: u64 = 96;
const HISTORY_BYTES: u64 = 80;
const LINES: u64 = 10;

/// An order with its lines, history and index entries.
const GROWTH_BYTES: u64 =
    ORDER_BYTES + LINES * LINE_BYTES + HISTORY_BYTES + (2 + LINES) * INDEX_BYTES;

/// How many of everything there are.
#[derive(Clone, Copy, Debug)]
struct Scale {
    warehouses: u64,
    items: u64,
    customers: u64,
    /// Orders kept, those at the start included.
    orders: u64,
}

impl Scale {
    fn new(settings: &Settings, footprint: u64) -> Result<Self, TraceError> {
        let items = settings.count("items", 1000, 100_000)?;
        let customers = CUSTOMERS * items / 100_000;
        let room = settings.share("room")?;
        if !(0.01..=0.8).contains(&room) {
            return Err(settings.refuse("room", "is out of range", "give 1% to 80%"));
        }
        let fixed = items * (ITEM_BYTES + INDEX_BYTES);
        let each = items * (STOCK_BYTES + INDEX_BYTES)
            + DISTRICTS * customers * (CUSTOMER_BYTES + 3 * INDEX_BYTES + GROWTH_BYTES);
        let for_rows = ((footprint as f64 * (1.0 - room)) as u64).saturating_sub(fixed);
        let warehouses = for_rows / each;
        if warehouses == 0 {
            return Err(settings.refuse(
                "size",
                "has no room for a warehouse",
                "give more, or fewer items",
            ));
        }
        let left = footprint - fixed - warehouses * each;
        let orders = warehouses * DISTRICTS * customers + left / GROWTH_BYTES;
        Ok(Self { warehouses, items, customers, orders })
    }

    fn districts(self) -> u64 {
        self.warehouses * DISTRICTS
    }
}

#[derive(Clone, Copy, Debug)]
struct Order {
    row: u64,
    customer: u32,
    /// First line, as a key of the district and as a row; number of lines.
    first_key: u64,
    first_row: u64,
    lines: u64,
}

/// Orders of a district that are still there, the oldest first.
#[derive(Clone, Debug, Default)]
struct District {
    orders: VecDeque<Order>,
    /// Number of the oldest one, and of the oldest one not delivered.
    first: u64,
    open: u64,
    next_line: u64,
}

impl District {
    fn order(&self, number: u64) -> Option<Order> {
        self.orders.get(number.checked_sub(self.first)? as usize).copied()
    }
}

/// Rows that are added at the end; the oldest make room.
#[derive(Debug)]
struct Rows {
    orders: Ring,
    lines: Ring,
    history: Ring,
}

/// Indices of such rows by district.
#[derive(Debug)]
struct Indices {
    orders: GrowingIndex,
    /// Orders not delivered.
    open: GrowingIndex,
    lines: GrowingIndex,
}

#[derive(Debug)]
struct Database {
    scale: Scale,
    warehouses: Table,
    districts: Table,
    customers: Table,
    names: Table,
    last_orders: Table,
    items: Table,
    stock: Table,
    rows: Rows,
    indices: Indices,
    by_district: Vec<District>,
    /// Item of each line; last order of each customer.
    line_items: Vec<u32>,
    last_order: Vec<u64>,
    /// The constants of NURand.
    constants: [u64; 3],
    rng: Rng,
}

impl Database {
    fn map(stage: &mut Stage, scale: Scale, mut rng: Rng) -> Self {
        let districts = scale.districts();
        let customers = districts * scale.customers;
        let stock = scale.warehouses * scale.items;
        // A little more, as orders have 10 lines on average only.
        let lines = scale.orders * LINES + scale.orders / 8;
        Self {
            warehouses: Table::map(stage, scale.warehouses, WAREHOUSE_BYTES),
            districts: Table::map(stage, districts, DISTRICT_BYTES),
            customers: Table::map(stage, customers, CUSTOMER_BYTES),
            names: Table::map(stage, customers, 0),
            last_orders: Table::map(stage, customers, 0),
            items: Table::map(stage, scale.items, ITEM_BYTES),
            stock: Table::map(stage, stock, STOCK_BYTES),
            rows: Rows {
                orders: Ring::map(stage, scale.orders, ORDER_BYTES),
                lines: Ring::map(stage, lines, LINE_BYTES),
                history: Ring::map(stage, scale.orders, HISTORY_BYTES),
            },
            indices: Indices {
                orders: GrowingIndex::map(stage, districts, scale.orders),
                open: GrowingIndex::map(stage, districts, scale.orders),
                lines: GrowingIndex::map(stage, districts, lines),
            },
            by_district: vec![District::default(); districts as usize],
            line_items: vec![0; lines as usize],
            last_order: vec![0; customers as usize],
            constants: std::array::from_fn(|_| rng.next_u64() >> 32),
            scale,
            rng,
        }
    }

    /// The orders of clause 4.3.3.1: one for each customer, the last three tenths open.
    fn fill(&mut self) {
        for district in 0..self.scale.districts() {
            for order in 0..self.scale.customers {
                let customer = (order * 7919 + 1) % self.scale.customers;
                let lines = 5 + self.rng.below(11);
                let items = std::array::from_fn(|_| self.rng.below(self.scale.items) as u32);
                self.insert_order(&mut Untraced, district, customer, lines, &items);
                self.rows.history.append(&mut Untraced);
            }
            self.by_district[district as usize].open = self.scale.customers * 7 / 10;
            self.indices.open.trim(district, self.scale.customers * 7 / 10);
        }
    }

    /// What is written before the measured phase.
    fn loader(&self, on: bool) -> Loader {
        let tables = [
            &self.items,
            &self.warehouses,
            &self.stock,
            &self.districts,
            &self.customers,
            &self.names,
            &self.last_orders,
        ];
        let areas: Vec<_> = tables.iter().flat_map(|table| table.areas()).collect();
        let rings =
            [&self.rows.orders, &self.rows.lines, &self.rows.history].map(|ring| ring.loader(on));
        let indices = [&self.indices.orders, &self.indices.open, &self.indices.lines];
        let indices = indices.map(|index| index.loader(on));
        rings.into_iter().chain(indices).fold(Loader::new(on, &areas), Loader::and)
    }

    /// Clause 2.1.6: `0..n`, some more often; `bits` of 8192 are for `n` of 100 000 and so on.
    fn nurand(&mut self, n: u64, kind: usize) -> u64 {
        let share = [13, 3, 4][kind];
        let mask = (n / share).max(1).next_power_of_two() - 1;
        let skewed = self.rng.below(mask + 1) | self.rng.below(n);
        (skewed + self.constants[kind]) % n
    }

    fn item(&mut self) -> u64 {
        self.nurand(self.scale.items, 0)
    }

    /// A customer of the district, found by number or, six times of ten, by name.
    fn customer(&mut self, memory: &mut impl Memory, district: u64) -> u64 {
        let all = self.scale.customers;
        let first = district * all;
        if self.rng.below(10) >= 6 {
            return first + self.nurand(all, 1);
        }
        // Three customers have the same name; the one in the middle is taken.
        let names = (all / 3).max(1);
        let name = self.nurand(names, 2);
        for which in 0..3 {
            self.names.find(memory, first + (name * 3 + which).min(all - 1));
        }
        first + (name + names * (name % 3)).min(all - 1)
    }

    fn insert_order(
        &mut self,
        memory: &mut impl Memory,
        district: u64,
        customer: u64,
        lines: u64,
        items: &[u32; 15],
    ) {
        let this = &mut self.by_district[district as usize];
        while this.orders.front().is_some_and(|order| {
            !self.rows.orders.holds(order.row + 1) || !self.rows.lines.holds(order.first_row + 15)
        }) {
            this.orders.pop_front();
            this.first += 1;
        }
        this.open = this.open.max(this.first);
        let number = this.first + this.orders.len() as u64;
        let first_key = this.next_line;
        this.next_line += lines;
        let oldest_key = this.orders.front().map_or(first_key, |order| order.first_key);
        self.indices.orders.trim(district, this.first);
        self.indices.open.trim(district, this.open);
        self.indices.lines.trim(district, oldest_key);
        let row = self.rows.orders.append(memory);
        self.indices.orders.append(memory, district, number);
        self.indices.open.append(memory, district, number);
        let first_row = self.rows.lines.next;
        for line in 0..lines {
            let place = self.rows.lines.append(memory);
            self.line_items[self.rows.lines.place(place)] = items[line as usize];
            self.indices.lines.append(memory, district, first_key + line);
        }
        let order = Order { row, customer: customer as u32, first_key, first_row, lines };
        self.by_district[district as usize].orders.push_back(order);
        self.last_order[(district * self.scale.customers + customer) as usize] = number;
    }

    fn new_order(&mut self, memory: &mut impl Memory) {
        let warehouse = self.rng.below(self.scale.warehouses);
        let district = warehouse * DISTRICTS + self.rng.below(DISTRICTS);
        let customer = self.nurand(self.scale.customers, 1);
        self.warehouses.read(memory, warehouse);
        self.districts.update(memory, district);
        self.customers.read(memory, district * self.scale.customers + customer);
        let lines = 5 + self.rng.below(11);
        let items: [u32; 15] = std::array::from_fn(|_| self.item() as u32);
        for &item in &items[..lines as usize] {
            let remote = self.rng.below(100) == 0;
            let from = if remote { self.rng.below(self.scale.warehouses) } else { warehouse };
            self.items.read(memory, u64::from(item));
            self.stock.update(memory, from * self.scale.items + u64::from(item));
        }
        self.insert_order(memory, district, customer, lines, &items);
    }

    fn payment(&mut self, memory: &mut impl Memory) {
        let district = self.rng.below(self.scale.districts());
        let remote = self.rng.below(100) < 15;
        let of = if remote { self.rng.below(self.scale.districts()) } else { district };
        self.warehouses.update(memory, district / DISTRICTS);
        self.districts.update(memory, district);
        let customer = self.customer(memory, of);
        self.customers.update(memory, customer);
        self.rows.history.append(memory);
    }

    fn order_status(&mut self, memory: &mut impl Memory) {
        let district = self.rng.below(self.scale.districts());
        let customer = self.customer(memory, district);
        self.customers.read(memory, customer);
        self.last_orders.find(memory, customer);
        let number = self.last_order[customer as usize];
        if let Some(order) = self.live(district, number) {
            self.rows.orders.read(memory, order.row);
            self.lines_of(memory, district, order, false);
        }
    }

    fn delivery(&mut self, memory: &mut impl Memory) {
        let warehouse = self.rng.below(self.scale.warehouses);
        for district in warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS {
            let number = self.by_district[district as usize].open;
            let Some(order) = self.live(district, number) else { continue };
            self.indices.open.find(memory, district, number);
            self.indices.open.touch(memory, district, number);
            self.by_district[district as usize].open += 1;
            self.indices.orders.find(memory, district, number);
            self.rows.orders.update(memory, order.row);
            self.lines_of(memory, district, order, true);
            let customer = district * self.scale.customers + u64::from(order.customer);
            self.customers.update(memory, customer);
        }
    }

    fn stock_level(&mut self, memory: &mut impl Memory) {
        let district = self.rng.below(self.scale.districts());
        self.districts.read(memory, district);
        let this = &self.by_district[district as usize];
        let next = this.first + this.orders.len() as u64;
        let mut items = Vec::with_capacity(300);
        for number in next.saturating_sub(20)..next {
            let Some(order) = self.live(district, number) else { continue };
            self.lines_of(memory, district, order, false);
            let rows = order.first_row..order.first_row + order.lines;
            items.extend(rows.map(|row| self.line_items[self.rows.lines.place(row)]));
        }
        items.sort_unstable();
        items.dedup();
        let first = district / DISTRICTS * self.scale.items;
        for item in items {
            self.stock.read(memory, first + u64::from(item));
        }
    }

    /// The order, if it and its lines have not been dropped.
    fn live(&self, district: u64, number: u64) -> Option<Order> {
        let order = self.by_district[district as usize].order(number)?;
        (self.rows.orders.holds(order.row) && self.rows.lines.holds(order.first_row))
            .then_some(order)
    }

    fn lines_of(&self, memory: &mut impl Memory, district: u64, order: Order, update: bool) {
        for line in 0..order.lines {
            if line == 0 || (order.first_key + line).is_multiple_of(14) {
                self.indices.lines.find(memory, district, order.first_key + line);
            }
            if update {
                self.rows.lines.update(memory, order.first_row + line);
            } else {
                self.rows.lines.read(memory, order.first_row + line);
            }
        }
    }
}

#[derive(Debug)]
struct Tpcc {
    cpu: Cpu,
    marks: Marks,
    /// None until the database is filled.
    loader: Option<Loader>,
    init: bool,
    before: u64,
    database: Database,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let footprint = u64::from(settings.pages(64)?) * PAGE_BYTES;
    let scale = Scale::new(settings, footprint)?;
    let init = settings.switch("init")?;
    let marks = Marks::new(settings)?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let database = Database::map(&mut stage, scale, rng.fork());
    let first = scale.districts() * scale.customers;
    let written = footprint - (scale.orders - first) * GROWTH_BYTES;
    stage.expect(if init { written / PAGE_BYTES } else { 0 });
    let workload = Tpcc { cpu, marks, loader: None, init, before: 0, database };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl Workload for Tpcc {
    fn step(&mut self, stage: &mut Stage) -> bool {
        let Self { cpu, marks, loader, database, .. } = self;
        let loader = loader.get_or_insert_with(|| {
            database.fill();
            let loader = database.loader(self.init);
            self.before = loader.records();
            loader
        });
        if loader.step(stage) {
            return true;
        }
        for _ in 0..4 {
            if cpu.done(stage, self.before) {
                return false;
            }
            let mut drawn = database.rng.below(100);
            let kind = SHARES.iter().position(|&share| match drawn.checked_sub(share) {
                Some(rest) => {
                    drawn = rest;
                    false
                }
                None => true,
            });
            let kind = kind.unwrap_or(0);
            marks.operation(stage, kind as u64, |stage| {
                let mut memory = Cached { cpu, stage };
                match kind {
                    0 => database.new_order(&mut memory),
                    1 => database.payment(&mut memory),
                    2 => database.order_status(&mut memory),
                    3 => database.delivery(&mut memory),
                    _ => database.stock_level(&mut memory),
                }
            });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chi_square_ok;
    use crate::tests::{check, operations};
    use frostline_trace::header::TraceHeader;

    fn database(orders: u64) -> Database {
        let scale = Scale { warehouses: 2, items: 2000, customers: 60, orders };
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let mut database = Database::map(&mut stage, scale, Rng::new(3));
        database.fill();
        database
    }

    #[test]
    fn transactions_have_their_shares() {
        let ops = operations("tpcc:size=64MiB:items=10K:accesses=1M:mark=1:init=off");
        let counts: Vec<u64> = (0..5).map(|op| ops[&op]).collect();
        assert!(counts.iter().sum::<u64>() > 2000, "{counts:?}");
        chi_square_ok(&counts, &SHARES.map(|share| share as f64));
    }

    #[test]
    fn nurand_is_what_the_specification_says() {
        let mut database = database(3000);
        database.constants = [0; 3];
        // P(x) of (A | B) with A in 0..1024 and B in 0..3000, counted out.
        let mut weights = vec![0.0; 3000];
        for a in 0..1024 {
            for b in 0..3000 {
                weights[(a | b) % 3000] += 1.0;
            }
        }
        let mut counts = vec![0u64; 3000];
        for _ in 0..2_000_000 {
            counts[database.nurand(3000, 1) as usize] += 1;
        }
        chi_square_ok(&counts, &weights);
    }

    #[test]
    fn orders_are_delivered_once_each_and_dropped_when_the_room_is_used_up() {
        let mut database = database(1500);
        let first: u64 = database.by_district.iter().map(|d| d.orders.len() as u64).sum();
        assert_eq!(first, 20 * 60, "one order for each customer");
        let open = |database: &Database| -> u64 {
            let districts = database.by_district.iter();
            districts.map(|d| d.first + d.orders.len() as u64 - d.open).sum()
        };
        assert_eq!(open(&database), 20 * 18, "three tenths are open");
        let mut all_delivered = 0;
        for round in 0..3000u64 {
            let before = open(&database);
            if round % 4 == 0 {
                database.delivery(&mut Untraced);
                // One for each district of a warehouse, where there is one.
                let delivered = before - open(&database);
                assert!(delivered <= 10);
                all_delivered += delivered;
            } else {
                database.new_order(&mut Untraced);
                database.payment(&mut Untraced);
                database.order_status(&mut Untraced);
                database.stock_level(&mut Untraced);
            }
            if open(&database) < 100 {
                for _ in 0..100 {
                    database.new_order(&mut Untraced);
                }
            }
        }
        assert!(database.rows.orders.next > 3000 && all_delivered > 1500, "{all_delivered}");
        let mut rows = std::collections::HashSet::new();
        for district in &database.by_district {
            assert!(district.open >= district.first);
            for order in
                district.orders.iter().filter(|order| database.rows.orders.holds(order.row))
            {
                assert!(rows.insert(database.rows.orders.place(order.row)), "each has its own row");
            }
        }
        assert!(rows.len() > 1300 && rows.len() <= 1500, "{}", rows.len());
    }

    #[test]
    fn orders_grow_into_memory_not_touched_before() {
        let spec = "tpcc:size=64MiB:items=10K:room=30%:accesses=1M";
        let loaded = check(&spec.replace("1M", "1K")).pages.len();
        let after = check(spec).pages.len();
        assert!(loaded < 13_500 && after > loaded + 200, "{loaded} and {after} of 16384 pages");
    }
}
