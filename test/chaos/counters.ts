// Counters as Prometheus reads them: they only ever grow, however many look at once.

/** Value by name and labels, as they stand in the text. */
export type Counters = ReadonlyMap<string, number>;

/** Counters and histograms of a scrape; gauges may do what they like. */
export function parseCounters(text: string): Counters {
  const counted = new Set<string>();
  const counters = new Map<string, number>();
  for (const line of text.split('\n')) {
    const type = /^# TYPE (\S+) (counter|histogram)/.exec(line);
    if (type !== null) counted.add(type[1] as string);
    const sample = /^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)$/.exec(line);
    if (sample === null) continue;
    const [, name = '', labels = '', value] = sample;
    const family = name.replace(/_(bucket|sum|count)$/, '');
    if (counted.has(name) || counted.has(family)) counters.set(name + labels, Number(value));
  }
  return counters;
}

/** The sum of a gauge or counter over labels that hold the given text. */
export function sumOf(text: string, name: string, label = ''): number | undefined {
  const values = text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter((line) => line.includes(label))
    .map((line) => Number(line.slice(line.lastIndexOf(' ') + 1)));
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
}

/** Remembers what was seen last; says what fell behind it. */
export class CounterWatch {
  readonly #last = new Map<string, number>();

  /** Another process counts from zero. */
  restart(): void {
    this.#last.clear();
  }

  /** Scrapes that were made at the same time. A series that is absent for once says nothing. */
  look(atOnce: readonly Counters[]): string[] {
    const fallen = new Set<string>();
    const highest = new Map<string, number>();
    for (const [name, value] of atOnce.flatMap((counters) => [...counters])) {
      const before = this.#last.get(name);
      if (before !== undefined && value < before) fallen.add(`${name} fell from ${before} to ${value}`);
      highest.set(name, Math.max(value, highest.get(name) ?? value));
    }
    // A fallen one counts from its new value on, so that one fall is told once.
    for (const [name, value] of highest) this.#last.set(name, value);
    return [...fallen];
  }
}

/** What differs between two scrapes of an idle server, beside what scraping itself counts. */
export function idleDifferences(one: Counters, other: Counters): string[] {
  return [...one]
    .filter(([name]) => name.startsWith('chairlift_') && !name.startsWith('chairlift_responses_total'))
    .filter(([name, value]) => other.has(name) && other.get(name) !== value)
    .map(([name, value]) => `${name} is ${value} and ${other.get(name)}`);
}
