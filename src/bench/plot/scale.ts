// Scales: which values an axis spans, where its ticks are, and where a value lies between its ends.

export interface Scale {
  readonly from: number;
  readonly to: number;
  readonly ticks: readonly number[];
  /** 0 at the start of the axis, 1 at its end. */
  at(value: number): number;
  format(value: number): string;
}

export interface Extent {
  readonly from: number;
  readonly to: number;
}

export function extentOf(values: Iterable<number>): Extent | undefined {
  let from = Number.POSITIVE_INFINITY;
  let to = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (value < from) from = value;
    if (value > to) to = value;
  }
  return from <= to ? { from, to } : undefined;
}

/** The smallest of 1, 2 or 5 times a power of ten that is not below the given step. */
export function niceStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  const factor = [1, 2, 5, 10].find((one) => one * power >= step * (1 - 1e-9)) ?? 10;
  return factor * power;
}

/** Widened to whole ticks, so that data never touch the end of the axis. */
export function linearScale(extent: Extent, tickCount: number): Scale {
  const { from, to } = withRoom(extent);
  const step = niceStep((to - from) / Math.max(1, tickCount));
  const first = Math.floor(from / step + 1e-9);
  const last = Math.ceil(to / step - 1e-9);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = Array.from({ length: last - first + 1 }, (_, n) =>
    Number(((first + n) * step).toFixed(decimals)),
  );
  return fixedScale({ from: first * step, to: last * step }, ticks, (value) => value, decimals);
}

/** Its ends are powers of ten, or 2 or 5 times one. All values must be positive. */
export function logScale(extent: Extent, tickCount: number): Scale {
  if (extent.from <= 0) throw new RangeError(`a logarithmic axis cannot show ${extent.from}`);
  const to = extent.to > extent.from ? extent.to : extent.from * 2;
  const all = decadeTicks(extent.from, to);
  const powers = all.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9);
  const ticks = all.length > tickCount && powers.length >= 2 ? powers : all;
  const bounds = { from: all[0] ?? extent.from, to: all[all.length - 1] ?? to };
  return fixedScale(bounds, ticks, Math.log10);
}

/** Only these ticks; spans them and the data. */
export function scaleWithTicks(extent: Extent, ticks: readonly number[], kind: 'linear' | 'log'): Scale {
  const from = Math.min(extent.from, ...ticks);
  const to = Math.max(extent.to, ...ticks);
  if (kind === 'log' && from <= 0) throw new RangeError(`a logarithmic axis cannot show ${from}`);
  const bounds = to > from ? { from, to } : withRoom({ from, to });
  return fixedScale(bounds, ticks, kind === 'log' ? Math.log10 : (value) => value);
}

function fixedScale(
  { from, to }: Extent,
  ticks: readonly number[],
  transform: (value: number) => number,
  decimals?: number,
): Scale {
  const start = transform(from);
  const length = transform(to) - start;
  return {
    from,
    to,
    ticks,
    at: (value) => (transform(value) - start) / length,
    format: (value) => formatNumber(value, decimals),
  };
}

/** All 1, 2 and 5 times powers of ten from the last at or below `from` to the first at or above `to`. */
function decadeTicks(from: number, to: number): number[] {
  const candidates: number[] = [];
  for (let exponent = Math.floor(Math.log10(from)) - 1; exponent <= Math.ceil(Math.log10(to)); exponent++) {
    for (const factor of [1, 2, 5]) candidates.push(Number(`${factor}e${exponent}`));
  }
  const first = candidates.findLastIndex((value) => value <= from);
  const last = candidates.findIndex((value) => value >= to);
  return candidates.slice(Math.max(0, first), last === -1 ? undefined : last + 1);
}

function withRoom({ from, to }: Extent): Extent {
  if (to > from) return { from, to };
  if (from === 0) return { from: 0, to: 1 };
  return from > 0 ? { from: 0, to: from } : { from, to: 0 };
}

function formatNumber(value: number, decimals?: number): string {
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(0);
  return value.toLocaleString('en-US', {
    minimumFractionDigits: decimals === undefined ? 0 : Math.min(decimals, 6),
    maximumFractionDigits: decimals === undefined ? 6 : Math.min(decimals, 6),
  });
}
