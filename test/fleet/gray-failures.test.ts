// Nodes that are neither well nor dead: held up, deaf, hung, or with a wrong clock. Requests go on beside them.

import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { askFleet } from '../support/fleet-client.ts';
import { natsRefusal } from '../support/nats-server.ts';
import type { ServerProcess } from '../support/server-process.ts';
import { SmallFleet } from '../support/small-fleet.ts';

const refusal = natsRefusal();
const LIMIT_MS = 120_000;

const bodyOf = (i: number, maxTokens: number) => ({
  messages: [{ role: 'user', content: `Tell me a story about animal number ${i}.` }],
  temperature: 0,
  max_tokens: maxTokens,
  ignore_eos: true,
});

const logged = ({ log }: ServerProcess, text: string) => log().split(text).length - 1;

describe.skipIf(refusal !== undefined)(`a node${refusal === undefined ? '' : ` (${refusal})`}`, () => {
  let fleet: SmallFleet;
  afterEach(() => fleet?.stop());

  it('that was held up takes nobody for dead, and moves no request', async () => {
    fleet = await SmallFleet.start();
    for (const name of ['w1', 'w2']) await fleet.worker(name);
    const gateway = await fleet.gateway('g');
    const client = { gateways: [gateway.url], limitMs: LIMIT_MS };
    const sent = fleet.count('chairlift.main.work.>');
    const answers = Promise.all(
      Array.from({ length: 8 }, (_, i) => askFleet(client, `held-${i}`, bodyOf(i, 600))),
    );
    await sleep(1500);
    gateway.signal('SIGSTOP');
    await sleep(4500);
    gateway.signal('SIGCONT');
    expect((await answers).map(({ returns }) => returns)).toEqual(Array(8).fill(0));
    expect(logged(gateway, 'has left the fleet')).toBe(0);
    // A submission and a settlement each, and what had to be asked for again.
    expect(sent()).toBeLessThan(64);
  });
});
