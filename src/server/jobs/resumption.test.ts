// Clients that come back to their answers, at a server that keeps what it has begun.

import { describe, expect, it, vi } from 'vitest';
import { messages, startWithKeys } from '../../../test/support/keyed-server.ts';
import type { TestServerOptions } from '../../../test/support/test-server.ts';
import { reportUsage } from '../../store/usage-report.ts';
import type { KeptRequest, RequestArchive } from '../context.ts';
import type { ServerSettings } from '../settings.ts';
import { StreamPosition } from './resumption.ts';

class MemoryArchive implements RequestArchive {
  readonly kept = new Map<string, KeptRequest>();

  async keep(request: KeptRequest): Promise<true> {
    this.kept.set(`${request.keyId} ${request.id}`, request);
    return true;
  }

  async find(keyId: string, id: string): Promise<KeptRequest | undefined> {
    return this.kept.get(`${keyId} ${id}`);
  }
}

/** Knows the first tokens of each choice. */
class KnowingArchive extends MemoryArchive {
  readonly followed: number[][] = [];
  readonly #known: number;

  constructor(known: number) {
    super();
    this.#known = known;
  }

  follow(): (choice: number, token: number) => void {
    this.followed.length = 0;
    return (choice, token) => {
      this.followed[choice] ??= [];
      this.followed[choice].push(token);
    };
  }

  override async find(keyId: string, id: string): Promise<KeptRequest | undefined> {
    const kept = await super.find(keyId, id);
    return kept && { ...kept, tokens: this.followed.map((tokens) => tokens.slice(0, this.#known)) };
  }
}

const body = { messages, max_tokens: 40, temperature: 1, ignore_eos: true, stream: true };

async function begin(options: TestServerOptions = {}, archive = new MemoryArchive()) {
  const { server, secrets, usage, database } = await startWithKeys(
    { mine: {}, other: {} },
    { ...options, archive },
  );
  const post = (
    key: string,
    id: string,
    payload?: object,
    lastEventId?: string,
    url = '/v1/chat/completions',
  ) =>
    server.app.inject({
      method: 'POST',
      url,
      headers: {
        authorization: `Bearer ${key}`,
        'x-request-id': id,
        ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
      },
      ...(payload === undefined ? {} : { payload }),
    });
  return { archive, secrets, usage, database, post };
}

/** Ids and data of a stream's events. */
function eventsOf(text: string): { readonly id: string | undefined; readonly data: string }[] {
  return text
    .split('\n\n')
    .filter((event) => event.includes('data: '))
    .map((event) => ({
      id: /^id: (.*)$/m.exec(event)?.[1],
      data: /^data: (.*)$/m.exec(event)?.[1] as string,
    }));
}

describe('an answer that a client comes back to', () => {
  it.each([1, 3])('goes on after any event, though no seed was given, with %i choices', async (n) => {
    const { post, secrets } = await begin();
    const whole = eventsOf((await post(secrets.mine, 'one', { ...body, n })).body);
    const again = eventsOf((await post(secrets.mine, 'one', undefined, '0')).body);
    const textOf = (events: typeof whole, index: number) =>
      events
        .filter(({ data }) => data !== '[DONE]')
        .flatMap(({ data }) => JSON.parse(data).choices)
        .filter((choice) => choice.index === index)
        .map((choice) => choice.delta.content ?? '')
        .join('');
    for (let index = 0; index < n; index++) expect(textOf(again, index)).toBe(textOf(whole, index));
    for (const at of [1, 7, Math.floor(whole.length / 2), whole.length - 2]) {
      const { id } = whole[at] as (typeof whole)[number];
      const rest = eventsOf((await post(secrets.mine, 'one', undefined, id)).body);
      for (let index = 0; index < n; index++) {
        const joined = textOf(whole.slice(0, at + 1), index) + textOf(rest, index);
        expect(joined).toBe(textOf(whole, index));
      }
      expect(rest.at(-1)?.data).toBe('[DONE]');
    }
  });

  it('never names less in an event than its client had before, of any choice', async () => {
    const { post, secrets } = await begin();
    const whole = eventsOf((await post(secrets.mine, 'one', { ...body, n: 3 })).body);
    const rest = eventsOf((await post(secrets.mine, 'one', undefined, '5.30.30')).body);
    const countsOf = (id: string | undefined) => (id ?? '').replace(/-.*$/, '').split('.').map(Number);
    expect(countsOf(rest[0]?.id)).toEqual([6, 30, 30]);
    for (const { id } of rest.slice(0, -1)) expect(Math.min(...countsOf(id).slice(1))).toBeGreaterThan(29);
    expect(rest.at(-2)?.id).toBe(whole.at(-2)?.id);
  });

  it('goes on in the protocol that its body chose, though it comes back without one', async () => {
    const { post, secrets } = await begin();
    const native = { prompt: 'Once upon a time', n_predict: 20, stream: true };
    const whole = eventsOf((await post(secrets.mine, 'one', native, undefined, '/completions')).body);
    const { id } = whole[5] as (typeof whole)[number];
    const rest = eventsOf((await post(secrets.mine, 'one', undefined, id, '/completions')).body);
    const textOf = (events: typeof whole) => events.map(({ data }) => JSON.parse(data).content).join('');
    expect(textOf(whole.slice(0, 6)) + textOf(rest)).toBe(textOf(whole));
    expect(textOf(rest)).not.toBe('');
  });

  it('goes on at a server with other defaults as it began', async () => {
    const archive = new MemoryArchive();
    // Keys of two servers differ; here they stand for the same client.
    const shared: RequestArchive = {
      keep: (request) => archive.keep({ ...request, keyId: 'mine' }),
      find: (_keyId, id) => archive.find('mine', id),
    };
    const at = async (settings: Partial<ServerSettings>) => {
      const { server, secrets } = await startWithKeys({ mine: {} }, { archive: shared, settings });
      return async (payload?: object, lastEventId?: string) => {
        const response = await server.app.inject({
          method: 'POST',
          url: '/v1/chat/completions',
          headers: {
            authorization: `Bearer ${secrets.mine}`,
            'x-request-id': 'one',
            ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
          },
          ...(payload === undefined ? {} : { payload }),
        });
        return eventsOf(response.body)
          .filter(({ data }) => data !== '[DONE]')
          .map(({ data }) => JSON.parse(data).choices[0]?.delta.content ?? '')
          .join('');
      };
    };
    const first = await at({ samplingDefaults: { temperature: 0 } });
    const second = await at({ samplingDefaults: { temperature: 2, topK: 5 } });
    const { temperature: _, ...undecided } = body;
    const whole = await first(undecided);
    expect(whole.length).toBeGreaterThan(40);
    expect(await second(undefined, '0')).toBe(whole);
  });

  it('has the ids that it had, and counts once', async () => {
    const { post, secrets, usage } = await begin();
    const idOf = (text: string) => JSON.parse(eventsOf(text)[0]?.data ?? '{}').id;
    const first = idOf((await post(secrets.mine, 'one', body)).body);
    const before = await usage.report({});
    expect(idOf((await post(secrets.mine, 'one', undefined, '0')).body)).toBe(first);
    const [after] = await usage.report({});
    expect(after).toMatchObject({
      promptTokens: before[0]?.promptTokens,
      completionTokens: before[0]?.completionTokens,
    });
  });

  it.each([true, false])('is in the books when its end is heard, streamed: %s', async (stream) => {
    const { post, secrets, database } = await begin();
    const answer = await post(secrets.mine, 'one', { ...body, n: 2, stream });
    expect(answer.statusCode).toBe(200);
    // On the disk: what is in memory alone dies with its server.
    expect(await reportUsage(database, {})).toMatchObject([{ requests: 1, completionTokens: 80, errors: 0 }]);
  });

  it('ends though the books cannot be written, which is made up for', async () => {
    const { post, secrets, usage, database } = await begin();
    vi.spyOn(usage, 'flush').mockImplementation(() => new Promise(() => {}));
    expect(eventsOf((await post(secrets.mine, 'one', body)).body).at(-1)?.data).toBe('[DONE]');
    expect(await reportUsage(database, {})).toEqual([]);
    vi.restoreAllMocks();
    expect(await usage.report({})).toMatchObject([{ requests: 1, completionTokens: 40 }]);
  });

  it('belongs to no other key, and is not found under another name or path', async () => {
    const { post, secrets } = await begin();
    await post(secrets.mine, 'one', body);
    expect((await post(secrets.other, 'one', undefined, '0')).statusCode).toBe(404);
    expect((await post(secrets.mine, 'two', undefined, '0')).statusCode).toBe(404);
    expect((await post(secrets.mine, 'one', undefined, '0', '/v1/completions')).statusCode).toBe(404);
  });

  it('is refused where it would be the rest of another answer, with what to do', async () => {
    let origin = 'these weights';
    const { post, secrets, archive } = await begin({ originOf: () => origin });
    await post(secrets.mine, 'one', body);
    origin = 'other weights';
    const changed = await post(secrets.mine, 'one', undefined, '5');
    expect(changed.statusCode).toBe(409);
    expect(changed.json().error).toMatchObject({
      code: 'answer_changed',
      message: expect.stringMatching(/the model.*without Last-Event-ID/),
    });
    origin = 'these weights';
    expect((await post(secrets.mine, 'one', undefined, '5')).statusCode).toBe(200);
    // As where a chat template was changed meanwhile.
    const [[name, kept] = []] = [...archive.kept];
    if (name === undefined || kept?.basis === undefined) throw new Error('nothing was kept');
    archive.kept.set(name, { ...kept, basis: { ...kept.basis, prompts: 'another prompt' } });
    expect((await post(secrets.mine, 'one', undefined, '5')).json().error.message).toMatch(/its prompt/);
  });

  it.each([
    ['one token', 1, {}],
    ['all but the last token', 39, {}],
    ['every token', 40, {}],
    ['tokens of several choices', 12, { n: 2 }],
    ['tokens and a stop string to come', 2, { stop: ['the'], max_tokens: 200, seed: 3 }],
    ['tokens of a schema', 3, { ignore_eos: false, seed: 3, response_format: { type: 'json_object' } }],
    ['tokens without their log-probabilities', 9, { logprobs: true }],
    ['tokens that samplers look back on', 20, { frequency_penalty: 1, dry_multiplier: 1, mirostat: 2 }],
  ])('is the same where its archive knows %s', async (_, known, change) => {
    const archive = new KnowingArchive(known);
    const { post, secrets } = await begin({}, archive);
    const whole = eventsOf((await post(secrets.mine, 'one', { ...body, ...change })).body);
    expect(archive.followed.flat().length).toBeGreaterThanOrEqual(known);
    const again = eventsOf((await post(secrets.mine, 'one', undefined, '0')).body);
    const shown = (events: typeof whole) => {
      const choices = events
        .filter(({ data }) => data !== '[DONE]')
        .flatMap(({ data }) => JSON.parse(data).choices as { index: number }[]);
      return choices.toSorted((a, b) => a.index - b.index);
    };
    expect(shown(again)).toEqual(shown(whole));
    expect(again.at(-1)?.data).toBe('[DONE]');
  });

  it('is refused with another body, or an id that is none', async () => {
    const { post, secrets } = await begin();
    await post(secrets.mine, 'one', body);
    expect((await post(secrets.mine, 'one', { ...body, max_tokens: 41 }, '0')).statusCode).toBe(409);
    expect((await post(secrets.mine, 'one', body, '0')).statusCode).toBe(200);
    for (const id of ['x', '-1', '1.', '1e3', '9'.repeat(20)]) {
      expect((await post(secrets.mine, 'one', undefined, id)).statusCode, id).toBe(400);
    }
  });
});

describe('where a stream stands', () => {
  it('counts the events of each choice, and is read again as it was written', () => {
    const position = new StreamPosition();
    expect(position.toString()).toBe('0');
    for (const index of [1, 0, 1, 3]) position.advance(index);
    expect(position.toString()).toBe('1.2.0.1');
    position.advance(undefined);
    expect(StreamPosition.parse(position.toString())?.toString()).toBe('1.2.0.1-1');
  });
});
