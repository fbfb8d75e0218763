// What a request has left in the prefix cache goes to a file by the number of a slot, and comes back in an engine that is another,
// with the same bits.

import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EngineSettings } from '../../src/engine/protocol.ts';
import type { SlotAction, SlotResult } from '../../src/engine/slots/slot-action.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import { chatIds, embeddedEndIds } from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { type Answer, collect, engineRequest } from '../support/engine-requests.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-slots-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Setup extends Pick<EngineSettings, 'tiers' | 'kvType' | 'backend'> {
  readonly blockCount?: number;
  readonly blockLimit?: number;
  readonly modelPath?: string;
  readonly model?: string;
}

async function withSlots<Result>(
  {
    blockCount = 64,
    blockLimit = blockCount,
    modelPath = embeddedModelPath,
    model = 'embedded',
    ...settings
  }: Setup,
  use: (engine: SupervisedEngine) => Promise<Result>,
): Promise<Result> {
  const engine = new SupervisedEngine({
    modelPath,
    ...settings,
    slots: { folder },
    engine: { blockCount, blockLimit, budget: { kind: 'fixed', maxStepTokens: 64 }, endIds: embeddedEndIds },
  });
  try {
    expect(await engine.start()).toMatchObject({ ok: true });
    engine.identify('embedded', { model, adapters: [] });
    return await use(engine);
  } finally {
    await engine.close();
  }
}

/** 230 tokens that begin like no other story: seven whole blocks, and one of the answer. */
function story(name: string): Int32Array {
  return chatIds(`${name} walked over the hill and looked at the lake. `.repeat(40)).slice(0, 230);
}

interface Asked {
  readonly salt?: string;
  readonly slot?: number;
}

const sampling = { maxTokens: 34, ignoreEos: true, logprobs: 2 };

async function ask(
  engine: SupervisedEngine,
  name: string,
  { salt = 'ann', slot }: Asked = {},
): Promise<Answer> {
  const request = engineRequest({ prompt: story(name), sampling, salt });
  return collect(engine.submit(slot === undefined ? request : { ...request, slot }));
}

const file = { owner: 'ann', name: 'one.bin' };
const action = {
  save: (slot: number, tenant = 'ann'): SlotAction => ({
    kind: 'save',
    slot,
    tenant,
    ...file,
    owner: tenant,
  }),
  restore: (slot: number, tenant = 'ann'): SlotAction => ({
    kind: 'restore',
    slot,
    tenant,
    ...file,
    owner: tenant,
    account: tenant,
  }),
  erase: (slot: number, tenant = 'ann'): SlotAction => ({ kind: 'erase', slot, tenant }),
};

async function done(result: Promise<SlotResult>) {
  const settled = await result;
  if (!settled.ok) throw new Error(`${settled.failure}: ${settled.message}`);
  return settled;
}

const failureOf = async (result: Promise<SlotResult>) => {
  const settled = await result;
  return settled.ok ? 'none' : settled.failure;
};

/** Saves what was asked in slot 1, as another process finds it. */
const savedBy = (setup: Setup = {}) =>
  withSlots(setup, async (engine) => {
    const answer = await ask(engine, 'Milo', { slot: 1 });
    const saved = await done(engine.actOnSlot(action.save(1)));
    expect(answer.finish.cachedTokens).toBe(0);
    expect((await engine.stats()).blocks.used).toBe(0);
    return { answer, saved };
  });

const pathOfFile = () => join(folder, file.owner, file.name);

describe('the prefix of a slot', () => {
  it('is restored in another process, where its request is answered with the same bits', async () => {
    const { answer, saved } = await savedBy();
    expect(saved.tokens).toBe(256);
    expect(saved.bytes).toBe(readFileSync(pathOfFile()).length);
    await withSlots({}, async (engine) => {
      const restored = await done(engine.actOnSlot(action.restore(3)));
      expect([restored.tokens, restored.bytes]).toEqual([saved.tokens, saved.bytes]);
      const again = await ask(engine, 'Milo');
      expect(again.finish.cachedTokens).toBe(224);
      expect(again.tokens).toEqual(answer.tokens);
      expect(again.logprobs).toEqual(answer.logprobs);
      expect((await engine.stats()).blocks.used).toBe(0);
      // The slot that it came to is what is saved by that number now; the one of the request by another.
      expect((await done(engine.actOnSlot(action.save(3)))).tokens).toBe(saved.tokens);
      expect((await done(engine.actOnSlot(action.save(0)))).tokens).toBe(saved.tokens);
      expect(await failureOf(engine.actOnSlot(action.save(2)))).toBe('empty');
    });
  });

  it.skipIf(!hasTestdata)(
    'is restored with the recurrent states of hybrids',
    { timeout: 300_000 },
    async () => {
      const prompt = Int32Array.from({ length: 230 }, (_, place) => 3 + ((place * 37) % 90));
      const hybrid = async (engine: SupervisedEngine) =>
        collect(engine.submit({ ...engineRequest({ prompt, sampling, salt: 'ann' }, 512), slot: 0 }));
      for (const model of ['qwen3_next', 'lfm2', 'granitemoehybrid']) {
        const setup = { modelPath: testdata('families', model, 'model-bf16.gguf'), model };
        const computed = await withSlots(setup, async (engine) => {
          const answer = await hybrid(engine);
          await done(engine.actOnSlot(action.save(0)));
          return answer;
        });
        await withSlots(setup, async (engine) => {
          await done(engine.actOnSlot(action.restore(0)));
          const again = await hybrid(engine);
          expect(again.finish.cachedTokens, model).toBe(224);
          expect(again.tokens, model).toEqual(computed.tokens);
          expect(again.logprobs, model).toEqual(computed.logprobs);
        });
      }
    },
  );

  it.each(['f16', 'q4'] as const)(
    'is saved as it was found in tiers below memory, with KV of %s',
    async (kvType) => {
      const tiers = { hostBytes: 64 * 1024 ** 2 };
      const first = await withSlots({ tiers, kvType, blockCount: 16 }, async (engine) => {
        const answer = await ask(engine, 'Milo', { slot: 1 });
        for (const name of ['Anna', 'Bert', 'Cleo']) await ask(engine, name, { slot: 2 });
        expect((await done(engine.actOnSlot(action.save(1)))).tokens).toBe(256);
        return answer;
      });
      await withSlots({ kvType }, async (engine) => {
        await done(engine.actOnSlot(action.restore(1)));
        const again = await ask(engine, 'Milo');
        expect(again.finish.cachedTokens).toBe(224);
        expect(again.logprobs).toEqual(first.logprobs);
      });
    },
  );

  it('is as much of it as is left where nothing is below memory', async () => {
    await withSlots({ blockCount: 16 }, async (engine) => {
      await ask(engine, 'Milo', { slot: 1 });
      for (const name of ['Anna', 'Bert', 'Cleo']) await ask(engine, name, { slot: 2 });
      expect(await failureOf(engine.actOnSlot(action.save(1)))).toBe('empty');
      expect(readdirSync(folder)).toEqual([]);
    });
  });

  it('is refused by another model, KV type or tenant, and nothing has changed then', async () => {
    await savedBy();
    await withSlots({ model: 'another' }, async (engine) => {
      expect(await failureOf(engine.actOnSlot(action.restore(1)))).toBe('unfit');
      expect((await ask(engine, 'Milo')).finish.cachedTokens).toBe(0);
    });
    await withSlots({ kvType: 'q8' }, async (engine) => {
      expect(await failureOf(engine.actOnSlot(action.restore(1)))).toBe('unfit');
    });
    await withSlots({}, async (engine) => {
      expect(await failureOf(engine.actOnSlot(action.restore(1, 'bob')))).toBe('absent');
      const foreign = { ...action.restore(1), tenant: 'bob' } as SlotAction;
      expect(await failureOf(engine.actOnSlot(foreign))).toBe('unfit');
      expect((await ask(engine, 'Milo', { salt: 'bob' })).finish.cachedTokens).toBe(0);
    });
  });

  it('is refused where its file is damaged, and nothing has changed then', async () => {
    const { answer } = await savedBy();
    const whole = readFileSync(pathOfFile());
    await withSlots({}, async (engine) => {
      const refused = async () => failureOf(engine.actOnSlot(action.restore(1)));
      for (const at of [50, whole.length >> 1, whole.length - 40]) {
        const changed = Buffer.from(whole);
        changed[at] = (changed[at] as number) ^ 4;
        writeFileSync(pathOfFile(), changed);
        expect(['damaged', 'foreign'], `byte ${at}`).toContain(await refused());
      }
      writeFileSync(pathOfFile(), whole.subarray(0, whole.length >> 1));
      expect(await refused()).toBe('damaged');
      writeFileSync(pathOfFile(), whole);
      appendFileSync(pathOfFile(), 'more');
      expect(await refused()).toBe('damaged');
      expect((await engine.stats()).blocks).toMatchObject({ used: 0, cached: 0 });
      const again = await ask(engine, 'Milo');
      expect(again.finish.cachedTokens).toBe(0);
      expect(again.tokens).toEqual(answer.tokens);
    });
  });

  it('is not restored where there is no room for all of it, and nothing of it stays', async () => {
    await savedBy();
    await withSlots({ blockCount: 7 }, async (engine) => {
      expect(await failureOf(engine.actOnSlot(action.restore(1)))).toBe('busy');
      expect((await engine.stats()).blocks).toMatchObject({ used: 0, cached: 0 });
    });
    await withSlots({}, async (engine) => {
      const share = (kvShare: number) => ({ ...action.restore(1), kvShare }) as SlotAction;
      expect(await failureOf(engine.actOnSlot(share(0.1)))).toBe('unfit');
      expect((await engine.stats()).blocks).toMatchObject({ used: 0, cached: 0 });
      expect((await done(engine.actOnSlot(share(0.125)))).tokens).toBe(256);
    });
  });

  it('is restored where the engine holds few blocks, once it is allowed more, and wants none then', async () => {
    const { answer } = await savedBy();
    await withSlots({ blockLimit: 3 }, async (engine) => {
      const wanted: number[] = [];
      engine.monitor.subscribe({
        blocks: (demand) => {
          if (demand.wanted <= demand.limit) return;
          wanted.push(demand.wanted);
          // By what it is asked for it has the age of what waits.
          expect(engine.oldestMs).toBeGreaterThan(0);
          engine.allow(Math.min(demand.wanted, 2 * demand.limit));
        },
      });
      expect((await done(engine.actOnSlot(action.restore(1)))).tokens).toBe(256);
      expect(wanted.length).toBeGreaterThanOrEqual(2);
      expect(engine.oldestMs).toBeUndefined();
      const again = await ask(engine, 'Milo');
      expect(again.finish.cachedTokens).toBe(224);
      expect(again.logprobs).toEqual(answer.logprobs);
    });
  });

  it('is saved and restored while others are answered, whose answers are what they are alone', async () => {
    const { answer } = await savedBy();
    const names = ['Anna', 'Bert', 'Cleo', 'Dora'];
    const alone = await withSlots({}, async (engine) => {
      const answers = [];
      for (const name of names) answers.push((await ask(engine, name)).logprobs);
      return answers;
    });
    await withSlots({ blockCount: 40 }, async (engine) => {
      const running = names.map((name, at) => ask(engine, name, { slot: at }));
      const restored = engine.actOnSlot(action.restore(5));
      const answers = await Promise.all(running);
      expect(answers.map(({ logprobs }) => logprobs)).toEqual(alone);
      const result = await restored;
      if (result.ok) expect((await ask(engine, 'Milo')).logprobs).toEqual(answer.logprobs);
      else expect(result.failure).toBe('busy');
    });
  });

  it('is given up by erasing it, as far as nobody else has it', async () => {
    await withSlots({ tiers: { hostBytes: 64 * 1024 ** 2 } }, async (engine) => {
      const first = await ask(engine, 'Milo', { slot: 1 });
      expect((await done(engine.actOnSlot(action.erase(1)))).tokens).toBe(256);
      expect(await failureOf(engine.actOnSlot(action.save(1)))).toBe('empty');
      const again = await ask(engine, 'Milo', { slot: 1 });
      expect(again.finish.cachedTokens).toBe(0);
      expect(again.tokens).toEqual(first.tokens);
      // Others go on from its first blocks.
      const prompt = Int32Array.from([...story('Milo').subarray(0, 64), ...story('Anna').subarray(0, 64)]);
      await collect(engine.submit({ ...engineRequest({ prompt, sampling, salt: 'ann' }), slot: 2 }));
      expect((await done(engine.actOnSlot(action.erase(1)))).tokens).toBe(256 - 64);
      expect((await done(engine.actOnSlot(action.erase(7)))).tokens).toBe(0);
      expect((await engine.stats()).blocks.cached).toBe(5);
    });
  });

  it('is given up in the machine’s memory, too', async () => {
    await withSlots({ tiers: { hostBytes: 64 * 1024 ** 2 }, blockCount: 16 }, async (engine) => {
      const cachedAgain = async (erases: boolean) => {
        await ask(engine, 'Milo', { slot: 1 });
        for (const name of ['Anna', 'Bert', 'Cleo']) await ask(engine, name, { slot: 2 });
        if (erases) await done(engine.actOnSlot(action.erase(1)));
        return (await ask(engine, 'Milo', { slot: 1 })).finish.cachedTokens;
      };
      expect(await cachedAgain(false)).toBe(224);
      expect(await cachedAgain(true)).toBe(0);
    });
  });

  it('is gone with the tenant, and so are its files', async () => {
    await withSlots({}, async (engine) => {
      for (const salt of ['ann', 'bob']) {
        await ask(engine, 'Milo', { salt, slot: 1 });
        await done(engine.actOnSlot(action.save(1, salt)));
      }
      engine.removeTenant('ann');
      expect(await failureOf(engine.actOnSlot(action.save(1)))).toBe('absent');
      expect(readdirSync(folder).sort()).toEqual(['bob', 'store.key']);
      expect((await done(engine.actOnSlot(action.restore(1, 'bob')))).tokens).toBe(256);
    });
  });

  it('has a number that no running sequence has, where its request names none', async () => {
    await withSlots({}, async (engine) => {
      const asked = [ask(engine, 'Anna', { slot: 1 }), ask(engine, 'Bert'), ask(engine, 'Cleo')];
      const slots = new Set<number | undefined>();
      for (let look = 0; look < 200 && slots.size < 3; look++) {
        for (const { slot } of (await engine.stats()).running) slots.add(slot);
      }
      await Promise.all(asked);
      expect([...slots].sort()).toEqual([0, 1, 2]);
    });
  });

  it('gives way to requests where memory becomes scarce, and the engine goes on', async () => {
    const { answer } = await savedBy();
    await withSlots({}, async (engine) => {
      const outcomes = new Set<string>();
      // Each waits seconds for memory that does not come.
      for (const delayMs of [0, 4, 8, 16, 28, 50]) {
        const acting = [action.restore(1), action.save(1)].map((one) => engine.actOnSlot(one));
        await sleep(delayMs);
        engine.allow(1);
        const [restored, saved] = await Promise.all(acting.map(failureOf));
        // What was given up is not in the cache, where a save looks for it.
        expect(['none', 'busy', 'empty']).toContain(restored);
        expect(['none', 'busy', 'empty']).toContain(saved);
        outcomes.add(restored as string);
        expect((await engine.stats()).blocks.used).toBe(0);
        engine.allow(64);
      }
      expect([...outcomes]).toContain('busy');
      expect(await failureOf(engine.actOnSlot(action.restore(1)))).toBe('none');
      expect((await ask(engine, 'Milo')).logprobs).toEqual(answer.logprobs);
      expect(engine.restarts).toBe(0);
    });
  });

  it('is a whole file or none where the engine is killed while it is saved', async () => {
    for (const delayMs of [0, 8, 20, 35, 60]) {
      const result = await withSlots({}, async (engine) => {
        await ask(engine, 'Milo', { slot: 1 });
        const saving = engine.actOnSlot(action.save(1)).catch((error: Error) => error.message);
        await sleep(delayMs);
        process.kill(engine.pid as number, 'SIGKILL');
        return saving;
      });
      const isThere = existsSync(pathOfFile());
      if (typeof result === 'string') expect(result).toContain('killed');
      else expect([result.ok, isThere]).toEqual([true, true]);
      await withSlots({}, async (engine) => {
        expect(await failureOf(engine.actOnSlot(action.restore(1)))).toBe(isThere ? 'none' : 'absent');
      });
      rmSync(pathOfFile(), { force: true });
    }
  });

  it('cannot be saved where no folder was given', async () => {
    const engine = new SupervisedEngine({
      modelPath: embeddedModelPath,
      engine: { blockCount: 32, endIds: embeddedEndIds },
    });
    try {
      await engine.start();
      expect(await failureOf(engine.actOnSlot(action.save(1)))).toBe('off');
    } finally {
      await engine.close();
    }
  });
});
