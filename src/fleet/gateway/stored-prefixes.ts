// Keeps a router informed of what lies below the memory of workers: asks for it in pieces where it is not known, then takes what is
// published, and asks again where something was missed.

import type { TierName } from '../../engine/scheduler/lower-tiers.ts';
import type { Answer, NodeStatus, Question, StoredMessage } from '../messages.ts';
import type { CachePiece } from '../routing/cache-events.ts';
import type { Router } from '../routing/router.ts';
import type { WorkerTiers } from '../routing/tier-holders.ts';

const ASK_MS = 5000;
/** When it is asked again whether anything was missed. Readers of a folder that nobody asks say nothing after a minute. */
const RENEW_MS: Readonly<Record<TierName, number>> = { host: 120_000, disk: 20_000 };
/** After what could not be had. */
const RETRY_MS = 2000;
/** A list that changes all the time ends all the same. */
const MOST_PIECES = 1000;

interface StoredPrefixesOptions {
  readonly router: Pick<Router, 'tiersOf'>;
  readonly ask: (node: string, question: Question, timeoutMs: number) => Promise<Answer>;
  /** Content of a worker's model by its name there. */
  readonly keyOf: (worker: string, model: string) => string | undefined;
  readonly nowMs: () => number;
}

interface Source {
  readonly worker: string;
  readonly model: string;
  readonly tier: TierName;
}

export class StoredPrefixes {
  readonly #options: StoredPrefixesOptions;
  /** By source: when it is asked again. */
  readonly #dueMs = new Map<string, number>();
  readonly #asking = new Set<string>();

  constructor(options: StoredPrefixesOptions) {
    this.#options = options;
  }

  /** The router has heard it. */
  handleStatus({ node: worker, models }: NodeStatus): void {
    for (const { name: model, key, load } of models) {
      if (load?.tiers === undefined) continue;
      const tiers = this.#options.router.tiersOf(worker, key);
      for (const tier of ['host', 'disk'] as const) {
        if (tiers?.isReporter(tier) !== true) continue;
        const source = { worker, model, tier };
        if (this.#options.nowMs() >= (this.#dueMs.get(nameOf(source)) ?? 0)) void this.#ask(source);
      }
    }
  }

  handle({ worker, stored: { model, tier }, batch }: StoredMessage): void {
    if (this.#tiersOf(worker, model)?.apply(tier, batch) === 'missed')
      void this.#ask({ worker, model, tier });
  }

  left(worker: string): void {
    for (const name of this.#dueMs.keys()) if (name.startsWith(`${worker} `)) this.#dueMs.delete(name);
  }

  async #ask(source: Source): Promise<void> {
    const name = nameOf(source);
    if (this.#asking.has(name)) return;
    this.#asking.add(name);
    const isKnown = await this.#catchUp(source).catch(() => false);
    this.#asking.delete(name);
    this.#dueMs.set(name, this.#options.nowMs() + (isKnown ? RENEW_MS[source.tier] : RETRY_MS));
  }

  /** One question where nothing is missing: it keeps the worker telling. */
  async #catchUp(source: Source): Promise<boolean> {
    const { worker, model, tier } = source;
    const newest = await this.#piece(source, 0);
    if (newest === undefined) return false;
    if (this.#tiersOf(worker, model)?.isCurrent(tier, newest) === true) return true;
    let before: number | undefined;
    for (let count = 0; count < MOST_PIECES; count++) {
      const piece = await this.#piece(source, before);
      const tiers = this.#tiersOf(worker, model);
      if (piece === undefined || tiers === undefined) return false;
      const outcome = count === 0 ? tiers.replace(tier, piece) : tiers.extend(tier, piece);
      if (outcome !== 'applied' && outcome !== 'repeated') return false;
      if (piece.next === undefined) return true;
      before = piece.next;
    }
    return false;
  }

  #tiersOf(worker: string, model: string): WorkerTiers | undefined {
    const key = this.#options.keyOf(worker, model);
    return key === undefined ? undefined : this.#options.router.tiersOf(worker, key);
  }

  async #piece({ worker, model, tier }: Source, before: number | undefined): Promise<CachePiece | undefined> {
    const question = { kind: 'stored', model, tier, before } as const;
    const answer = await this.#options.ask(worker, question, ASK_MS);
    return answer.kind === 'stored' ? answer.piece : undefined;
  }
}

function nameOf({ worker, model, tier }: Source): string {
  return `${worker} ${tier} ${model}`;
}
