// An MTP or EAGLE-3 head that drafts: answers are those without it, whether it is always right or never, alone, among others, in chunks, with
// grammars, after prefixes that were found, after preemption and from the memory of the machine; and it saves steps where it is right.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EngineOptions } from '../../src/engine/engine.ts';
import type { EngineSettings } from '../../src/engine/protocol.ts';
import { rulesOf } from '../../src/grammar/assemble.ts';
import { compileRules } from '../../src/grammar/compile.ts';
import { openSpec } from '../../src/model/open-spec.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import type { CheckedAnswers } from '../support/checked-answers.ts';
import { drafting, headAlone, said } from '../support/drafting-run.ts';
import { type Answer, engineRequest, type TestRequest } from '../support/engine-requests.ts';
import { writeRandomEagle3 } from '../support/random-eagle3.ts';
import { writeFolderWithMtp } from '../support/random-folder.ts';
import { randomTokens } from '../support/tiny-model.ts';

const VOCABULARY = 4096;
const NEW_TOKENS = 60;

const grammar = compileRules(
  rulesOf(
    {
      kind: 'schema',
      schema: {
        type: 'object',
        properties: { name: { type: 'string', maxLength: 20 }, kind: { enum: ['red', 'green', 'blue'] } },
        required: ['name', 'kind'],
        additionalProperties: false,
      },
    },
    () => undefined,
  ).rules,
);

/** Some begin alike, some are long, some are sampled, and some are held to a grammar. */
const requests: readonly TestRequest[] = Array.from({ length: 8 }, (_, n) => ({
  prompt: [
    ...randomTokens(n % 3 === 0 ? 70 : 33, VOCABULARY, 1 + (n % 3)),
    ...randomTokens(1 + 13 * n, VOCABULARY, n),
  ],
  sampling: {
    temperature: n % 2,
    seed: n,
    maxTokens: NEW_TOKENS,
    logprobs: 0,
    ...(n === 3 ? { repetitionPenalty: 1.2 } : {}),
  },
  ...(n === 6 ? { grammar } : {}),
}));
const shortest = { ...requests[0], prompt: [7] } as TestRequest;

/** Where a model lies, and what brings its head. */
type Model = Pick<EngineSettings, 'modelPath' | 'mtp' | 'eagle3Path'>;

const run = (
  { modelPath, ...head }: Model,
  asked: Parameters<typeof drafting>[1],
  options?: Partial<EngineOptions>,
) => drafting((withHead) => openSpec(modelPath, withHead ? head : {}), asked, options);

/** Of answers to which no grammar gave draft tokens. */
const count = (answers: readonly Answer[], kind: 'accepted' | 'rejected') =>
  answers.reduce((sum, { finish }, n) => sum + (n === 6 ? 0 : (finish.draftTokens?.[kind] ?? 0)), 0);

function writeModel(folder: string, kind: 'MTP' | 'EAGLE-3', head: 'always right' | 'never right'): Model {
  if (kind === 'EAGLE-3') {
    const { model, head: eagle3Path } = writeRandomEagle3(folder, head, VOCABULARY);
    return { modelPath: model, eagle3Path };
  }
  writeFolderWithMtp(folder, head, VOCABULARY);
  return { modelPath: folder, mtp: true };
}

describe.each([
  ['MTP', 'always right'],
  ['MTP', 'never right'],
  ['EAGLE-3', 'always right'],
  ['EAGLE-3', 'never right'],
] as const)('answers with an %s head that is %s', (kind, head) => {
  let folder: string;
  let model: Model;
  let plain: CheckedAnswers;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'chairlift-'));
    model = writeModel(folder, kind, head);
    plain = await run(
      model,
      [...requests, shortest].map((one) => [one]),
      { speculation: false },
    );
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const expectSame = (answers: readonly Answer[], wanted = plain.answers.slice(0, answers.length)) =>
    expect(answers.map(said)).toEqual(wanted.map(said));

  it('are those without, alone, and its drafts are counted', async () => {
    const { answers, steps } = await run(
      model,
      [...requests, shortest].map((one) => [one]),
      headAlone,
    );
    expectSame(answers);
    const [accepted, rejected] = [count(answers, 'accepted'), count(answers, 'rejected')];
    if (head === 'always right') {
      expect(accepted).toBeGreaterThan(20 * rejected);
      expect(steps).toBeLessThan(0.8 * plain.steps);
    } else expect(rejected).toBeGreaterThan(0);
  });

  it('are those without, among others and beside other drafters', async () => {
    const { answers } = await run(model, [requests]);
    expectSame(answers);
  });

  it('are those without, in small chunks', async () => {
    const { answers } = await run(model, [requests.slice(0, 3), requests.slice(3)], {
      ...headAlone,
      budget: { kind: 'fixed', maxStepTokens: 19 },
    });
    expectSame(answers);
  });

  it('are those without, after a prefix was found, and drafts are as good as before', async () => {
    const { answers, hits } = await run(
      model,
      [...requests, ...requests].map((one) => [one]),
      headAlone,
    );
    const [first, second] = [answers.slice(0, requests.length), answers.slice(requests.length)];
    expectSame(first);
    expectSame(second);
    expect(hits).toBeGreaterThan(300);
    if (head === 'always right')
      expect(count(second, 'accepted')).toBeGreaterThan(20 * count(second, 'rejected'));
  });

  it('are those without, after preemption', async () => {
    const { answers, preemptions } = await run(model, [requests], {
      ...headAlone,
      blockCount: 22,
      watermark: 1,
    });
    expectSame(answers);
    expect(preemptions).toBeGreaterThan(0);
  });

  it('are those without, from the memory of the machine', async () => {
    const twice = [...requests, ...requests].map((one) => [one]);
    const { answers } = await run(model, twice, { ...headAlone, blockCount: 16, hostBytes: 1 << 28 });
    expectSame(answers, [
      ...plain.answers.slice(0, requests.length),
      ...plain.answers.slice(0, requests.length),
    ]);
  });

  it('are whole though the engine process is killed', async () => {
    const engine = new SupervisedEngine({
      ...model,
      engine: { blockCount: 128, budget: { kind: 'fixed', maxStepTokens: 64 }, endIds: [] },
    });
    try {
      expect(await engine.start()).toMatchObject({ ok: true });
      // Several and long: a head that is right is done with one before it is killed.
      const long = [1, 2, 4, 5].map((n): TestRequest => {
        const one = requests[n] as TestRequest;
        return { ...one, sampling: { ...one.sampling, maxTokens: 800 } };
      });
      const { answers } = await run(model, [long], { speculation: false });
      let killed = false;
      const given = long.map(async (one) => {
        const tokens: number[] = [];
        for await (const event of engine.submit(engineRequest(one, VOCABULARY))) {
          if (event.kind === 'finish') expect(event).toMatchObject({ reason: 'length' });
          else if (tokens.push(event.token) === 3 && !killed) {
            killed = true;
            process.kill(engine.pid as number, 'SIGKILL');
          }
        }
        return tokens;
      });
      expect(await Promise.all(given)).toEqual(answers.map(({ tokens }) => tokens));
      expect(engine.restarts).toBe(1);
    } finally {
      await engine.close();
    }
  });
});
