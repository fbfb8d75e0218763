// Models that see, behind an engine: the answer to a prompt with images is the one of the bare backend, alone, among others, in
// chunks, after hits and preemptions.

import { afterAll, describe, expect, it } from 'vitest';
import type { Backend } from '../../src/compute/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import type { EngineOptions } from '../../src/engine/engine.ts';
import type { ImageStats } from '../../src/engine/images/image-stats.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { EngineRequest } from '../../src/engine/request.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import { type Answer, collect } from '../support/engine-requests.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';
import { seeingOptions, seeingRequest } from '../support/seeing-requests.ts';
import { hasTestdata } from '../support/testdata.ts';
import { some, thorough } from '../support/thorough.ts';
import { answer, goldenCases, openSeeing, readCase, type Seeing, seen } from '../vision/golden-case.ts';

/** What is held here is the engine's: the faster backend does. */
const create = hasAddon ? createOnCpu : createReferenceBackend;

const NEW_TOKENS = 6;
const names = ['two images', 'tiny', 'text only', ...(thorough ? ['non-square, orientation 6'] : [])];

/** Rotary positions and deep features; images that see themselves; prompts that do; recurrent states; many rows in tiles. */
const families = ['qwen3_vl', 'gemma3', 'paligemma', 'qwen3_5', 'smolvlm'];

/** Stays open for the next engine. */
function lent(backend: Backend): Backend {
  const { name, blockCount, stateSlots } = backend;
  return {
    name,
    blockCount,
    stateSlots,
    step: (batch, rows) => backend.step(batch, rows),
    sampleRows: (logits, vocabSize, rows) => backend.sampleRows(logits, vocabSize, rows),
    releaseBlocks: (blocks) => backend.releaseBlocks(blocks),
    beginImage: (image) => (backend.beginImage as NonNullable<Backend['beginImage']>)(image),
    close: () => {},
  };
}

async function within<Result>(
  seeing: Seeing,
  options: Partial<EngineOptions>,
  use: (engine: LocalEngine) => Promise<Result>,
): Promise<Result> {
  const engine = new LocalEngine(lent(seeing.backend), { ...seeingOptions(seeing), ...options });
  const checks = engine.monitor.subscribe({ step: () => checkIntegrity(engine.engine.scheduler) });
  try {
    return await use(engine);
  } finally {
    checks.end();
    await engine.close();
  }
}

function ask(engine: LocalEngine, request: EngineRequest, id: string): Promise<Answer> {
  return collect(engine.submit({ ...request, id }));
}

/** Bits included. */
function said({ tokens, logprobs }: Answer) {
  return { tokens, logprobs: logprobs.map(({ logprob }) => logprob) };
}

describe.skipIf(!hasTestdata).each(families)('%s behind an engine', (family) => {
  let opened: Promise<Seeing> | undefined;
  const open = () => {
    opened ??= openSeeing(create, family);
    return opened;
  };
  afterAll(async () => (await opened)?.backend.close());

  async function requests(): Promise<EngineRequest[]> {
    const seeing = await open();
    const cases = goldenCases(family).filter(({ name }) => names.includes(name));
    const sampling = { maxTokens: NEW_TOKENS, ignoreEos: true, logprobs: 1 } as const;
    const made: EngineRequest[] = [];
    for (const one of cases)
      made.push(await seeingRequest(seeing, await readCase(seeing, one), { sampling }));
    return made;
  }

  it('answers as the bare backend does, alone, among others, in chunks, after hits and preemptions', async () => {
    const seeing = await open();
    const all = await requests();
    const alone: Answer[] = [];
    for (const request of all) {
      alone.push(await within(seeing, {}, (engine) => ask(engine, request, 'alone')));
    }
    for (const one of some(goldenCases(family).filter(({ name }) => names.includes(name)))) {
      const prompt = await readCase(seeing, one);
      const { greedy } = await answer(seeing, prompt, await seen(seeing, prompt), NEW_TOKENS);
      const index = all.findIndex(({ prompt: { length } }) => length === prompt.ids.length);
      expect(alone[index]?.tokens).toEqual(greedy);
    }
    const tight = { blockCount: 16, budget: { kind: 'fixed', maxStepTokens: 29 } } as const;
    await within(seeing, tight, async (engine) => {
      // What came before is found, as far as it is still there; of several with one beginning one computes it.
      for (const round of [1, 2]) {
        const together = await Promise.all(
          [...all, ...all].map((request, index) => ask(engine, request, `${round} ${index}`)),
        );
        for (const [index, one] of together.entries()) {
          expect(said(one)).toEqual(said(alone[index % all.length] as Answer));
        }
      }
      const { images } = await engine.stats();
      expect(images).toMatchObject({ waiting: 0, usedBytes: 0 });
      expect(images?.computed).toBe(new Set(all.flatMap(keysOf)).size);
    });
  });

  it('computes neither tower nor prompt for a second question about the same image, and shares nothing of another', async () => {
    const seeing = await open();
    const [request] = (await requests()).sort((a, b) => b.prompt.length - a.prompt.length);
    if (request?.images === undefined) throw new Error('it shows images');
    await within(seeing, {}, async (engine) => {
      const told: ImageStats[] = [];
      engine.monitor.subscribe({ images: (stats) => told.push(stats) });
      const first = await ask(engine, request, 'first');
      expect(first.finish.cachedTokens).toBe(0);
      const again = await ask(engine, request, 'again');
      expect(said(again)).toEqual(said(first));
      expect(again.finish.cachedTokens).toBe(32 * Math.floor((request.prompt.length - 1) / 32));
      const images = request.images?.images ?? [];
      const others = images.map((image) => ({ ...image, key: `not ${image.key}` }));
      const other = await ask(engine, { ...request, images: { ...request.images, images: others } }, 'other');
      // What comes before the first image is equal; in a prefix LM it is not.
      const before = family === 'paligemma' ? 0 : 32 * Math.floor((images[0]?.places[0] as number) / 32);
      expect(other.finish.cachedTokens).toBe(before);
      const stats = (await engine.stats()).images;
      expect(stats).toMatchObject({ computed: 2 * images.length, hits: images.length, usedBytes: 0 });
      expect(told[0]).toMatchObject({ waiting: 1, computed: 0 });
      expect(told.at(-1)).toEqual(stats);
    });
  });
});

function keysOf({ images }: EngineRequest): string[] {
  return images?.images.map(({ key }) => key) ?? [];
}

describe.skipIf(!hasTestdata)('requests with images', () => {
  async function refusal(
    change: (request: EngineRequest) => EngineRequest,
    options: Partial<EngineOptions> = {},
  ) {
    const seeing = await openSeeing(create, 'qwen3_vl');
    const [one] = goldenCases('qwen3_vl').filter(({ name }) => name === 'tiny');
    const prompt = await readCase(seeing, one as Parameters<typeof readCase>[1]);
    const request = await seeingRequest(seeing, prompt, { sampling: { maxTokens: 1 } });
    const { finish } = await within(seeing, options, (engine) => collect(engine.submit(change(request))));
    seeing.backend.close();
    return finish.error;
  }
  const placed =
    (change: (places: Int32Array) => Int32Array) =>
    (request: EngineRequest): EngineRequest => ({
      ...request,
      images: {
        ...request.images,
        images: (request.images?.images ?? []).map((image) => ({ ...image, places: change(image.places) })),
      },
    });

  it('are refused by a model without a tower', async () => {
    const error = await refusal((request) => request, { vision: undefined });
    expect(error).toEqual({ code: 'invalid', message: 'the model does not read images' });
  });

  it.each<[string, (places: Int32Array) => Int32Array, RegExp]>([
    ['out of range', (places) => places.map((place) => place + 1000), /place \d+ in a prompt of \d+ tokens/],
    ['negative', (places) => places.map((place) => place - 1000), /place -\d+, before 0/],
    ['unsorted', (places) => places.toReversed(), /place \d+, before \d+/],
    ['twice', (places) => Int32Array.of(...places.slice(0, 1), ...places), /place \d+, before \d+/],
    ['none', () => new Int32Array(), /stands nowhere/],
    ['too few', (places) => places.slice(1), /tokens stand for \d+ features/],
  ])('are refused where places are %s', async (_, change, message) => {
    expect(await refusal(placed(change))).toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(message),
    });
  });

  it('are refused where rotary positions are not those of the prompt', async () => {
    const error = await refusal((request) => ({
      ...request,
      images: { images: request.images?.images ?? [], rotaryPositions: new Int32Array(5) },
    }));
    expect(error?.message).toMatch(/^5 rotary positions are not three for each of \d+ tokens$/);
  });
});
