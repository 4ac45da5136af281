// Tiers by their colors, the fastest first; beyond the last color all have that.

const KINDS = ["fast", "slow", "slower"];

export function kind(tier: number): string {
  return KINDS[tier] ?? "slowest";
}
