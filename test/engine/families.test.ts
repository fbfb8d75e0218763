// Models with experts, models that remember, and models with adapters: their answers are the same bits alone and among others, in chunks, after
// prefixes that were found, after preemption, and after the engine process was killed.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chooseBackend } from '../../src/compute/choose-backend.ts';
import type { EngineOptions } from '../../src/engine/engine.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import { type AdapterPath, openSpec } from '../../src/model/open-spec.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import { type CheckedAnswers, checkedAnswers } from '../support/checked-answers.ts';
import { type Answer, collect, engineRequest, type TestRequest } from '../support/engine-requests.ts';
import { randomFamilies, writeRandomAdapter, writeRandomFolder } from '../support/random-folder.ts';
import { randomTokens } from '../support/tiny-model.ts';

const VOCABULARY = 512;
const NEW_TOKENS = 45;

/** Some begin alike, some are long, all are told how likely their tokens were. */
const plainRequests: readonly TestRequest[] = Array.from({ length: 9 }, (_, n) => ({
  prompt: [
    ...randomTokens(n % 3 === 0 ? 70 : 33, VOCABULARY, 1 + (n % 3)),
    ...randomTokens(1 + 13 * n, VOCABULARY, n),
  ],
  sampling: { temperature: n % 2 === 0 ? 0 : 1, seed: n, maxTokens: NEW_TOKENS, logprobs: 0 },
}));

interface Model {
  readonly modelPath: string;
  readonly adapters: readonly AdapterPath[];
}

async function run(
  model: Model,
  asked: readonly (readonly TestRequest[])[],
  options: Partial<EngineOptions> = {},
  stateSlots = 12,
): Promise<CheckedAnswers> {
  const { spec, weights } = openSpec(model.modelPath, model);
  const blockCount = options.blockCount ?? 128;
  const backend = await chooseBackend(undefined).create(spec, weights, { blockCount, stateSlots });
  const engine = new LocalEngine(backend, {
    blockCount,
    budget: { kind: 'fixed', maxStepTokens: 256 },
    vocabSize: VOCABULARY,
    contextLength: spec.contextLength,
    endIds: [],
    ...options,
  });
  try {
    return await checkedAnswers(engine, asked, VOCABULARY);
  } finally {
    weights.close();
  }
}

/** Tokens, and the bits of how likely they were. */
const bitsOf = ({ tokens, logprobs }: Answer) => ({ tokens, logprobs });

const subjects = [
  ...randomFamilies.map((family) => ({ name: family, family, adapterCount: 0 })),
  { name: 'qwen3_5_moe with adapters', family: 'qwen3_5_moe', adapterCount: 2 } as const,
];

describe.each(subjects)('answers of $name', ({ family, adapterCount }) => {
  let root: string;
  let model: Model;
  let alone: readonly Answer[];
  // Those that begin alike have different adapters.
  const requests = plainRequests.map((one, n) =>
    adapterCount === 0 ? one : { ...one, adapter: [undefined, 0, 1][Math.floor(n / 3)] },
  );

  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'chairlift-'));
    const folderNamed = (name: string) => {
      const folder = join(root, name);
      mkdirSync(folder);
      return folder;
    };
    const adapters = Array.from({ length: adapterCount }, (_, index) => {
      const name = `adapter-${index}`;
      return { name, path: folderNamed(name) };
    });
    model = { modelPath: folderNamed('model'), adapters };
    writeRandomFolder(model.modelPath, family);
    for (const [index, { path }] of adapters.entries()) writeRandomAdapter(path, family, 2 + index);
    alone = (await Promise.all(requests.map((one) => run(model, [[one]])))).flatMap(({ answers }) => answers);
  });

  afterAll(() => rmSync(root, { recursive: true, force: true }));

  it('are the same among others', async () => {
    const { answers } = await run(model, [requests]);
    expect(answers.map(bitsOf)).toEqual(alone.map(bitsOf));
    expect(new Set(alone.flatMap(({ tokens }) => tokens)).size).toBeGreaterThan(20);
    for (const { logprobs } of alone) expect(logprobs).toHaveLength(NEW_TOKENS);
  });

  it.runIf(adapterCount > 0)('differ by adapter', async () => {
    const [first] = requests;
    const asked = [undefined, 0, 1].map((adapter) => ({ ...(first as TestRequest), adapter }));
    const { answers, hits } = await run(
      model,
      asked.map((one) => [one]),
    );
    expect(new Set(answers.map(({ tokens }) => tokens.join())).size).toBe(3);
    expect(hits).toBe(0);
  });

  it('are the same in small chunks', async () => {
    const { answers } = await run(model, [requests], { budget: { kind: 'fixed', maxStepTokens: 19 } });
    expect(answers.map(bitsOf)).toEqual(alone.map(bitsOf));
  });

  it('are the same after a prefix was found', async () => {
    const longer = requests.map((one, n) => ({
      ...one,
      prompt: [...(one.prompt as number[]), ...(alone[n] as Answer).tokens, 7],
    }));
    const { answers: first } = await run(model, [longer]);
    const { answers, hits } = await run(model, [requests, requests, longer], {}, 40);
    expect(answers.slice(0, 9).map(bitsOf)).toEqual(alone.map(bitsOf));
    expect(answers.slice(9, 18).map(bitsOf)).toEqual(alone.map(bitsOf));
    expect(answers.slice(18).map(bitsOf)).toEqual(first.map(bitsOf));
    expect(hits).toBeGreaterThan(1000);
  });

  it('are the same after preemption', async () => {
    const { answers, preemptions } = await run(model, [requests], { blockCount: 22, watermark: 1 });
    expect(answers.map(bitsOf)).toEqual(alone.map(bitsOf));
    expect(preemptions).toBeGreaterThan(0);
  });

  it('are whole though the engine process is killed', async () => {
    const engine = new SupervisedEngine({
      ...model,
      engine: { blockCount: 128, budget: { kind: 'fixed', maxStepTokens: 64 }, endIds: [] },
    });
    try {
      expect(await engine.start()).toMatchObject({ ok: true });
      // Long enough that it cannot have ended before the signal comes.
      const one = requests[4] as TestRequest;
      const long = { ...one, sampling: { ...one.sampling, maxTokens: 600 } };
      const { answers } = await run(model, [[long]]);
      const tokens: number[] = [];
      const beside = collect(engine.submit(engineRequest(requests[1] as TestRequest, VOCABULARY)));
      for await (const event of engine.submit(engineRequest(long, VOCABULARY))) {
        if (event.kind === 'finish') expect(event).toMatchObject({ reason: 'length' });
        else if (tokens.push(event.token) === 11) process.kill(engine.pid as number, 'SIGKILL');
      }
      expect(engine.restarts).toBe(1);
      expect(tokens).toEqual(answers[0]?.tokens);
      expect((await beside).tokens).toEqual(alone[1]?.tokens);
    } finally {
      await engine.close();
    }
  });
});
