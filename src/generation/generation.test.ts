import { describe, expect, it } from 'vitest';
import type { AnswerRequest, RequestEvent } from '../engine/request.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { validateSampling } from '../sampling/parameters.ts';
import { Generation } from './generation.ts';
import { GenerationError } from './generation-error.ts';
import type { GenerationEvent } from './generation-event.ts';
import type { GenerationRequest } from './generation-request.ts';
import { wireNames } from './sampling-settings.ts';
import { WholeAnswer } from './whole-answer.ts';

// Token n spells the n-th letter; 25, z, ends an answer.
const tokenizer = {
  eosIds: new Set([25]),
  stripsLeadingSpace: false,
  isSpecial: () => false,
  tokenBytes: (id: number) => Uint8Array.of(97 + id),
};

type Script = (
  request: AnswerRequest,
  cancelled: readonly string[],
) => AsyncGenerator<RequestEvent, void, void>;

const prompt = { ids: Int32Array.of(1, 2), continuation: true };

/** A generation over an engine that follows a script, with what was submitted and cancelled. */
function generationOf(
  script: Script,
  request: Partial<GenerationRequest> = {},
  signal = new AbortController().signal,
) {
  const cancelled: string[] = [];
  const submitted: AnswerRequest[] = [];
  const engine = {
    submit: (one: AnswerRequest) => {
      submitted.push(one);
      return script(one, cancelled);
    },
    cancel: (id: string) => cancelled.push(id),
  };
  const sampling = validateSampling({ maxTokens: 9 }, { vocabSize: 26, freshSeed: { low: 0, high: 0 } });
  if (!sampling.ok) throw new Error(sampling.problem);
  const model = { name: 'm', spec: {}, tokenizer, engine } as unknown as ServedModel;
  const prompts = request.prompts ?? [prompt];
  const parameters = prompts.map(() => sampling.parameters);
  const generation = new Generation(
    { id: 'r', model, prompts, parameters, names: wireNames, ...request },
    signal,
  );
  return { generation, cancelled, submitted };
}

async function read(generation: Generation, choices = 1) {
  const events: GenerationEvent[] = [];
  const whole = new WholeAnswer(choices);
  let error: unknown;
  try {
    for await (const event of generation.events()) {
      events.push(event);
      whole.add(event);
    }
  } catch (thrown) {
    error = thrown;
  }
  return { choices: whole.choices, text: whole.choices[0]?.text, events, error };
}

const token = (id: string, value: number) => ({ kind: 'token', id, token: value }) as RequestEvent;
const finish = (id: string, extra: object) =>
  ({
    kind: 'finish',
    id,
    reason: 'stop',
    promptTokens: 2,
    cachedTokens: 1,
    generatedTokens: 3,
    ...extra,
  }) as RequestEvent;

/** Goes on until it is cancelled, and says then that it was. */
const endless: Script = async function* ({ id }, cancelled) {
  while (!cancelled.includes(id)) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    yield token(id, 0);
  }
  yield finish(id, { reason: 'cancelled' });
};

describe('a generation', () => {
  it('shows the text without the token that ends it, and counts that token', async () => {
    const { generation, cancelled } = generationOf(async function* ({ id }) {
      yield token(id, 0);
      yield token(id, 1);
      yield { ...token(id, 25), stop: 'eos' } as RequestEvent;
      yield finish(id, {});
    });
    const { choices, events, error } = await read(generation);
    expect(error).toBeUndefined();
    expect(choices[0]).toMatchObject({ text: 'ab', tokens: [0, 1, 25], reason: 'stop' });
    expect(events.at(-1)).toEqual({ kind: 'finish', index: 0, reason: 'stop', calls: 0 });
    expect(generation.usage).toEqual({ promptTokens: 2, cachedTokens: 1, completionTokens: 3 });
    expect(cancelled).toEqual([]);
  });

  it('that fails midway gives the text so far and then the reason', async () => {
    const { generation } = generationOf(async function* ({ id }) {
      yield token(id, 0);
      yield finish(id, { reason: 'error', error: { code: 'engine-failed', message: 'it died' } });
    });
    const { text, error } = await read(generation);
    expect(text).toBe('a');
    expect(error).toBeInstanceOf(GenerationError);
    expect(error).toMatchObject({ code: 'engine_failed', message: 'it died' });
  });

  it('blames the biases, by their name, where they leave nothing to sample', async () => {
    const { generation } = generationOf(async function* ({ id }) {
      yield finish(id, { reason: 'error', error: { code: 'no-candidate', message: 'nothing' } });
    });
    expect((await read(generation)).error).toMatchObject({ code: 'invalid_value', parameter: 'logit_bias' });
  });

  it('never takes a cancellation that nobody asked for as an end', async () => {
    const { generation } = generationOf(async function* ({ id }) {
      yield token(id, 0);
      yield finish(id, { reason: 'cancelled' });
    });
    expect((await read(generation)).error).toMatchObject({ code: 'engine_failed' });
  });

  it('cancels at a stop string, and waits for the engine to let go', async () => {
    const { generation, cancelled } = generationOf(
      async function* ({ id }) {
        for (const value of [0, 1, 2, 3]) yield token(id, value);
        yield finish(id, { reason: 'cancelled' });
      },
      { stops: ['bc'] },
    );
    const { text, events } = await read(generation);
    expect(text).toBe('a');
    expect(events.at(-1)).toMatchObject({ kind: 'finish', reason: 'stop', stop: 'bc' });
    expect(cancelled).toEqual(['r-0-0']);
    expect(generation.usage).toMatchObject({ completionTokens: 3, cachedTokens: 1 });
  });

  it('cancels whatever still runs when its reader leaves or an abort comes', async () => {
    const left = generationOf(endless, { prompts: [prompt, prompt] });
    for await (const _ of left.generation.events()) break;
    expect(left.cancelled).toEqual(['r-0-0', 'r-1-0']);
    const controller = new AbortController();
    const aborted = generationOf(endless, {}, controller.signal);
    setTimeout(() => controller.abort(new Error('enough')), 10);
    expect((await read(aborted.generation)).error).toEqual(new Error('enough'));
    expect(aborted.cancelled).toEqual(['r-0-0']);
  });
});

describe('several answers', () => {
  it('are a request each, alike but for their number', () => {
    const idle: Script = async function* () {};
    const { generation, submitted } = generationOf(idle, {
      choices: 2,
      prompts: [prompt, { ids: Int32Array.of(3), continuation: true }],
      salt: 's',
      account: 'a',
    });
    generation.events().next();
    expect(submitted.map(({ id, prompt: ids, choice }) => [id, [...ids], choice])).toEqual([
      ['r-0-0', [1, 2], 0],
      ['r-0-1', [1, 2], 1],
      ['r-1-0', [3], 0],
      ['r-1-1', [3], 1],
    ]);
    for (const request of submitted) {
      expect(request).toMatchObject({ salt: 's', account: 'a', parameters: submitted[0]?.parameters });
    }
  });

  it('end each on its own, and their prompt counts once', async () => {
    const { generation, cancelled } = generationOf(
      async function* ({ id, choice }) {
        for (const value of [0, 1, 2]) yield token(id, value + (choice ?? 0));
        yield finish(id, { reason: 'length', cachedTokens: choice === 0 ? 0 : 2 });
      },
      { choices: 3, stops: ['bcd'] },
    );
    const { choices } = await read(generation, 3);
    expect(choices.map(({ text, reason }) => [text, reason])).toEqual([
      ['abc', 'length'],
      ['', 'stop'],
      ['cde', 'length'],
    ]);
    expect(cancelled).toEqual(['r-0-1']);
    expect(generation.usage).toEqual({ promptTokens: 2, cachedTokens: 0, completionTokens: 9 });
  });

  it('fail together where one fails, and the rest is cancelled', async () => {
    const { generation, cancelled } = generationOf(
      async function* (request, ended) {
        if (request.choice !== 1) return yield* endless(request, ended);
        yield finish(request.id, { reason: 'error', error: { code: 'numeric-error', message: 'NaN' } });
      },
      { choices: 4 },
    );
    expect((await read(generation, 4)).error).toMatchObject({ code: 'numeric_error' });
    expect(cancelled).toEqual(['r-0-0', 'r-0-2', 'r-0-3']);
  });

  it('are all cancelled when an abort comes before any token', async () => {
    const controller = new AbortController();
    const silent: Script = async function* ({ id }, cancelled) {
      while (!cancelled.includes(id)) await new Promise((resolve) => setTimeout(resolve, 1));
      yield finish(id, { reason: 'cancelled' });
    };
    const { generation, cancelled } = generationOf(silent, { choices: 4 }, controller.signal);
    setTimeout(() => controller.abort(new Error('gone')), 5);
    expect((await read(generation, 4)).error).toEqual(new Error('gone'));
    expect(cancelled).toEqual(['r-0-0', 'r-0-1', 'r-0-2', 'r-0-3']);
  });

  it('come and go a few at a time where there are thousands, and others are served in between', async () => {
    const controller = new AbortController();
    const silent: Script = async function* () {
      await new Promise(() => {});
      yield finish('never', {});
    };
    const prompts = Array.from({ length: 32 }, () => prompt);
    const request = { prompts, choices: 32 };
    const { generation, submitted, cancelled } = generationOf(silent, request, controller.signal);
    const reading = read(generation, 1024);
    expect(await mostInATurn(submitted, 1024)).toBeLessThanOrEqual(64);
    controller.abort(new Error('gone'));
    expect(await mostInATurn(cancelled, 1024)).toBeLessThanOrEqual(256);
    expect((await reading).error).toEqual(new Error('gone'));
  });
});

/** How many came in one turn of the event loop at most, until there are so many. */
async function mostInATurn(list: readonly unknown[], until: number): Promise<number> {
  let most = 0;
  for (let before = list.length; list.length < until; before = list.length) {
    await new Promise((resolve) => setImmediate(resolve));
    most = Math.max(most, list.length - before);
  }
  return most;
}
