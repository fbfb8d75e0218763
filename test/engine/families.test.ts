// Models with experts, and models that remember: their answers are the same bits alone and among others, in chunks, after
// prefixes that were found, after preemption, and after the engine process was killed.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chooseBackend } from '../../src/compute/choose-backend.ts';
import type { EngineOptions } from '../../src/engine/engine.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import { buildSpec } from '../../src/model/build-spec.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import { openModelFiles } from '../../src/weights/open-model.ts';
import { type Answer, collect, engineRequest, type TestRequest } from '../support/engine-requests.ts';
import { randomFamilies, writeRandomFolder } from '../support/random-folder.ts';
import { randomTokens } from '../support/tiny-model.ts';

const VOCABULARY = 512;
const NEW_TOKENS = 45;

/** Some begin alike, some are long, all are told how likely their tokens were. */
const requests: readonly TestRequest[] = Array.from({ length: 9 }, (_, n) => ({
  prompt: [
    ...randomTokens(n % 3 === 0 ? 70 : 33, VOCABULARY, 1 + (n % 3)),
    ...randomTokens(1 + 13 * n, VOCABULARY, n),
  ],
  sampling: { temperature: n % 2 === 0 ? 0 : 1, seed: n, maxTokens: NEW_TOKENS, logprobs: 0 },
}));

interface Run {
  readonly answers: readonly Answer[];
  readonly hits: number;
  readonly preemptions: number;
}

async function run(
  folder: string,
  asked: readonly (readonly TestRequest[])[],
  options: Partial<EngineOptions> = {},
  memorySlots = 12,
): Promise<Run> {
  const files = openModelFiles(folder);
  const spec = buildSpec(files);
  const blockCount = options.blockCount ?? 128;
  const backend = await chooseBackend(undefined).create(spec, files.weights, { blockCount, memorySlots });
  const engine = new LocalEngine(backend, {
    blockCount,
    budget: { kind: 'fixed', maxStepTokens: 256 },
    vocabSize: VOCABULARY,
    contextLength: spec.contextLength,
    endIds: [],
    ...options,
  });
  const unfollow = engine.follow(() => checkIntegrity(engine.engine.scheduler));
  try {
    const answers: Answer[] = [];
    for (const together of asked) {
      const submitted = together.map((one) => collect(engine.submit(engineRequest(one, VOCABULARY))));
      answers.push(...(await Promise.all(submitted)));
    }
    const { prefixHitTokens: hits, preemptions } = engine.engine.scheduler.stats(0).counters;
    return { answers, hits, preemptions };
  } finally {
    unfollow();
    await engine.close();
    files.weights.close();
  }
}

/** Tokens, and the bits of how likely they were. */
const bitsOf = ({ tokens, logprobs }: Answer) => ({ tokens, logprobs });

describe.each(randomFamilies)('answers of %s', (family) => {
  let folder: string;
  let alone: readonly Answer[];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'chairlift-'));
    writeRandomFolder(folder, family);
    alone = (await Promise.all(requests.map((one) => run(folder, [[one]])))).flatMap(
      ({ answers }) => answers,
    );
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('are the same among others', async () => {
    const { answers } = await run(folder, [requests]);
    expect(answers.map(bitsOf)).toEqual(alone.map(bitsOf));
    expect(new Set(alone.flatMap(({ tokens }) => tokens)).size).toBeGreaterThan(20);
    for (const { logprobs } of alone) expect(logprobs).toHaveLength(NEW_TOKENS);
  });

  it('are the same in small chunks', async () => {
    const { answers } = await run(folder, [requests], { budget: { kind: 'fixed', maxStepTokens: 19 } });
    expect(answers.map(bitsOf)).toEqual(alone.map(bitsOf));
  });

  it('are the same after a prefix was found', async () => {
    const longer = requests.map((one, n) => ({
      ...one,
      prompt: [...(one.prompt as number[]), ...(alone[n] as Answer).tokens, 7],
    }));
    const { answers: first } = await run(folder, [longer]);
    const { answers, hits } = await run(folder, [requests, requests, longer], {}, 40);
    expect(answers.slice(0, 9).map(bitsOf)).toEqual(alone.map(bitsOf));
    expect(answers.slice(9, 18).map(bitsOf)).toEqual(alone.map(bitsOf));
    expect(answers.slice(18).map(bitsOf)).toEqual(first.map(bitsOf));
    expect(hits).toBeGreaterThan(1000);
  });

  it('are the same after preemption', async () => {
    const { answers, preemptions } = await run(folder, [requests], { blockCount: 22, watermark: 1 });
    expect(answers.map(bitsOf)).toEqual(alone.map(bitsOf));
    expect(preemptions).toBeGreaterThan(0);
  });

  it('are whole though the engine process is killed', async () => {
    const engine = new SupervisedEngine({
      modelPath: folder,
      engine: { blockCount: 128, budget: { kind: 'fixed', maxStepTokens: 64 }, endIds: [] },
    });
    try {
      expect(await engine.start()).toMatchObject({ ok: true });
      const tokens: number[] = [];
      const beside = collect(engine.submit(engineRequest(requests[1] as TestRequest, VOCABULARY)));
      for await (const event of engine.submit(engineRequest(requests[4] as TestRequest, VOCABULARY))) {
        if (event.kind === 'finish') expect(event).toMatchObject({ reason: 'length' });
        else if (tokens.push(event.token) === 11) process.kill(engine.pid as number, 'SIGKILL');
      }
      expect(engine.restarts).toBe(1);
      expect(tokens).toEqual(alone[4]?.tokens);
      expect((await beside).tokens).toEqual(alone[1]?.tokens);
    } finally {
      await engine.close();
    }
  });
});
