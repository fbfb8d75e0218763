// An engine whose GPU sees, which is simulated: requests with images and without get the tokens and log-probabilities, to the last bit,
// that each has alone on the processor.

import { describe, expect, it } from 'vitest';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import { type EngineRequest, isAnswered } from '../../src/engine/request.ts';
import { type Answer, collect } from '../support/engine-requests.ts';
import { randomRequests } from '../support/image-mixtures.ts';
import { seededRandom } from '../support/random-blocks.ts';
import { seeingOptions } from '../support/seeing-requests.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';
import { hasTestdata } from '../support/testdata.ts';
import { thorough } from '../support/thorough.ts';
import { openSeeing, type Seeing } from '../vision/golden-case.ts';

const gpu = simulatedGpu();
const families = thorough ? ['qwen3_vl', 'gemma3', 'qwen3_5', 'paligemma'] : ['qwen3_vl'];
const REQUESTS = 4;
const TOKENS = 5;

function said({ tokens, logprobs }: Pick<Answer, 'tokens' | 'logprobs'>) {
  return { tokens, logprobs: logprobs.map(({ logprob }) => logprob) };
}

function shortened(request: EngineRequest): EngineRequest {
  if (!isAnswered(request)) return request;
  return { ...request, parameters: { ...request.parameters, maxTokens: TOKENS } };
}

async function answers(
  seeing: Seeing,
  requests: readonly EngineRequest[],
  atOnce: boolean,
): Promise<readonly Answer[]> {
  const engine = new LocalEngine(seeing.backend, {
    ...seeingOptions(seeing),
    budget: { kind: 'fixed', maxStepTokens: atOnce ? 64 : 256 },
  });
  const given: Promise<Answer>[] = [];
  for (const [at, request] of requests.entries()) {
    given.push(collect(engine.submit({ ...request, id: `${at}` })));
    if (!atOnce) await given.at(-1);
  }
  const all = await Promise.all(given);
  await engine.close();
  return all;
}

describe.skipIf(!hasTestdata)('an engine on a GPU that sees (skipped where test data is absent)', () => {
  it.each(families)('answers as the processor does: %s', async (family) => {
    const onCpu = await openSeeing(
      (spec, weights, options) =>
        createCpuBackend(gpu.addon(), spec, weights, { ...options, threads: 1, stateSlots: 8 }),
      family,
    );
    const requests = (await randomRequests(onCpu, seededRandom(2), REQUESTS)).map(shortened);
    expect(requests.some(({ images }) => (images?.images.length ?? 0) > 0)).toBe(true);
    const expected = await answers(onCpu, requests, false);
    const onGpu = await openSeeing(
      (spec, weights, options) => gpu.create({ spec, weights }, { ...options, stateSlots: 8 }),
      family,
    );
    const given = await answers(onGpu, requests, true);
    expect(given.map(said)).toEqual(expected.map(said));
  });
});
