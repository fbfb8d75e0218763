// Random mixtures of requests with images and without, on the processor: each has the bits that it has alone, whichever came
// beside it and when, in chunks, after prefix hits and preemptions, and after its engine process was killed.

import { afterAll, describe, expect, it } from 'vitest';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { EngineRequest, RequestEvent } from '../../src/engine/request.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import { type Answer, collect } from '../support/engine-requests.ts';
import { randomRequests } from '../support/image-mixtures.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';
import { type Random, seededRandom } from '../support/random-blocks.ts';
import { seeingOptions } from '../support/seeing-requests.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';
import { cases } from '../support/thorough.ts';
import { openSeeing, type Seeing } from '../vision/golden-case.ts';

/** Rotary positions and deep features; images that see themselves; recurrent states; many rows in tiles; prompts that see themselves. */
const families = ['qwen3_vl', 'gemma3', 'qwen3_5', 'smolvlm', 'paligemma'] as const;
const REQUESTS = 8;
const MIXTURES = 20;
/** For some requests, and for hardly more than one. */
const MOST_BLOCKS = 26;
const LEAST_BLOCKS = 10;

/** What the mixtures have met. */
const met = { cached: 0, preempted: 0, restarts: 0 };

/** Bits included. */
function said({ tokens, logprobs }: Pick<Answer, 'tokens' | 'logprobs'>) {
  return { tokens, logprobs: logprobs.map(({ logprob }) => logprob) };
}

/** Engines come and go, the backend stays. */
function lent({ backend }: Seeing): Seeing['backend'] {
  const { name, blockCount, stateSlots } = backend;
  return {
    name,
    blockCount,
    stateSlots,
    step: (batch, rows) => backend.step(batch, rows),
    beginImage: (image) => (backend as Required<Seeing['backend']>).beginImage(image),
    sampleRows: backend.sampleRows,
    releaseBlocks: (blocks) => backend.releaseBlocks(blocks),
    close: () => backend.releaseBlocks(Int32Array.from({ length: blockCount }, (_, block) => block)),
  };
}

async function alone(seeing: Seeing, request: EngineRequest): Promise<Answer> {
  const engine = new LocalEngine(lent(seeing), seeingOptions(seeing));
  const answer = await collect(engine.submit(request));
  await engine.close();
  return answer;
}

/** Each twice, in any order, some steps after one another; others come besides and leave in their midst, and memory is short for a while. */
async function together(seeing: Seeing, requests: readonly EngineRequest[], random: Random) {
  const engine = new LocalEngine(lent(seeing), {
    ...seeingOptions(seeing),
    blockCount: MOST_BLOCKS,
    budget: { kind: 'fixed', maxStepTokens: 16 + Math.floor(random() * 100) },
  });
  let steps = 0;
  const later: { readonly step: number; run(): void }[] = [];
  const watching = engine.monitor.subscribe({
    step: ({ preempted }) => {
      met.preempted += preempted.length;
      steps++;
      checkIntegrity(engine.engine.scheduler);
      for (const one of later) if (one.step === steps) one.run();
    },
  });
  // Others need the memory, and later no more.
  const pressed = 3 + Math.floor(random() * 8);
  later.push({ step: pressed, run: () => engine.engine.allow(LEAST_BLOCKS + Math.floor(random() * 4)) });
  later.push({ step: pressed + 30, run: () => engine.engine.allow(MOST_BLOCKS) });
  const left = requests.slice(0, 3).map((request, at) => {
    const id = `left ${at}`;
    later.push({ step: 1 + Math.floor(random() * 20), run: () => engine.cancel(id) });
    return collect(engine.submit({ ...request, id }));
  });
  const twice = [...requests, ...requests]
    .map((request, at) => ({ request: { ...request, id: `${at}` }, at: at % requests.length }))
    .sort(() => random() - 0.5);
  const answers = twice.map(({ request, at }, place) => {
    // The first begin at once: without any, no step would come.
    const step = place < 4 ? 0 : Math.floor(random() * 12);
    const answer = new Promise<Answer>((resolve, reject) => {
      const run = () => collect(engine.submit(request)).then(resolve, reject);
      if (step === 0) run();
      else later.push({ step, run });
    });
    return { at, answer };
  });
  const given: { readonly at: number; readonly answer: Answer }[] = [];
  for (const { at, answer } of answers) given.push({ at, answer: await answer });
  await Promise.all(left);
  const { images } = await engine.stats();
  expect(images).toMatchObject({ waiting: 0, usedBytes: 0 });
  watching.end();
  await engine.close();
  return given;
}

/** All at once, and the process that computes is killed twice, after some tokens. */
async function killed(family: string, requests: readonly EngineRequest[], random: Random) {
  const engine = new SupervisedEngine({
    modelPath: testdata('vision', family),
    backend: 'cpu',
    images: true,
    stateSlots: 8,
    engine: { blockCount: 24, budget: { kind: 'fixed', maxStepTokens: 48 }, endIds: [] },
  });
  expect(await engine.start()).toMatchObject({ ok: true });
  // Of at least two tokens each.
  const deaths = new Set([0, REQUESTS].map((from) => from + Math.floor(random() * REQUESTS)));
  let tokens = 0;
  async function* struck(events: AsyncIterable<RequestEvent>): AsyncGenerator<RequestEvent> {
    for await (const event of events) {
      yield event;
      if (event.kind === 'finish') continue;
      if (deaths.delete(tokens++)) process.kill(engine.pid as number, 'SIGKILL');
    }
  }
  const answers = await Promise.all(
    requests.map((request, at) => collect(struck(engine.submit({ ...request, id: `${at}` })))),
  );
  met.restarts += engine.restarts;
  await engine.close();
  return answers;
}

describe.skipIf(!hasTestdata || !hasAddon)('mixtures of requests with images and without', () => {
  const opened = new Map<string, Promise<Seeing>>();
  const open = (family: string): Promise<Seeing> => {
    const seeing = opened.get(family) ?? openSeeing(createOnCpu, family);
    opened.set(family, seeing);
    return seeing;
  };
  afterAll(async () => {
    for (const seeing of opened.values()) (await seeing).backend.close();
  });

  const seeds = Array.from({ length: cases(MIXTURES, 0.1) }, (_, index) => index + 1);
  it.each(seeds)('have the bits of each alone, together and after a kill: mixture %i', async (seed) => {
    const random = seededRandom(seed);
    const family = families[seed % families.length] as (typeof families)[number];
    const seeing = await open(family);
    const requests = await randomRequests(seeing, random, REQUESTS);
    const expected = [];
    for (const request of requests) expected.push(said(await alone(seeing, request)));
    for (const { at, answer } of await together(seeing, requests, random)) {
      expect(said(answer), `${family}, request ${at}`).toEqual(expected[at]);
      met.cached += answer.finish.cachedTokens;
    }
    for (const [at, answer] of (await killed(family, requests, random)).entries()) {
      expect(said(answer), `${family}, request ${at} after a kill`).toEqual(expected[at]);
    }
  });

  it('have met prefix hits, preemptions and deaths', () => {
    expect(Math.min(...Object.values(met)), JSON.stringify(met)).toBeGreaterThan(0);
  });
});
