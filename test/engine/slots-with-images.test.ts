// Saved slots of prompts with images: they are restored with the bits that were saved, and found by the same images alone.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Backend, CreateBackend } from '../../src/compute/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { EngineRequest } from '../../src/engine/request.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import type { SlotAction } from '../../src/engine/slots/slot-action.ts';
import { type Answer, collect } from '../support/engine-requests.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';
import { seeingOptions, seeingRequest } from '../support/seeing-requests.ts';
import { hasTestdata } from '../support/testdata.ts';
import { goldenCases, openSeeing, readCase, type Seeing } from '../vision/golden-case.ts';

/** With states to spare for checkpoints. */
const create: CreateBackend = (spec, weights, options) =>
  (hasAddon ? createOnCpu : createReferenceBackend)(spec, weights, { ...options, stateSlots: 8 });

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-slots-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Stays open for the next engine, which finds nothing of the one before. */
function lent(backend: Backend): Backend {
  return new Proxy(backend, {
    get(target, name) {
      if (name === 'close') return () => {};
      const member = target[name as keyof Backend];
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

async function within<Result>(
  family: string,
  seeing: Seeing,
  use: (engine: LocalEngine) => Promise<Result>,
): Promise<Result> {
  const options = { ...seeingOptions(seeing), slots: { folder } };
  const engine = new LocalEngine(lent(seeing.backend), options);
  engine.engine.identify(family, { model: family, adapters: [] });
  const checks = engine.monitor.subscribe({ step: () => checkIntegrity(engine.engine.scheduler) });
  try {
    return await use(engine);
  } finally {
    checks.end();
    await engine.close();
  }
}

const file = { tenant: 'ann', owner: 'ann', name: 'one.bin', slot: 1 };
const save: SlotAction = { kind: 'save', ...file };
const restore: SlotAction = { kind: 'restore', ...file, account: 'ann' };

const ask = (engine: LocalEngine, request: EngineRequest, id: string): Promise<Answer> =>
  collect(engine.submit({ ...request, id, slot: 1 }));

describe.skipIf(!hasTestdata)('the prefix of a slot with images', () => {
  // Rotary positions and deep features; images that see themselves; recurrent states.
  it.each(['qwen3_vl', 'gemma3', 'qwen3_5'])(
    'is restored, and found by the same images alone: %s',
    async (family) => {
      const seeing = await openSeeing(create, family);
      const one = goldenCases(family).find(({ name }) => name === 'two images');
      if (one === undefined) throw new Error('the case is missing');
      const sampling = { maxTokens: 40, ignoreEos: true, logprobs: 1 } as const;
      const prompt = await readCase(seeing, one);
      const request = await seeingRequest(seeing, prompt, { sampling, salt: 'ann' });
      const { images } = request;
      if (images === undefined) throw new Error('the prompt shows nothing');
      const computed = await within(family, seeing, async (engine) => {
        const answer = await ask(engine, request, 'computed');
        expect(await engine.actOnSlot(save)).toMatchObject({ ok: true });
        return answer;
      });
      expect(computed.finish.cachedTokens).toBe(0);
      const full = 32 * Math.floor((prompt.ids.length - 1) / 32);
      expect(full).toBeGreaterThan(0);
      await within(family, seeing, async (engine) => {
        expect(await engine.actOnSlot(restore)).toMatchObject({ ok: true });
        const again = await ask(engine, request, 'again');
        expect(again.finish.cachedTokens).toBe(full);
        expect(again.tokens).toEqual(computed.tokens);
        expect(again.logprobs).toEqual(computed.logprobs);
        const others = images.images.map((image) => ({ ...image, key: `another than ${image.key}` }));
        const other = await ask(engine, { ...request, images: { ...images, images: others } }, 'other');
        const firstPlace = Math.min(...images.images.flatMap(({ places }) => [...places]));
        expect(other.finish.cachedTokens).toBeLessThanOrEqual(firstPlace);
      });
      seeing.backend.close();
    },
  );
});
