// Types of what the server tells; names are those of `frostline status --json`.

export interface Tier {
  name: string;
  used_bytes: number;
  capacity_bytes: number;
}

export interface Parts {
  swap_ins: number;
  slow_loads: number;
  faults: number;
  ours: number;
}

export interface Loss {
  share: number;
  low: number;
  high: number;
  parts: Parts;
}

export interface Bin {
  least: number;
  class: "hot" | "warm" | "cold";
  bytes: number;
  tier_bytes: number[];
}

export interface Status {
  pid: number;
  seconds: number;
  name: string;
  policy: string;
  dry_run: boolean;
  targets: { pid: number; comm: string }[];
  tiers: Tier[];
  footprint_bytes: number;
  saved_bytes: number;
  compressed_bytes: number | null;
  loss?: { goal?: number; whole: Loss; latest: Loss; is_estimate: boolean };
  sources: { name: string; touches: number; lost: number; cpu_seconds: number }[];
  hotness: Bin[];
  /** Process, address, and touches that are seen in a second. */
  heat: [number, number, number][];
  metrics: Record<string, number>;
  own_rss_bytes: number;
}

export interface Rates {
  refaults: number;
  down_bytes: number;
  up_bytes: number;
  cpu_share: number;
  hits: number | null;
}

export interface Target {
  key: string;
  status: Status;
  rates: Rates;
  point: Point;
  warnings: { text: string; hint: string }[];
}

export interface Picture {
  at_ms: number;
  version: string;
  machine: {
    host: string;
    memory_bytes: number;
    available_bytes: number;
    swap_bytes: number;
    swap_free_bytes: number;
  };
  targets: Target[];
}

export interface Opened {
  name: string;
  trace: Advised | null;
  compared: Compared[];
}

export interface Advised {
  machine: string;
  policy: string;
  records: number;
  touched_bytes: number;
  footprint_bytes: number;
  miss_curve: { of_pages: number; misses: number }[];
  slowdowns: [number, number][];
  answers: { max_slowdown: number; fast_share: number | null }[];
  map: { column_seconds: number; hottest_tenth: number; row_regions: number[]; counts: number[][] };
}

/** One run. */
export interface Compared {
  trace: string;
  machine: string;
  policy: string;
  seed: number;
  fast: string;
  fast_bytes: number;
  slowdown: number;
  fast_hits: number;
  share_of_bound: number | null;
  moved_bytes: number;
}

export interface Heat {
  parts: [number, number][];
  /** By moment, and part. */
  touches: number[][];
}

export interface Point {
  at_ms: number;
  fast_bytes: number;
  limit_bytes: number;
  slow_bytes: number;
  saved_bytes: number;
  loss: number | null;
  /** To swap-ins, loads from slow nodes, faults and us. */
  parts: [number, number, number, number];
  up_bytes: number;
  down_bytes: number;
}
