// A fleet of three workers and two gateways on machines of their own. While one after the other is struck, every answer is what
// the same request gives alone, none is lost and none is doubled; and what gateways share, they share.

import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FleetLab, labRefusal } from '../../scripts/fleet-lab.js';
import { inputLine } from '../support/batch-server.ts';
import { missingBrowser, startBrowser } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { FleetBatch } from '../support/fleet-batch.ts';
import { askFleet, type FleetAnswer } from '../support/fleet-client.ts';
import { hindrances } from '../support/hindrances.ts';
import { ServerHome, type ServerProcess } from '../support/server-process.ts';
import { thorough } from '../support/thorough.ts';

const STREAMS = 64;
/** Enough that those that are struck are still under way when the last blow falls. */
const STRUCK_TOKENS = thorough ? 400 : 240;
const TOKENS = 160;
/** Clients who ask on and on while nodes are started again. */
const ROLLING = thorough ? 8 : 4;
const LIMIT_MS = 300_000;
const BATCH_LINES = thorough ? 10_000 : 400;
const BATCH_LIMIT_MS = 1_200_000;

const refusal = labRefusal();
const workers = ['worker1', 'worker2', 'worker3'];
const gateways = ['gateway1', 'gateway2'];
const workerFlags = ['--worker', '--threads', '1'];

function bodyOf(i: number, maxTokens = TOKENS) {
  return {
    messages: [{ role: 'user', content: `Tell me a story about animal number ${i}.` }],
    temperature: i % 2 === 0 ? 0 : 0.9,
    seed: i,
    max_tokens: maxTokens,
    ignore_eos: true,
  };
}

interface Completion {
  readonly choices: readonly object[];
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly total_tokens: number;
  };
}

/** Few enough to ask each of them alone. */
const lineBodies = Array.from({ length: 40 }, (_, i) => ({
  prompt: `Once upon a time there was a ${['miller', 'fox', 'queen'][i % 3]} who had ${i} `,
  max_tokens: 4 + (i % 9),
  temperature: i % 2 === 0 ? 0 : 0.9,
  seed: i,
}));
const lineBody = (line: number) => lineBodies[line % lineBodies.length] as (typeof lineBodies)[number];

describe.skipIf(refusal !== undefined)(`a fleet${refusal === undefined ? '' : ` (${refusal})`}`, () => {
  let lab: FleetLab;
  let home: ServerHome;
  let alone: ServerProcess;
  let gatewayFlags: string[];
  let key: string;

  beforeAll(async () => {
    lab = new FleetLab();
    await Promise.all([lab.startNats(), lab.startPostgres()]);
    gatewayFlags = ['--gateway', '--database', lab.database];
    home = new ServerHome();
    alone = await home.start();
    key = lab.createKey('fleet');
    for (const name of workers) await lab.startNode(name, ...workerFlags);
    for (const name of gateways) await lab.startNode(name, ...gatewayFlags);
  });

  afterAll(async () => {
    await alone?.stop();
    home?.remove();
    await lab?.stop();
  });

  const client = () => ({ gateways: gateways.map((name) => lab.url(name)), key, limitMs: LIMIT_MS });

  /** What the fleet says that was used with a key, in tokens. */
  async function used(name: string): Promise<number> {
    const rows = lab.usage(name);
    return rows.reduce((sum, row) => sum + row.promptTokens + row.completionTokens, 0);
  }

  /** Every answer is the one that the same request gives alone; gives the tokens of all. */
  async function same(answers: ReadonlyMap<number, FleetAnswer>, maxTokens = TOKENS): Promise<number> {
    const owns = await Promise.all(
      [...answers.keys()].map((i) =>
        askFleet(
          { gateways: [alone.url], limitMs: LIMIT_MS },
          `alone-${i}-${maxTokens}`,
          bodyOf(i, maxTokens),
        ),
      ),
    );
    let tokens = 0;
    for (const [at, [i, { text, usage }]] of [...answers].entries()) {
      const own = owns[at] as FleetAnswer;
      expect(text, `answer ${i}`).toBe(own.text);
      expect(usage).toMatchObject({
        prompt_tokens: own.usage?.prompt_tokens,
        completion_tokens: own.usage?.completion_tokens,
      });
      tokens += (own.usage?.prompt_tokens ?? 0) + (own.usage?.completion_tokens ?? 0);
    }
    return tokens;
  }

  it('loses no answer and doubles none while machines are killed and cut off', {
    timeout: 400_000,
  }, async () => {
    const answers = Array.from({ length: STREAMS }, (_, i) =>
      askFleet(client(), `struck-${i}`, bodyOf(i, STRUCK_TOKENS), i),
    );
    await sleep(1000);
    await lab.kill('worker1');
    await sleep(1000);
    lab.cut('worker2');
    await sleep(500);
    await lab.kill('gateway1');
    const back = lab.runNode('worker1', ...workerFlags);
    await lab.kill('nats2');
    await sleep(2000);
    lab.runNats('nats2');
    await lab.stopPostgres();
    await back;
    await sleep(25_000);
    lab.mend('worker2');
    await lab.runPostgres();
    await lab.runNode('gateway1', ...gatewayFlags);
    const tokens = await same(new Map((await Promise.all(answers)).entries()), STRUCK_TOKENS);
    await eventually(async () => expect(await used('fleet')).toBe(tokens), 500);
  });

  it('fails no request while every process is started again', { timeout: 400_000 }, async () => {
    let going = true;
    const answers = new Map<number, FleetAnswer>();
    const asking = Array.from({ length: ROLLING }, async (_, number) => {
      for (let turn = 0; going; turn++) {
        const i = ROLLING * turn + number;
        answers.set(i, await askFleet(client(), `rolling-${i}`, bodyOf(i), i));
      }
    });
    for (const name of [...workers, ...gateways]) {
      await lab.kill(name, 'SIGTERM');
      await lab.runNode(name, ...(workers.includes(name) ? workerFlags : gatewayFlags));
    }
    going = false;
    await Promise.all(asking);
    expect(answers.size).toBeGreaterThan(ROLLING);
    await same(answers);
  });

  it('answers every line of a batch once while one of each kind of process is killed', {
    timeout: BATCH_LIMIT_MS,
  }, async () => {
    const lines = Array.from({ length: BATCH_LINES }, (_, i) =>
      inputLine(`line-${i}`, lineBody(i), '/v1/completions'),
    );
    const urls = gateways.map((name) => lab.url(name));
    const batch = await FleetBatch.begin(urls, lab.createKey('batch'), lines);
    const strikes = [
      () => lab.kill('worker1').then(() => lab.runNode('worker1', ...workerFlags)),
      () => lab.kill('gateway1').then(() => lab.runNode('gateway1', ...gatewayFlags)),
      () => lab.kill('nats1').then(() => lab.runNats('nats1')),
      () => lab.stopPostgres('immediate').then(() => lab.runPostgres()),
    ];
    for (const [at, strike] of strikes.entries()) {
      const goal = ((at + 0.5) / strikes.length) * BATCH_LINES;
      await batch.until(({ request_counts: counts }) => counts.completed >= goal, BATCH_LIMIT_MS);
      await strike();
    }
    const ended = await batch.until(({ status }) => status === 'completed', BATCH_LIMIT_MS);
    expect(ended.request_counts).toEqual({ total: BATCH_LINES, completed: BATCH_LINES, failed: 0 });
    const output = await batch.output(ended);
    expect(output.map((line) => line.custom_id)).toEqual(lines.map((_, i) => `line-${i}`));
    const own = await Promise.all(lineBodies.map(completeAlone));
    let tokens = 0;
    for (const [i, line] of output.entries()) {
      const { choices, usage } = own[i % own.length] as Completion;
      tokens += usage.total_tokens;
      expect(line.response?.body, line.custom_id).toMatchObject({
        choices,
        usage: { prompt_tokens: usage.prompt_tokens, completion_tokens: usage.completion_tokens },
      });
    }
    await eventually(async () => expect(await used('batch')).toBe(tokens), 500);
  });

  it('holds a key to one limit, however many gateways it asks', { timeout: LIMIT_MS }, async () => {
    const [perMinute, enough] = [240, 300];
    const limited = lab.createKey('limited', '--rpm', `${perMinute}`);
    const begunMs = performance.now();
    let lastMs = begunMs;
    let admitted = 0;
    const ask = async (url: string) => {
      while (admitted < enough) {
        const response = await fetch(`${url}/v1/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: `Bearer ${limited}` },
          body: JSON.stringify({ prompt: 'Once', max_tokens: 1 }),
        });
        await response.text();
        if (response.ok) {
          admitted++;
          lastMs = performance.now();
        } else {
          expect(response.status).toBe(429);
          await sleep(20);
        }
      }
    };
    await Promise.all(gateways.flatMap((name) => Array.from({ length: 4 }, () => ask(lab.url(name)))));
    const allowed = perMinute + (perMinute * (lastMs - begunMs)) / 60_000;
    expect(admitted / allowed).toBeGreaterThan(0.98);
    expect(admitted / allowed).toBeLessThan(1.02);
  });

  it.skipIf(missingBrowser !== undefined)(
    'is seen on the page of a gateway, and steered from there',
    {
      timeout: LIMIT_MS,
    },
    async () => {
      const browser = await startBrowser();
      try {
        const page = await browser.newPage();
        page.setDefaultTimeout(LIMIT_MS / 2);
        const admin = lab.createKey('operator', '--admin');
        await page.addInitScript(`sessionStorage.setItem('chairlift.key', ${JSON.stringify(admin)})`);
        await page.goto(`${lab.url('gateway1')}/#/fleet`);
        const nodes = page.locator('section.panel').first();
        const row = (node: string) => nodes.locator('tr', { hasText: node });
        for (const node of [...workers, ...gateways]) await row(node).getByText('serving').waitFor();
        await row('worker1').getByRole('button', { name: 'Drain' }).click();
        await row('worker1').getByText('draining').waitFor();
        await row('worker1').getByRole('button', { name: 'Resume' }).click();
        await row('worker1').getByText('serving').waitFor();
        await page.getByRole('spinbutton', { name: 'Workers' }).fill('2');
        await page.getByRole('button', { name: 'Place' }).click();
        await page.getByText('on 2 workers').waitFor();
        expect(await hindrances(page)).toEqual([]);
        await page.goto(`${lab.url('gateway1')}/#/lift`);
        const work = page.getByRole('table', { name: 'Steps and blocks of each worker' });
        await page.getByText(/^[23] engines together: /).waitFor();
        // However long the page takes to show it.
        let isSeen = false;
        const asking = [1, 2].map(async (i) => {
          for (let n = 0; !isSeen; n++)
            await askFleet(client(), `watched-${i}-${n}`, bodyOf(i, STRUCK_TOKENS));
        });
        const busiest = (label: string) => work.locator(`tbody tr:first-child td[data-label="${label}"]`);
        await busiest('Running')
          .getByText(/^[12]$/)
          .waitFor();
        await busiest('Steps/s')
          .getByText(/^[1-9]/)
          .waitFor();
        await busiest('Blocks in use')
          .getByText(/^[1-9]\d* of [1-9]/)
          .waitFor();
        isSeen = true;
        await Promise.all(asking);
        await busiest('Steps/s').getByText(/^0$/).waitFor();
        expect(await hindrances(page)).toEqual([]);
      } finally {
        await browser.close();
      }
    },
  );

  async function completeAlone(body: object): Promise<Completion> {
    const response = await fetch(`${alone.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return (await response.json()) as Completion;
  }
});
