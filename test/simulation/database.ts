// One database that all gateways of a simulated fleet share, in memory, and each gateway's way to it: it may be unreachable, it may
// refuse, and a change may be made though nobody hears of it.

import { type Database, StoreError } from '../../src/store/database.ts';
import type { Chance } from '../chaos/chance.ts';
import type { SimulatedProcess } from './process.ts';
import type { VirtualTime } from './virtual-time.ts';

const ANSWER_MS = 1;
const SILENT_MS = 2000;

export class SharedDatabase {
  readonly inner: Database;
  /** Gateways that cannot reach it; `*` for all. */
  readonly away = new Set<string>();
  /** The disk is full: it reads and does not write. */
  isFull = false;
  /** Share of changes whose answers are lost, made or not. */
  lostAnswers = 0;
  readonly #time: VirtualTime;
  readonly #chance: Chance;

  constructor(inner: Database, time: VirtualTime, chance: Chance) {
    this.inner = inner;
    this.#time = time;
    this.#chance = chance;
  }

  of(process: SimulatedProcess): Database {
    const { inner } = this;
    const isAway = () => this.away.has('*') || this.away.has(process.machine.name);
    const fail = (reason: string) => new StoreError('unreachable', `the simulated database ${reason}`);
    const later = (durationMs: number) => new Promise<void>((resolve) => process.run(resolve, durationMs));
    const reached = async () => {
      await later(ANSWER_MS / 2);
      if (!isAway()) return;
      await later(SILENT_MS);
      throw fail('does not answer');
    };
    const tables = {
      selectFrom: (from: never) => {
        if (isAway()) throw fail('does not answer');
        return inner.tables.selectFrom(from);
      },
    } as unknown as Database['tables'];
    return {
      kind: 'postgres',
      name: 'simulated',
      tables,
      nowMs: async (within) => {
        if (within === undefined) await reached();
        return this.#nowMs;
      },
      keysVersion: async () => {
        await reached();
        return inner.keysVersion();
      },
      change: async (action, patienceMs) => {
        await reached();
        if (this.isFull) throw new StoreError('refused', 'the simulated database has no room');
        const isLost = this.lostAnswers > 0 && this.#chance.happens(this.lostAnswers);
        if (isLost && this.#chance.happens(0.5)) throw fail('broke the connection before the change');
        const result = await inner.change(action, patienceMs);
        await later(ANSWER_MS / 2);
        if (isLost) throw fail('broke the connection after the change');
        return result;
      },
      sync: () => inner.sync(),
      close: async () => {},
    };
  }

  get #nowMs(): number {
    return 1_790_000_000_000 + Math.floor(this.#time.nowMs);
  }
}
