// An engine as the memory of models sees it: sequences that grow block by block under a limit, wait where there is no
// room, and give way to older ones. No tokens, no compute.

import type { BlockDemand } from '../../src/engine/scheduler/stats.ts';

export interface SequenceNeed {
  readonly sinceMs: number;
  /** Blocks it holds when it ends. */
  readonly blocks: number;
}

interface Sequence extends SequenceNeed {
  /** Blocks it has, or needs to go on. */
  length: number;
  running: boolean;
}

export class BlockUser {
  /** The oldest first. */
  readonly #sequences: Sequence[] = [];
  #limit: number;
  #short = false;
  #demand: BlockDemand;
  /** Free blocks that still hold something. */
  #cached = 0;

  constructor(limit: number) {
    this.#limit = limit;
    this.#demand = this.#asItStands();
  }

  /** As of the last step. */
  get demand(): BlockDemand {
    return this.#demand;
  }

  /** Blocks in memory. */
  get held(): number {
    return this.#used + this.#cached;
  }

  get unfinished(): number {
    return this.#sequences.length;
  }

  get oldestMs(): number | undefined {
    return this.#sequences[0]?.sinceMs;
  }

  add(need: SequenceNeed): void {
    this.#sequences.push({ ...need, length: 1, running: false });
    this.#sequences.sort((a, b) => a.sinceMs - b.sinceMs);
  }

  allow(blocks: number): void {
    this.#limit = blocks;
    this.#giveWay(0);
  }

  /** Every sequence that can grows by a block, the oldest first; the youngest give way. */
  step(): void {
    this.#short = false;
    this.#giveWay(0);
    const waiting = this.#sequences.filter(({ running }) => !running);
    for (const sequence of this.#sequences.filter(({ running }) => running)) this.#grow(sequence);
    for (const sequence of waiting) {
      // Nothing overtakes the first that does not fit.
      if (this.#used + sequence.length > this.#limit) {
        this.#short = true;
        break;
      }
      sequence.running = true;
    }
    this.#giveWay(0);
    this.#demand = this.#asItStands();
  }

  #asItStands(): BlockDemand {
    const next = this.#sequences.find(({ running }) => !running)?.length ?? 1;
    const wanted = this.#short ? Math.max(2 * this.#limit, this.#used + next) : this.#limit;
    const required = (this.#sequences.find(({ running }) => running) ?? this.#sequences[0])?.length ?? 0;
    const blocks = { limit: this.#limit, held: this.held, used: this.#used, shared: 0, cached: this.#cached };
    return { ...blocks, wanted, short: this.#short, required };
  }

  get #used(): number {
    return this.#sequences.reduce((sum, { length, running }) => sum + (running ? length : 0), 0);
  }

  #grow(sequence: Sequence): void {
    if (!sequence.running) return;
    if (sequence.length === sequence.blocks) {
      this.#cached += sequence.length;
      this.#sequences.splice(this.#sequences.indexOf(sequence), 1);
      return;
    }
    this.#giveWay(1);
    sequence.length++;
  }

  /** Makes room for N more, and keeps no more in memory than is allowed. */
  #giveWay(more: number): void {
    while (this.#used + more > this.#limit) {
      const youngest = this.#sequences.findLast(({ running }) => running);
      if (youngest === undefined) break;
      this.#cached += youngest.length;
      youngest.running = false;
      this.#short = true;
    }
    this.#cached = Math.max(0, Math.min(this.#cached, this.#limit - this.#used - more));
  }
}
