// The speeds of the fastest workers that have a model, of those that have measured theirs: known at any time without looking at
// all of them.

import { isWhole, type KnownSpeeds, oneStep, type Speeds } from './heartbeat.ts';

interface Fastest {
  readonly worker: number;
  readonly speeds: Speeds;
}

type Cost = (speeds: Speeds) => number;

const costs: readonly Cost[] = [oneStep, ({ promptTokenMs }) => promptTokenMs];

export class FastestSpeeds {
  readonly #measured = new Map<number, Speeds>();
  /** By cost; undefined where all have to be looked at. */
  readonly #fastest: (Fastest | undefined)[] = costs.map(() => undefined);

  set(worker: number, speeds: KnownSpeeds): void {
    if (!isWhole(speeds)) return;
    this.#measured.set(worker, speeds);
    for (const [i, cost] of costs.entries()) {
      const fastest = this.#fastest[i];
      if (fastest === undefined) continue;
      if (cost(speeds) <= cost(fastest.speeds)) this.#fastest[i] = { worker, speeds };
      // Another may be faster now.
      else if (worker === fastest.worker) this.#fastest[i] = undefined;
    }
  }

  delete(worker: number): void {
    this.#measured.delete(worker);
    for (const i of costs.keys()) if (this.#fastest[i]?.worker === worker) this.#fastest[i] = undefined;
  }

  /** The fastest step, and the fastest prompt token; none before the first measurement. */
  readonly speeds = (): readonly Speeds[] => {
    if (this.#measured.size === 0) return [];
    return costs.map((cost, i) => {
      this.#fastest[i] ??= this.#least(cost);
      return (this.#fastest[i] as Fastest).speeds;
    });
  };

  #least(cost: Cost): Fastest | undefined {
    let least: Fastest | undefined;
    for (const [worker, speeds] of this.#measured)
      if (least === undefined || cost(speeds) < cost(least.speeds)) least = { worker, speeds };
    return least;
  }
}
