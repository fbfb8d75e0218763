// Answers with a grammar: always what it allows, and the same tokens alone, in a batch, after preemption and after the
// engine process was killed; answers without a grammar in the same batch are not touched.

import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import type { EngineOptions } from '../../src/engine/engine.ts';
import { type FromEngine, handleCommand, type SentRequest } from '../../src/engine/protocol.ts';
import type { AnswerRequest } from '../../src/engine/request.ts';
import { rulesOf } from '../../src/grammar/assemble.ts';
import { compileRules } from '../../src/grammar/compile.ts';
import type { Expression } from '../../src/grammar/expression.ts';
import type { GrammarTables } from '../../src/grammar/tables.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import {
  chatIds,
  embeddedEndIds,
  embeddedTokenizer,
  embeddedVocabulary,
  withEngine,
} from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { type Answer, collect, engineRequest, type TestRequest } from '../support/engine-requests.ts';

const schema = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 2, maxLength: 30 },
    age: { type: 'integer', minimum: 0, maximum: 120 },
    tags: { type: 'array', items: { enum: ['red', 'green', 'blue'] }, minItems: 1, maxItems: 3 },
    home: {
      type: 'object',
      properties: { city: { type: 'string', pattern: '^[A-Z][a-z]+$' } },
      required: ['city'],
    },
  },
  required: ['name', 'age', 'tags', 'home'],
  additionalProperties: false,
};

function tablesOf(expression: Expression): GrammarTables {
  return compileRules(rulesOf(expression, () => undefined).rules);
}

const grammar = tablesOf({ kind: 'schema', schema });
const validate = new Ajv2020({ strict: false }).compile(schema);

function textOf({ tokens }: Answer): string {
  return embeddedTokenizer.decode(tokens);
}

const prompts = Array.from(
  { length: 16 },
  (_, n) => `Extract the person: Anna number ${n} is ${20 + n} years old and likes red.`,
);

function constrained(n: number): TestRequest {
  const sampling = { temperature: 1.5, seed: n, maxTokens: 400 };
  return { prompt: chatIds(prompts[n] as string), sampling, grammar };
}

function free(n: number): TestRequest {
  return {
    prompt: chatIds(`Tell me a story about fox ${n}.`),
    sampling: { temperature: 0.9, seed: n, maxTokens: 60 },
  };
}

async function answers(
  requests: readonly TestRequest[],
  options: Partial<EngineOptions> = {},
): Promise<Answer[]> {
  return withEngine(options, async (engine) => {
    engine.setVocabulary(embeddedVocabulary);
    return Promise.all(requests.map((request) => collect(engine.submit(engineRequest(request)))));
  });
}

const sixteen = prompts.map((_, n) => n);

describe('an answer with a grammar', () => {
  it('is what the grammar allows, however wildly it is sampled, and ends where the grammar ends', async () => {
    for (const answer of await answers(sixteen.map(constrained))) {
      expect(answer.finish).toMatchObject({ reason: 'stop' });
      expect(validate(JSON.parse(textOf(answer))), textOf(answer)).toBe(true);
    }
  });

  it('is the same alone and among others, and the others are as they are without it', async () => {
    const mixed = await answers([...sixteen.map(constrained), ...sixteen.map(free)]);
    const apart = [...(await answers(sixteen.map(free)))];
    expect(mixed.slice(16).map(({ tokens }) => tokens)).toEqual(apart.map(({ tokens }) => tokens));
    for (const n of [0, 7, 15]) {
      const [alone] = await answers([constrained(n)]);
      expect(mixed[n]?.tokens).toEqual(alone?.tokens);
    }
  });

  it('is the same after it was preempted', async () => {
    const [alone] = await answers([constrained(3)]);
    // Not enough blocks for all: some are put back and come again.
    const crowded = await answers(sixteen.map(constrained), { blockCount: 24 });
    expect(crowded[3]?.tokens).toEqual(alone?.tokens);
  });

  it('is the same when another engine goes on with what there is of it', async () => {
    const [whole] = await answers([constrained(5)]);
    const tokens = whole?.tokens as number[];
    const [rest] = await answers([{ ...constrained(5), answer: tokens.slice(0, 9) }]);
    expect([...tokens.slice(0, 9), ...(rest as Answer).tokens]).toEqual(tokens);
  });

  it('is whole and valid though its engine process is killed', async () => {
    const engine = new SupervisedEngine({
      modelPath: embeddedModelPath,
      engine: { blockCount: 256, budget: { kind: 'fixed', maxStepTokens: 256 }, endIds: embeddedEndIds },
    });
    try {
      expect(await engine.start()).toMatchObject({ ok: true });
      engine.setVocabulary(embeddedVocabulary);
      const [alone] = await answers([constrained(2)]);
      const stream = engine.submit(engineRequest(constrained(2)));
      const tokens: number[] = [];
      for await (const event of stream) {
        if (event.kind === 'finish') expect(event).toMatchObject({ reason: 'stop' });
        else if (tokens.push(event.token) === 6) process.kill(engine.pid as number, 'SIGKILL');
      }
      expect(engine.restarts).toBe(1);
      expect(tokens).toEqual(alone?.tokens);
      // Its tables are there by now, and are named by their key.
      expect((await collect(engine.submit(engineRequest(constrained(2))))).tokens).toEqual(tokens);
      expect(validate(JSON.parse(embeddedTokenizer.decode(tokens)))).toBe(true);
    } finally {
      await engine.close();
    }
  });

  it('is refused by an engine that does not know the key of its tables, so that they are sent again', async () => {
    await withEngine({}, async ({ engine }) => {
      const sent: FromEngine[] = [];
      const request = engineRequest(constrained(2)) as AnswerRequest;
      const { key } = grammar;
      const named = { ...request, grammar: { tables: { key }, continues: false } };
      const submit = (one: SentRequest) =>
        handleCommand(engine, { kind: 'submit', requests: [one] }, (message) => sent.push(message));
      engine.setVocabulary(embeddedVocabulary);
      submit(named);
      expect(sent.splice(0)).toEqual([{ kind: 'unknown-grammar', id: request.id, key }]);
      submit(request);
      submit({ ...named, id: 'by its key' });
      expect(sent).toEqual([]);
      expect(engine.stats(0).requests.submitted).toBe(2);
    });
  });

  it('differs from choice to choice, and tells the model’s own probabilities', async () => {
    const requests = [0, 1, 2].map((choice) => ({ ...constrained(4), choice }));
    const texts = (await answers(requests)).map(textOf);
    expect(new Set(texts).size).toBeGreaterThan(1);
    for (const text of texts) expect(validate(JSON.parse(text))).toBe(true);
    const [plain] = await answers([constrained(4)]);
    const logged = await withEngine({}, async (engine) => {
      engine.setVocabulary(embeddedVocabulary);
      const request = engineRequest({
        ...constrained(4),
        sampling: { ...constrained(4).sampling, logprobs: 2 },
      });
      const events = [];
      for await (const event of engine.submit(request)) if (event.kind === 'token') events.push(event);
      return events;
    });
    expect(logged.map(({ token }) => token)).toEqual(plain?.tokens);
    for (const { logprobs } of logged) expect(logprobs?.top).toHaveLength(2);
  });

  it('says that it was cut where it was', async () => {
    const [answer] = await answers([{ ...constrained(1), sampling: { temperature: 0, maxTokens: 5 } }]);
    expect(answer?.finish).toMatchObject({ reason: 'length' });
    expect(answer?.tokens).toHaveLength(5);
  });

  it('samples nothing that ends an answer before it is complete', async () => {
    const digits = tablesOf({ kind: 'regex', pattern: '[0-9]{12}' });
    const stopIds = [...embeddedTokenizer.encode('7')];
    const request: TestRequest = {
      ...constrained(0),
      grammar: digits,
      sampling: { temperature: 2, seed: 3, stopIds },
    };
    const [answer] = await answers([request]);
    expect(textOf(answer as Answer)).toMatch(/^[0-689]{12}$/);
  });

  it('is refused where nobody has said what tokens spell, or what it has does not fit', async () => {
    const refused = await withEngine({}, (engine) => collect(engine.submit(engineRequest(constrained(0)))));
    expect(refused.finish).toMatchObject({ reason: 'error', error: { code: 'invalid' } });
    const [strange] = await answers([{ ...constrained(0), answer: [...embeddedTokenizer.encode('Hello')] }]);
    expect(strange?.finish).toMatchObject({ reason: 'error', error: { code: 'invalid' } });
  });

  it('that can be read in too many ways ends with an error, and nobody else does', async () => {
    const rules = ['root ::= x | y | "a"', 'x ::= "a" root "b"', 'y ::= "a" root "c"'].join('\n');
    const wild = tablesOf({ kind: 'grammar', text: rules });
    const mask = {
      temperature: 0,
      maxTokens: 200,
      logitBias: [...embeddedTokenizer.encode('a')].map((token) => ({ token, bias: 100 })),
    };
    const [answer, other] = await answers([{ ...constrained(0), grammar: wild, sampling: mask }, free(1)]);
    expect(answer?.finish).toMatchObject({ reason: 'error', error: { code: 'grammar-failed' } });
    expect(other?.finish.reason).not.toBe('error');
  });

  it('that has too many ways to begin ends with an error, and so does what goes on with it', async () => {
    const names = Array.from({ length: 5000 }, (_, n) => `r${n}`);
    const rules = [`root ::= ${names.join(' | ')}`, ...names.map((name, n) => `${name} ::= "a${n}"`)];
    const wide = tablesOf({ kind: 'grammar', text: rules.join('\n') });
    const begun = [...embeddedTokenizer.encode('a')];
    const [answer, resumed, other] = await answers([
      { ...constrained(0), grammar: wide },
      { ...constrained(0), grammar: wide, answer: begun },
      free(1),
    ]);
    for (const one of [answer, resumed]) {
      expect(one?.finish).toMatchObject({ reason: 'error', error: { code: 'grammar-failed' } });
    }
    expect(other?.finish.reason).not.toBe('error');
  });
});
