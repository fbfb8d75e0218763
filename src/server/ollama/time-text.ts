// Times as Ollama writes them: moments by RFC 3339 with nanoseconds, durations as whole nanoseconds.

/** Milliseconds since 1970, with fractions. */
export function timeText(ms: number): string {
  const whole = Math.floor(ms);
  const rest = Math.round((ms - whole) * 1e6);
  const carried = rest === 1_000_000 ? whole + 1 : whole;
  const digits = String(rest === 1_000_000 ? 0 : rest).padStart(6, '0');
  return new Date(carried).toISOString().replace('Z', `${digits}Z`);
}

/** The clock has microseconds; the last digits are rounding noise. */
export function nowText(): string {
  return timeText(performance.timeOrigin + performance.now());
}

export function nanoseconds(ms: number): number {
  return Math.round(ms * 1e6);
}
