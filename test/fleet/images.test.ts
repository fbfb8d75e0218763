// Images in a fleet over a real NATS server whose nodes have the permissions of their roles: a gateway counts and sends, workers
// compute; every answer is the one that a single server gives.

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect } from '@nats-io/transport-node';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Subjects } from '../../src/fleet/bus.ts';
import type { ToGateway, ToWorker } from '../../src/fleet/messages.ts';
import { natsPermissions, permissionsText } from '../../src/fleet/nats-permissions.ts';
import { toWire } from '../../src/fleet/wire.ts';
import { inputLine } from '../support/batch-server.ts';
import { FleetBatch } from '../support/fleet-batch.ts';
import { natsRefusal } from '../support/nats-server.ts';
import { ServerHome, type ServerProcess, waitUntil } from '../support/server-process.ts';
import { SmallFleet } from '../support/small-fleet.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';

const refusal = natsRefusal() ?? (hasTestdata ? undefined : 'the shared test data are missing');
const because = refusal === undefined ? '' : ` (${refusal})`;

const subjects = new Subjects('main');
const allowed = (role: 'worker' | 'gateway', node: string) =>
  permissionsText(natsPermissions({ fleet: 'main', roles: [role], node }));

const imageOf = (file: Buffer) => {
  const url = `data:image/png;base64,${file.toString('base64')}`;
  return { type: 'image_url', image_url: { url } };
};
const read = (name: string) => readFileSync(testdata('vision', 'images', name));

/** Nothing makes it smaller: larger than messages of NATS may be. */
function noise(side: number): Promise<Buffer> {
  const raw = { width: side, height: side, channels: 3 } as const;
  return sharp(randomBytes(3 * side * side), { raw })
    .png({ compressionLevel: 1 })
    .toBuffer();
}

const ask = (url: string, body: object, id?: string, key?: string) =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(id === undefined ? {} : { 'x-request-id': id }),
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify(body),
  });

function bodyOf(files: readonly Buffer[], more: object = {}) {
  const content = [...files.map(imageOf), { type: 'text', text: 'What is this?' }];
  const sampling = { temperature: 0.8, seed: 5, ignore_eos: true, max_tokens: 24 };
  return { model: 'eyes', messages: [{ role: 'user', content }], ...sampling, ...more };
}

interface Completion {
  readonly choices: readonly [{ readonly message: { readonly content: string } }];
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly prompt_tokens_details: { readonly cached_tokens: number };
  };
}

async function answerOf(response: Response): Promise<Completion> {
  const body = (await response.json()) as Completion;
  expect(response.status, JSON.stringify(body)).toBe(200);
  return body;
}

/** Reads until there are so many events. */
async function begun(response: Response, events: number): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  let text = '';
  while (text.split('\ndata: ').length < events) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`the stream ended with ${text}`);
    text += Buffer.from(value).toString();
  }
  return reader;
}

describe.skipIf(refusal !== undefined)(`images in a fleet${because}`, () => {
  const home = new ServerHome();
  let fleet: SmallFleet;
  let alone: ServerProcess;
  let gateways: ServerProcess[];
  const workers = new Map<string, ServerProcess>();
  /** Requests with pictures that workers were given, and parts that they were sent. */
  const submitted: { readonly worker: string; readonly id: string; readonly attempt: number }[] = [];
  const parts: { readonly worker: string; readonly bytes: number }[] = [];
  let onWanted = (_wanted: Extract<ToGateway, { kind: 'picture' }>) => {};

  const eyes = ['--model', `eyes=${testdata('vision', 'qwen3_vl')}`];
  const blind = ['--model', `blind=${testdata('stories260K')}`];

  async function startWorker(node: string, flags: readonly string[] = [], environment = {}): Promise<void> {
    workers.set(node, await fleet.worker(node, { user: node, environment }, ...eyes, ...flags));
  }

  beforeAll(async () => {
    fleet = await SmallFleet.start({
      w1: allowed('worker', 'w1'),
      w2: allowed('worker', 'w2'),
      w3: allowed('worker', 'w3'),
      g1: allowed('gateway', 'g1'),
      g2: allowed('gateway', 'g2'),
    });
    for (const worker of ['w1', 'w2', 'w3']) {
      fleet.listen(subjects.work(worker), (message) => {
        const given = message as ToWorker;
        if (given.kind === 'submit' && given.request.pictures !== undefined)
          submitted.push({ worker, id: given.id, attempt: given.attempt });
        if (given.kind === 'picture') parts.push({ worker, bytes: given.content.length });
      });
    }
    for (const node of ['g1', 'g2']) {
      fleet.listen(subjects.news(node), (message) => {
        const said = message as ToGateway;
        if (said.kind === 'picture') onWanted(said);
      });
    }
    alone = await home.start(...eyes);
    await Promise.all([startWorker('w1', blind), startWorker('w2')]);
    gateways = await Promise.all(['g1', 'g2'].map((node) => fleet.gateway(node, { user: node })));
    for (const gateway of gateways) await fleet.knows(gateway, 'w1', 'w2');
  });

  afterAll(async () => {
    await fleet?.stop();
    await home.close();
  });

  const gateway = (at = 0) => gateways[at] as ServerProcess;

  /** What the same request gives at a server alone. */
  async function own(body: object): Promise<Completion> {
    return answerOf(await ask(alone.url, { ...body, stream: false }));
  }

  async function again(worker: string): Promise<void> {
    await startWorker(worker);
    for (const one of gateways) await fleet.knows(one, worker);
  }

  const totals = ({ prompt_tokens, completion_tokens }: Completion['usage']) => ({
    prompt_tokens,
    completion_tokens,
  });

  it('are answered as a single server answers, and count the same tokens', async () => {
    const several = ['square-224.png', 'exif6-333x187.jpg', 'tall-64x500.webp'];
    for (const names of [['tiny-31x17.png'], several]) {
      const body = bodyOf(names.map(read));
      const [mine, given] = await Promise.all([own(body), ask(gateway().url, body).then(answerOf)]);
      expect(given.choices).toEqual(mine.choices);
      expect(totals(given.usage)).toEqual(totals(mine.usage));
    }
  });

  it('may be larger than a message of NATS, and are sent to a worker once for all questions', async () => {
    const file = await noise(700);
    expect(file.length).toBeGreaterThan(2 ** 20);
    parts.length = 0;
    submitted.length = 0;
    const first = bodyOf([file]);
    expect((await answerOf(await ask(gateway(0).url, first))).choices).toEqual((await own(first)).choices);
    const [{ content } = { content: [] }] = first.messages;
    const more = {
      ...first,
      messages: [{ role: 'user', content: [...content.slice(0, 1), { type: 'text', text: 'Why?' }] }],
    };
    // By another gateway, to the worker that holds its blocks.
    await waitUntil(async () => {
      const { usage } = await answerOf(await ask(gateway(1).url, more));
      return usage.prompt_tokens_details.cached_tokens > 0;
    });
    // However often a worker is asked about it.
    for (const worker of new Set(submitted.map((one) => one.worker))) {
      const own = parts.filter((part) => part.worker === worker);
      expect(own.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(file.length);
    }
  });

  it('are refused as a single server refuses them', async () => {
    const file = read('square-224.png');
    const damaged = file.subarray(0, file.length - 40_000);
    for (const stream of [false, true]) {
      const [there, here] = await Promise.all(
        [alone.url, gateway().url].map(async (url) => {
          const response = await ask(url, bodyOf([read('tiny-31x17.png'), damaged], { stream }));
          return [response.status, await response.json()] as const;
        }),
      );
      expect(here).toEqual(there);
      expect(here?.[0]).toBe(400);
    }
    const refused = await ask(gateway().url, bodyOf([file], { model: 'blind' }));
    expect(refused.status).toBe(400);
    expect(((await refused.json()) as { error: { message: string } }).error.message).toBe(
      "messages[0].content[0]: the model 'blind' does not read images; these do: eyes",
    );
    const { data } = (await (await fetch(`${gateway().url}/v1/models`)).json()) as {
      data: { id: string; modalities: string[] }[];
    };
    const modalities = Object.fromEntries(data.map(({ id, modalities: its }) => [id, its]));
    expect(modalities).toEqual({ eyes: ['text', 'image'], blind: ['text'] });
  });

  it('are seen again by another worker where the first is killed, and by the client at another gateway', async () => {
    const body = bodyOf([read('tall-64x500.webp')], { max_tokens: 1200 });
    const expected = (await own(body)).choices[0].message.content;
    submitted.length = 0;
    const reader = await begun(await fleet.open(gateway(0).url, 'req-1', body), 40);
    const { worker = '' } = submitted.at(-1) ?? {};
    workers.get(worker)?.signal('SIGKILL');
    await reader.cancel();
    const resumed = await fleet.resume(gateway(1).url, 'req-1');
    expect(resumed).toBe(expected);
    await again(worker);
  });

  it('go to another worker where the first is killed while it fetches them', async () => {
    const file = await noise(1500);
    const killed: string[] = [];
    onWanted = ({ worker }) => {
      if (killed.length > 0) return;
      killed.push(worker);
      workers.get(worker)?.signal('SIGKILL');
    };
    const body = bodyOf([file]);
    const given = await answerOf(await ask(gateway().url, body));
    onWanted = () => {};
    expect(given.choices).toEqual((await own(body)).choices);
    expect(killed).toHaveLength(1);
    await again(killed[0] as string);
  });

  it('are computed anew where their gateway is killed and the client comes back to another', async () => {
    const body = bodyOf([read('exif6-333x187.jpg')], { max_tokens: 1200 });
    const expected = (await own(body)).choices[0].message.content;
    const reader = await begun(await fleet.open(gateway(0).url, 'req-2', body), 40);
    await gateway(0).stop();
    await reader.cancel().catch(() => {});
    expect(await fleet.resume(gateway(1).url, 'req-2')).toBe(expected);
    gateways[0] = await fleet.gateway('g1', { user: 'g1' });
    await fleet.knows(gateway(0), 'w1', 'w2');
  });

  it('are in lines of batches', async () => {
    const names = ['tiny-31x17.png', 'square-224.png', 'palette-120x90.gif'];
    const bodies = names.map((name) => bodyOf([read(name)], { max_tokens: 8 }));
    const lines = bodies.map((body, at) => inputLine(`line-${at}`, body, '/v1/chat/completions'));
    const batch = await FleetBatch.begin([gateway(1).url], '', lines, '/v1/chat/completions');
    const ended = await batch.until(({ status }) => status === 'completed', 120_000);
    const answers = (await batch.output(ended)).map(
      ({ response }) => response?.body as unknown as Completion,
    );
    const expected = await Promise.all(bodies.map(own));
    expect(answers.map(({ choices }) => choices)).toEqual(expected.map(({ choices }) => choices));
  });

  it('never reach a worker without eyes, nor a node that asks for what another was given', async () => {
    await startWorker('w3', [], { CHAIRLIFT_VISION: 'false' });
    await fleet.knows(gateway(), 'w3');
    submitted.length = 0;
    parts.length = 0;
    const intruder = await connect({ port: fleet.nats.port, user: 'w3', pass: 'w3' });
    onWanted = (wanted) => {
      if (wanted.worker === 'w3') return;
      for (const worker of ['w3', wanted.worker])
        intruder.publish(subjects.news('g1'), Buffer.concat([Buffer.of(0), toWire({ ...wanted, worker })]));
    };
    for (let i = 0; i < 6; i++) await answerOf(await ask(gateway().url, bodyOf([await noise(100)])));
    onWanted = () => {};
    await intruder.flush();
    await intruder.close();
    expect(submitted.length).toBeGreaterThanOrEqual(6);
    expect(submitted.filter(({ worker }) => worker === 'w3')).toEqual([]);
    expect(parts.filter(({ worker }) => worker === 'w3')).toEqual([]);
    for (const one of [...workers.values(), ...gateways]) expect(one.log()).not.toMatch(/permission/i);
  });
});
