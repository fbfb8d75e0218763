import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { idleLoad } from '../../../test/support/idle-load.ts';
import { workerStatus } from '../../../test/support/node-status.ts';
import type { EngineSubscriber } from '../../engine/engine-monitor.ts';
import type { TierName } from '../../engine/scheduler/lower-tiers.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Answer, ModelLoad, ModelStatus, NodeStatus, Question, StoredMessage } from '../messages.ts';
import { promptKeys } from '../routing/prefix-keys.ts';
import { Router } from '../routing/router.ts';
import { StoredPublisher } from '../worker/stored-publisher.ts';
import { StoredPrefixes } from './stored-prefixes.ts';

const BLOCKS = 15;
const tokens = Int32Array.from({ length: 32 * (BLOCKS + 1) }, (_, i) => i);
const keys = promptKeys({ modelKey: '', salt: ':', tokens });
const nothing = new Int32Array(0);
const keysOf = (from: number, to: number) => keys.slice(2 * from, 2 * to);

const load = {
  ...idleLoad,
  steps: 1,
  tiers: { hostBlockMs: 1, disk: { folder: 'f', blockMs: 2 }, isAssumed: true },
} satisfies ModelLoad;

/** A worker's publisher, and a gateway that hears it as far as messages are not lost. */
class Wire {
  nowMs = 0;
  loses = (_: 'batch' | 'answer') => false;
  readonly asked: Question[] = [];
  readonly sent: StoredMessage[] = [];
  readonly router = new Router({ gateway: 'g' });
  readonly publishers = new Map<string, StoredPublisher>();
  readonly #engines = new Map<string, EngineSubscriber>();
  #number = 0;

  readonly prefixes = new StoredPrefixes({
    router: this.router,
    ask: async (node, question) => this.#answer(node, question),
    keyOf: () => 'key',
    nowMs: () => this.nowMs,
  });

  add(worker: string): void {
    const monitor = {
      subscribe: (subscriber: EngineSubscriber) => {
        this.#engines.set(worker, subscriber);
        return { end: () => {} };
      },
    };
    const loaded = [{ name: 'm', engine: { monitor } }];
    const pool = { loaded: () => loaded } as unknown as ModelPool;
    const clock = {
      monotonicMs: () => this.nowMs,
      every: (_: number, tick: () => void) => {
        tick();
        return { end: () => {} };
      },
    } as unknown as Clock;
    const publish = (message: StoredMessage) => {
      this.sent.push(message);
      if (!this.loses('batch')) this.prefixes.handle(message);
    };
    this.publishers.set(worker, new StoredPublisher({ node: worker, start: worker, pool, clock, publish }));
  }

  stores(
    worker: string,
    tier: TierName,
    {
      entered = nothing,
      left = nothing,
      isFirst = false,
    }: Partial<Record<'entered' | 'left', Int32Array>> & {
      isFirst?: boolean;
    },
  ): void {
    this.#engines.get(worker)?.stored?.({ tier, isFirst, entered, left });
  }

  /** Each half second. */
  async hear(worker: string): Promise<void> {
    this.#number += 1;
    this.nowMs += 500;
    const model = { name: 'm', key: 'key', load } as unknown as ModelStatus;
    const status: NodeStatus = workerStatus(worker, { number: this.#number, models: [model] });
    const { node, start: epoch, number, draining, heard } = status;
    const models = [{ ...load, modelKey: 'key' }];
    this.router.heartbeat({ worker: node, epoch, number, draining, heard, models }, this.nowMs);
    this.prefixes.handleStatus(status);
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** Blocks that the gateway expects to lie below the worker's memory. */
  expects(worker: string) {
    const excluded = new Set([...this.publishers.keys()].filter((name) => name !== worker));
    const request = { modelKey: 'key', keys, promptTokens: tokens.length, expectedTokens: 9, maxTokens: 9 };
    const rest = { priority: 1, ageMs: 0, conversation: '', excluded } as const;
    const decision = this.router.choose({ ...request, ...rest }, this.nowMs);
    if (decision.kind !== 'worker') throw new Error(decision.kind);
    const { hostBlocks, diskBlocks } = decision.prefix;
    return { host: hostBlocks, disk: diskBlocks };
  }

  async #answer(node: string, question: Question): Promise<Answer> {
    this.asked.push(question);
    if (question.kind !== 'stored') throw new Error(question.kind);
    const publisher = this.publishers.get(node) as StoredPublisher;
    const piece = publisher.piece(question.model, question.tier, question.before);
    if (this.loses('answer')) throw new Error('no answer');
    return { kind: 'stored', piece };
  }
}

describe('what lies below the memory of workers', () => {
  it('is known to a gateway that comes late, in pieces, and then by what changes', async () => {
    const wire = new Wire();
    wire.add('a');
    const many = Int32Array.from({ length: 40_000 }, () => randomBytes(4).readInt32LE());
    wire.stores('a', 'disk', { isFirst: true, entered: many });
    wire.stores('a', 'disk', { entered: keysOf(0, 9) });
    wire.stores('a', 'host', { isFirst: true });
    expect(wire.sent.filter(({ stored }) => stored.tier === 'disk')).toEqual([]);
    await wire.hear('a');
    expect(wire.asked.filter((one) => one.kind === 'stored' && one.tier === 'disk').length).toBe(4);
    expect(wire.expects('a')).toEqual({ host: 0, disk: 9 });
    wire.stores('a', 'disk', { entered: keysOf(9, 12), left: keysOf(8, 9) });
    wire.stores('a', 'host', { entered: keysOf(8, 9) });
    expect(wire.expects('a')).toEqual({ host: 1, disk: 11 });
    wire.loses = (what) => what === 'batch';
    wire.stores('a', 'disk', { entered: keysOf(12, 13) });
    wire.loses = () => false;
    wire.stores('a', 'disk', { entered: keysOf(13, 14) });
    await new Promise((resolve) => setImmediate(resolve));
    expect(wire.expects('a'), 'the next batch shows that one is missing').toEqual({ host: 1, disk: 13 });
    const before = wire.asked.length;
    for (let n = 0; n < 30; n++) await wire.hear('a');
    expect(wire.asked.length - before, 'nothing is listed again').toBe(0);
    for (let n = 0; n < 30; n++) await wire.hear('a');
    expect(wire.asked.length - before).toBe(1);
  });

  it('in a folder is told by one reader, and by the next when that one is gone', async () => {
    const wire = new Wire();
    for (const worker of ['a', 'b']) {
      wire.add(worker);
      wire.stores(worker, 'disk', { isFirst: true, entered: keysOf(0, 5) });
      await wire.hear(worker);
    }
    wire.stores('b', 'disk', { entered: keysOf(5, 6) });
    wire.stores('a', 'disk', { entered: keysOf(5, 6) });
    const tellers = () =>
      wire.sent.filter(({ stored }) => stored.tier === 'disk').map(({ worker }) => worker);
    expect(tellers()).toEqual(['a']);
    expect(wire.expects('b')).toEqual({ host: 0, disk: 6 });
    wire.router.remove('a');
    wire.prefixes.left('a');
    await wire.hear('b');
    wire.stores('b', 'disk', { entered: keysOf(6, 8) });
    expect(wire.expects('b')).toEqual({ host: 0, disk: 8 });
    expect(tellers()).toEqual(['a', 'b']);
    wire.nowMs += 61_000;
    wire.stores('b', 'disk', { entered: keysOf(8, 9) });
    expect(tellers(), 'nobody has asked for a minute').toEqual(['a', 'b']);
    for (let n = 0; n < 3; n++) await wire.hear('b');
    expect(wire.expects('b')).toEqual({ host: 0, disk: 9 });
  });

  it('is forgotten with an engine that begins anew', async () => {
    const wire = new Wire();
    wire.add('a');
    wire.stores('a', 'host', { isFirst: true, entered: keysOf(0, 5) });
    await wire.hear('a');
    expect(wire.expects('a').host).toBe(5);
    wire.stores('a', 'host', { isFirst: true, entered: keysOf(0, 2) });
    expect(wire.expects('a').host).toBe(2);
  });

  it('is known in the end, whatever is lost on the way', async () => {
    const step = fc.record({
      entered: fc.uniqueArray(fc.nat(BLOCKS - 1), { maxLength: 3 }),
      left: fc.uniqueArray(fc.nat(BLOCKS - 1), { maxLength: 2 }),
      losesBatch: fc.boolean(),
      losesAnswer: fc.boolean(),
      hears: fc.boolean(),
      restarts: fc.boolean(),
    });
    const laneOf = (blocks: readonly number[]) =>
      Int32Array.from(blocks.flatMap((block) => [...keysOf(block, block + 1)]));
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const wire = new Wire();
        wire.add('a');
        const held = new Set<number>();
        wire.stores('a', 'disk', { isFirst: true });
        for (const { entered, left, losesBatch, losesAnswer, hears, restarts } of steps) {
          wire.loses = (what) => (what === 'batch' ? losesBatch : losesAnswer);
          const gone = left.filter((block) => !entered.includes(block));
          for (const block of entered) held.add(block);
          for (const block of gone) held.delete(block);
          if (restarts) wire.stores('a', 'disk', { isFirst: true, entered: laneOf([...held]) });
          else wire.stores('a', 'disk', { entered: laneOf(entered), left: laneOf(gone) });
          if (hears) await wire.hear('a');
        }
        wire.loses = () => false;
        // It is asked again every twenty seconds, whether something is missing or not.
        for (let n = 0; n < 45; n++) await wire.hear('a');
        const run = Array.from({ length: BLOCKS }, (_, block) => held.has(block)).indexOf(false);
        expect(wire.expects('a').disk).toBe(run === -1 ? BLOCKS : run);
      }),
      { numRuns: 40 },
    );
  });
});
