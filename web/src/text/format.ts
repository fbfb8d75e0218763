// Numbers and times as people read them; sizes are src/text/byte-size.ts's.

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

export function count(value: number): string {
  return whole.format(value);
}

/** Three digits that count, no more. */
export function rate(value: number): string {
  if (value >= 100) return whole.format(value);
  return value.toFixed(value >= 10 ? 1 : 2);
}

/** As models are called by their size: 1.24B, 135M. */
export function parameterCount(value: number): string {
  return value >= 1e9 ? `${rate(value / 1e9)}B` : `${rate(value / 1e6)}M`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${ms > 0 && ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString('en-GB');
}

export function day(ms: number): string {
  return new Date(ms).toLocaleDateString('en-CA');
}

export function shortId(id: string): string {
  return id.length <= 12 ? id : `${id.slice(0, 4)}…${id.slice(-6)}`;
}

export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`;
}

/** Never cuts within a surrogate pair. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const end = /[\ud800-\udbff]/.test(text[most - 2] as string) ? most - 2 : most - 1;
  return `${text.slice(0, end)}…`;
}
