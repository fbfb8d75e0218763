// Blocks that left memory come back: from the machine's memory, and from its disk to an engine that is another.

import { mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EngineSettings } from '../../src/engine/protocol.ts';
import type { TierName } from '../../src/engine/scheduler/lower-tiers.ts';
import type { TierStats } from '../../src/engine/tiers/tier-stats.ts';
import { promptKeys } from '../../src/fleet/routing/prefix-keys.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import { chatIds, embeddedEndIds } from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { type Answer, collect, engineRequest } from '../support/engine-requests.ts';
import { eventually } from '../support/eventually.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';

const identity = { model: 'embedded', adapters: [] };
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-tiers-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const disk = () => ({ folder, sizeBytes: 256 * 1024 ** 2 });

/** More than 200 tokens that begin like no other story. */
function story(name: string): Int32Array {
  const text = `${name} walked over the hill and looked at the lake. `.repeat(40);
  return chatIds(text).slice(0, 230);
}

const ask = async (engine: SupervisedEngine, name: string, salt = ''): Promise<Answer> =>
  collect(
    engine.submit(engineRequest({ prompt: story(name), sampling: { maxTokens: 24, ignoreEos: true }, salt })),
  );

async function withTiers<Result>(
  tiers: EngineSettings['tiers'],
  use: (engine: SupervisedEngine) => Promise<Result>,
  { blockCount = 64, name = 'embedded', identity: own = identity, modelPath = embeddedModelPath } = {},
): Promise<Result> {
  const engine = new SupervisedEngine({
    modelPath,
    ...(tiers && { tiers }),
    engine: { blockCount, budget: { kind: 'fixed', maxStepTokens: 64 }, endIds: embeddedEndIds },
  });
  try {
    expect(await engine.start()).toMatchObject({ ok: true });
    engine.identify(name, own);
    if (tiers?.disk !== undefined)
      await eventually(async () => expect((await tiersOf(engine)).disk).toBeDefined());
    return await use(engine);
  } finally {
    await engine.close();
  }
}

async function tiersOf(engine: SupervisedEngine): Promise<TierStats> {
  return (await engine.stats()).tiers as TierStats;
}

const namesOf = (keys: Int32Array) =>
  Array.from({ length: keys.length / 2 }, (_, at) => `${keys[2 * at]} ${keys[2 * at + 1]}`);

/** The keys that an engine says a tier holds, from now on. */
function toldBy(engine: SupervisedEngine): (tier: TierName) => string[] {
  const held = { host: new Set<string>(), disk: new Set<string>() };
  engine.monitor.subscribe({
    stored: ({ tier, isFirst, entered, left }) => {
      if (isFirst) held[tier].clear();
      for (const name of namesOf(left)) held[tier].delete(name);
      for (const name of namesOf(entered)) held[tier].add(name);
    },
  });
  return (tier) => [...held[tier]];
}

const finishOf = ({ finish }: Answer) => finish;

describe('blocks that leave memory', () => {
  it('come back from the machine’s memory with the same bits, where there is no room for them all', async () => {
    const alone = await withTiers(undefined, (engine) => ask(engine, 'Milo'));
    await withTiers(
      { hostBytes: 64 * 1024 ** 2 },
      async (engine) => {
        const first = await ask(engine, 'Milo');
        for (const name of ['Anna', 'Bert', 'Cleo']) await ask(engine, name);
        const again = await ask(engine, 'Milo');
        expect(again.tokens).toEqual(first.tokens);
        expect(again.tokens).toEqual(alone.tokens);
        expect(finishOf(first).cachedTokens).toBe(0);
        expect(finishOf(again).cachedTokens).toBeGreaterThanOrEqual(192);
        const { host, loads, failedLoads } = await tiersOf(engine);
        expect(host?.hits).toBeGreaterThan(0);
        expect([loads, failedLoads]).toEqual([1, 0]);
      },
      { blockCount: 16 },
    );
  });

  it('are on the disk when an engine ends in good order, and the next one answers from there', async () => {
    const first = await withTiers({ hostBytes: 0, disk: disk() }, (engine) => ask(engine, 'Milo'));
    await withTiers({ hostBytes: 0, disk: disk() }, async (engine) => {
      const again = await ask(engine, 'Milo');
      expect(again.tokens).toEqual(first.tokens);
      expect(finishOf(again).cachedTokens).toBeGreaterThanOrEqual(192);
      expect((await tiersOf(engine)).disk?.hits).toBeGreaterThan(5);
      // In memory now, as if it had been computed.
      expect(finishOf(await ask(engine, 'Milo')).cachedTokens).toBeGreaterThanOrEqual(192);
      expect((await tiersOf(engine)).loads).toBe(1);
    });
  });

  it('come up as soon as an engine that has too few blocks for them is granted more, and are computed where it is not', async () => {
    const first = await withTiers({ hostBytes: 0, disk: disk() }, (engine) => ask(engine, 'Milo'));
    for (const [state, loads] of [
      ['waiting', 1],
      ['running', 0],
    ] as const) {
      await withTiers({ hostBytes: 0, disk: disk() }, async (engine) => {
        engine.allow(6);
        const answer = ask(engine, 'Milo');
        await eventually(async () => {
          const { queues, running } = await engine.stats();
          const waiting = queues.reduce((sum, queue) => sum + queue.waiting, 0);
          expect({ waiting, running: running.length }[state]).toBe(1);
        });
        engine.allow(64);
        expect((await answer).tokens).toEqual(first.tokens);
        expect((await tiersOf(engine)).loads).toBe(loads);
      });
    }
  });

  it('are on the disk soon, also where the engine is killed', async () => {
    const first = await withTiers({ hostBytes: 0, disk: disk() }, async (engine) => {
      const answer = await ask(engine, 'Milo');
      await eventually(async () => expect((await tiersOf(engine)).disk?.blocks).toBeGreaterThanOrEqual(7));
      process.kill(engine.pid as number, 'SIGKILL');
      return answer;
    });
    await withTiers({ hostBytes: 0, disk: disk() }, async (engine) => {
      const again = await ask(engine, 'Milo');
      expect(again.tokens).toEqual(first.tokens);
      expect(finishOf(again).cachedTokens).toBeGreaterThanOrEqual(192);
    });
  });

  it('are told of by the keys that gateways make of a prompt, and so is what another engine writes', async () => {
    const wanted = namesOf(promptKeys({ modelKey: '', salt: ':ann', tokens: story('Milo') }));
    expect(wanted.length).toBe(7);
    await withTiers(
      { hostBytes: 64 * 1024 ** 2 },
      async (engine) => {
        const told = toldBy(engine);
        for (const name of ['Milo', 'Anna', 'Bert', 'Cleo']) await ask(engine, name, 'ann');
        await eventually(() => expect(told('host')).toEqual(expect.arrayContaining(wanted)));
        expect(told('disk')).toEqual([]);
      },
      { blockCount: 16 },
    );
    await withTiers({ hostBytes: 0, disk: disk() }, (writer) =>
      withTiers({ hostBytes: 0, disk: disk() }, async (reader) => {
        const told = toldBy(reader);
        // It computes nothing.
        const stats: TierStats[] = [];
        reader.monitor.subscribe({ tiers: (one) => stats.push(one) });
        await ask(writer, 'Milo', 'ann');
        await eventually(() => expect(told('disk')).toEqual(expect.arrayContaining(wanted)));
        const [one, other] = [await tiersOf(writer), await tiersOf(reader)];
        expect(other.holder).toBeDefined();
        expect(other.holder).toBe(one.holder);
        expect(stats.at(-1)).toMatchObject({ holder: one.holder, block: { isAssumed: true } });
        const late: TierStats[] = [];
        reader.monitor.subscribe({ tiers: (known) => late.push(known) });
        expect(late.map(({ holder }) => holder)).toEqual([one.holder]);
      }),
    );
  });

  it('are computed again where their files are damaged', async () => {
    const first = await withTiers({ hostBytes: 0, disk: disk() }, (engine) => ask(engine, 'Milo'));
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      const path = join(folder, name);
      if (name.endsWith('.blocks')) truncateSync(path, Math.floor(statSync(path).size / 2));
    }
    await withTiers({ hostBytes: 0, disk: disk() }, async (engine) => {
      const again = await ask(engine, 'Milo');
      expect(again.tokens).toEqual(first.tokens);
      expect(finishOf(again).cachedTokens).toBeLessThan(192);
    });
  });

  it.skipIf(!hasTestdata)(
    'come back with the recurrent states of hybrids, bit for bit',
    { timeout: 300_000 },
    async () => {
      const prompt = Int32Array.from({ length: 230 }, (_, place) => 3 + ((place * 37) % 90));
      const sampling = { maxTokens: 12, ignoreEos: true, logprobs: 3 };
      for (const family of ['qwen3_next', 'lfm2', 'granitemoehybrid']) {
        const modelPath = testdata('families', family, 'model-bf16.gguf');
        const own = { model: family, adapters: [] };
        const answer = async (engine: SupervisedEngine) =>
          collect(engine.submit(engineRequest({ prompt, sampling }, 512)));
        const computed = await withTiers({ hostBytes: 0, disk: disk() }, answer, {
          modelPath,
          identity: own,
        });
        await withTiers(
          { hostBytes: 0, disk: disk() },
          async (engine) => {
            const again = await answer(engine);
            expect(again.tokens, family).toEqual(computed.tokens);
            expect(again.logprobs, family).toEqual(computed.logprobs);
            expect(computed.logprobs?.length, family).toBe(12);
            expect(finishOf(computed).cachedTokens, family).toBe(0);
            expect(finishOf(again).cachedTokens, family).toBeGreaterThan(0);
          },
          { modelPath, identity: own },
        );
      }
    },
  );

  it('are found by their own tenant, salt and model alone, and by nobody once they are deleted', async () => {
    const tiers = () => ({ hostBytes: 0, disk: disk() });
    await withTiers(tiers(), async (engine) => {
      await ask(engine, 'Milo', 'ann');
      await ask(engine, 'Milo', 'bob');
    });
    const cached = async (engine: SupervisedEngine, salt: string) =>
      finishOf(await ask(engine, 'Milo', salt)).cachedTokens;
    await withTiers(tiers(), async (engine) => {
      expect(await cached(engine, 'eve')).toBe(0);
      expect(await cached(engine, 'ann:more')).toBe(0);
      engine.removeTenant('ann');
      expect(await cached(engine, 'ann')).toBe(0);
      expect(await cached(engine, 'bob')).toBeGreaterThanOrEqual(192);
    });
    // What the tenant computed afterwards was not kept.
    await withTiers(tiers(), async (engine) => expect(await cached(engine, 'ann')).toBe(0));
    const other = { model: 'another', adapters: [] };
    await withTiers(tiers(), async (engine) => expect(await cached(engine, 'bob')).toBe(0), {
      identity: other,
    });
  });

  it('are done without where the folder cannot be used, and it is said', async () => {
    const incidents: string[] = [];
    const engine = new SupervisedEngine(
      {
        modelPath: embeddedModelPath,
        tiers: { hostBytes: 0, disk: { folder: join(embeddedModelPath, 'no-folder'), sizeBytes: 1024 ** 2 } },
        engine: { blockCount: 32, endIds: embeddedEndIds },
      },
      { onIncident: (message) => incidents.push(message) },
    );
    try {
      expect(await engine.start()).toMatchObject({ ok: true });
      engine.identify('embedded', identity);
      await eventually(() => expect(incidents).not.toEqual([]));
      expect(finishOf(await ask(engine, 'Milo')).reason).toBe('length');
      expect(incidents.join()).toContain('no-folder cannot be opened');
    } finally {
      await engine.close();
    }
  });
});
