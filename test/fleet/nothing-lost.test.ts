// A fleet of three workers and two gateways on machines of their own, while one after the other is struck: every answer is what
// the same request gives alone, none is lost and none is doubled.

import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FleetLab, labRefusal } from '../../scripts/fleet-lab.js';
import { askFleet, type FleetAnswer } from '../support/fleet-client.ts';
import { ServerHome, type ServerProcess } from '../support/server-process.ts';

const STREAMS = 64;
const TOKENS = 160;
const LIMIT_MS = 150_000;

const refusal = labRefusal();
const workers = ['worker1', 'worker2', 'worker3'];
const gateways = ['gateway1', 'gateway2'];
const workerFlags = ['--worker', '--threads', '1'];
const gatewayFlags = ['--gateway', '--allow-anonymous'];

function bodyOf(i: number) {
  return {
    messages: [{ role: 'user', content: `Tell me a story about animal number ${i}.` }],
    temperature: i % 2 === 0 ? 0 : 0.9,
    seed: i,
    max_tokens: TOKENS,
    ignore_eos: true,
  };
}

describe.skipIf(refusal !== undefined)(`a fleet${refusal === undefined ? '' : ` (${refusal})`}`, () => {
  let lab: FleetLab;
  let home: ServerHome;
  let alone: ServerProcess;

  beforeAll(async () => {
    lab = new FleetLab();
    await lab.startNats();
    home = new ServerHome();
    alone = await home.start();
    for (const name of workers) await lab.startNode(name, ...workerFlags);
    for (const name of gateways) await lab.startNode(name, ...gatewayFlags);
  });

  afterAll(async () => {
    await alone?.stop();
    home?.remove();
    await lab?.stop();
  });

  const client = () => ({ gateways: gateways.map((name) => lab.url(name)), limitMs: LIMIT_MS });

  async function same(answers: readonly FleetAnswer[]): Promise<void> {
    for (const [i, { text, usage }] of answers.entries()) {
      const own = await askFleet({ gateways: [alone.url], limitMs: LIMIT_MS }, `alone-${i}`, bodyOf(i));
      expect(text, `answer ${i}`).toBe(own.text);
      expect(usage).toMatchObject({
        prompt_tokens: own.usage?.prompt_tokens,
        completion_tokens: own.usage?.completion_tokens,
      });
    }
  }

  it('loses no answer and doubles none while machines are killed and cut off', {
    timeout: 400_000,
  }, async () => {
    const answers = Array.from({ length: STREAMS }, (_, i) =>
      askFleet(client(), `struck-${i}`, bodyOf(i), i),
    );
    await sleep(2000);
    await lab.kill('worker1');
    await sleep(1500);
    lab.cut('worker2');
    await sleep(1500);
    await lab.kill('gateway1');
    const back = lab.runNode('worker1', ...workerFlags);
    await lab.kill('nats2');
    await sleep(2000);
    lab.runNats('nats2');
    await back;
    await lab.runNode('gateway1', ...gatewayFlags);
    await sleep(10_000);
    lab.mend('worker2');
    await same(await Promise.all(answers));
  });
});
