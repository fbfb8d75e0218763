import { describe, expect, it } from 'vitest';
import type { EngineRequest, RequestEvent } from '../engine/request.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { validateSampling } from '../sampling/parameters.ts';
import { CompletionRun, type RunEvent, type RunRequest } from './completion-run.ts';

// Token n spells the n-th letter; 25, z, ends an answer.
const tokenizer = {
  eosIds: new Set([25]),
  stripsLeadingSpace: false,
  isSpecial: () => false,
  tokenBytes: (id: number) => Uint8Array.of(97 + id),
};

type Script = (
  request: EngineRequest,
  cancelled: readonly string[],
) => AsyncGenerator<RequestEvent, void, void>;

/** A run over an engine that follows a script, with what was cancelled. */
function runOf(script: Script, request: Partial<RunRequest> = {}, signal = new AbortController().signal) {
  const cancelled: string[] = [];
  const submitted: EngineRequest[] = [];
  const engine = {
    submit: (one: EngineRequest) => {
      submitted.push(one);
      return script(one, cancelled);
    },
    cancel: (id: string) => cancelled.push(id),
  };
  const sampling = validateSampling({ maxTokens: 9 }, { vocabSize: 26, freshSeed: { low: 0, high: 0 } });
  if (!sampling.ok) throw new Error(sampling.problem);
  const run = new CompletionRun(
    {
      id: 'r',
      model: { name: 'm', tokenizer, engine } as unknown as ServedModel,
      prompts: [Int32Array.of(1, 2)],
      choices: 1,
      parameters: [sampling.parameters],
      stops: [],
      special: false,
      continuation: true,
      priority: 1,
      tenant: '',
      account: '',
      enqueuedMs: 0,
      ...request,
    },
    signal,
    { submitted: () => {}, firstToken: () => {} },
  );
  return { run, cancelled, submitted };
}

async function read(run: CompletionRun): Promise<{ text: string; events: RunEvent[]; error: unknown }> {
  const events: RunEvent[] = [];
  let error: unknown;
  try {
    for await (const event of run.events()) events.push(event);
  } catch (thrown) {
    error = thrown;
  }
  return { text: events.map((event) => (event.kind === 'text' ? event.text : '')).join(''), events, error };
}

const token = (id: string, value: number, choice = 0): RequestEvent => ({
  kind: 'token',
  id,
  choice,
  token: value,
});
const finish = (id: string, extra: object, choice = 0): RequestEvent => ({
  kind: 'finish',
  id,
  choice,
  reason: 'stop',
  promptTokens: 2,
  cachedTokens: 1,
  generatedTokens: 3,
  ...extra,
});

describe('a run', () => {
  it('shows the text without the token that ends it, and counts that token', async () => {
    const { run, cancelled } = runOf(async function* ({ id }) {
      yield token(id, 0);
      yield token(id, 1);
      yield token(id, 25);
      yield finish(id, {});
    });
    const { text, events, error } = await read(run);
    expect({ text, error }).toEqual({ text: 'ab', error: undefined });
    expect(events.at(-1)).toEqual({ kind: 'finish', index: 0, reason: 'stop' });
    expect(run.usage).toEqual({ promptTokens: 2, cachedTokens: 1, completionTokens: 3 });
    expect(cancelled).toEqual([]);
  });

  it('that fails midway gives the text so far and then the reason', async () => {
    const { run } = runOf(async function* ({ id }) {
      yield token(id, 0);
      yield finish(id, { reason: 'error', error: { code: 'engine-failed', message: 'it died' } });
    });
    const { text, error } = await read(run);
    expect(text).toBe('a');
    expect(error).toMatchObject({ status: 500, code: 'engine_failed', message: 'it died' });
  });

  it('never takes a cancellation that nobody asked for as an end', async () => {
    const { run } = runOf(async function* ({ id }) {
      yield token(id, 0);
      yield finish(id, { reason: 'cancelled' });
    });
    expect((await read(run)).error).toMatchObject({ status: 500 });
  });

  it('cancels at a stop string, and waits for the engine to let go', async () => {
    const { run, cancelled } = runOf(
      async function* ({ id }) {
        for (const value of [0, 1, 2, 3]) yield token(id, value);
        yield finish(id, { reason: 'cancelled' });
      },
      { stops: ['bc'] },
    );
    const { text, events } = await read(run);
    expect(text).toBe('a');
    expect(events.at(-1)).toMatchObject({ kind: 'finish', reason: 'stop' });
    expect(cancelled).toEqual(['r-0']);
    expect(run.usage).toMatchObject({ completionTokens: 3, cachedTokens: 1 });
  });

  it('cancels whatever still runs when its reader leaves or an abort comes', async () => {
    const endless: Script = async function* ({ id }, cancelled) {
      while (!cancelled.includes(id)) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        yield token(id, 0);
      }
    };
    const left = runOf(endless, { prompts: [Int32Array.of(1), Int32Array.of(2)] });
    for await (const _ of left.run.events()) break;
    expect(left.cancelled).toEqual(['r-0', 'r-1']);
    const controller = new AbortController();
    const aborted = runOf(endless, {}, controller.signal);
    setTimeout(() => controller.abort(new Error('enough')), 10);
    expect((await read(aborted.run)).error).toEqual(new Error('enough'));
    expect(aborted.cancelled).toEqual(['r-0']);
  });

  it('splits several answers only where each may end on its own', () => {
    const idle: Script = async function* () {};
    const plain = runOf(idle, { choices: 3 });
    plain.run.events().next();
    expect(plain.submitted.map(({ id, choices, resumed }) => [id, choices, resumed])).toEqual([
      ['r-0', 3, undefined],
    ]);
    const split = runOf(idle, { choices: 2, stops: ['x'] });
    split.run.events().next();
    expect(split.submitted.map(({ id, resumed }) => [id, resumed])).toEqual([
      ['r-0-0', [{ choice: 0, tokens: [] }]],
      ['r-0-1', [{ choice: 1, tokens: [] }]],
    ]);
  });
});
