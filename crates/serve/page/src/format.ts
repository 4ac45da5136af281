// Numbers as people read them; three digits are enough.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value: number): string {
  let unit = 0;
  while (value >= 1000 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  return `${digits(value, unit === 0)} ${UNITS[unit]}`;
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

export function rate(value: number): string {
  return `${digits(value, false)}/s`;
}

export function count(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
}

export function since(seconds: number): string {
  const units: [number, string][] = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
  ];
  const [size, name] = units.find(([size]) => seconds >= 2 * size) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${name}`;
}

function digits(value: number, whole: boolean): string {
  if (whole || value >= 100) return value.toFixed(0);
  return value.toFixed(value >= 10 ? 1 : 2);
}
