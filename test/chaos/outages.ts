// When the server was told to end, or ended, and when it was back: what a request may meet that was under way then.

export interface Outage {
  /** `orderly`: requests that are being served are served to the end, within the limit. `cut`: nobody is owed anything. */
  readonly kind: 'orderly' | 'cut';
  readonly toldMs: number;
  readonly limitMs: number;
}

interface OpenOutage extends Outage {
  kind: Outage['kind'];
  backMs: number;
}

/** A connection may wait so long before the server takes it, on a machine with much else to do. */
const UNSEEN_MS = 2000;

export class Outages {
  readonly #outages: OpenOutage[] = [];

  begin(kind: Outage['kind'], limitMs: number, toldMs = performance.now()): void {
    this.#outages.push({ kind, toldMs, limitMs, backMs: Number.POSITIVE_INFINITY });
  }

  /** What began in good order is broken off: a second signal, or an end by force. */
  breakOff(): void {
    const last = this.#outages.at(-1);
    if (last !== undefined) last.kind = 'cut';
  }

  end(): void {
    const last = this.#outages.at(-1);
    if (last !== undefined) last.backMs = performance.now();
  }

  /** The worst that a request of that time was under way in. */
  during(startMs: number, endMs: number): Outage | undefined {
    const met = this.#outages.filter(({ toldMs, backMs }) => startMs <= backMs && endMs >= toldMs);
    return met.find(({ kind }) => kind === 'cut') ?? met[0];
  }
}

/** Whether the server had surely begun with a request when it was told to end. */
export function hadBegun({ toldMs }: Outage, startMs: number): boolean {
  return startMs < toldMs - UNSEEN_MS;
}
