// A gateway that is cut off from NATS. In a file of its own: the minute that requests wait goes by while others run.

import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { natsRefusal } from '../support/nats-server.ts';
import { SmallFleet } from '../support/small-fleet.ts';

const refusal = natsRefusal();

const bodyOf = (maxTokens: number) => ({
  messages: [{ role: 'user', content: 'Tell me a story about a fox.' }],
  temperature: 0,
  max_tokens: maxTokens,
  ignore_eos: true,
});

const title = `a node${refusal === undefined ? '' : ` (${refusal})`}`;

describe.skipIf(refusal !== undefined)(title, () => {
  it('that is cut off from NATS takes no new requests, and fails those that have begun after a minute', async () => {
    const fleet = await SmallFleet.start();
    try {
      await fleet.worker('w1');
      const gateway = await fleet.gateway('g');
      const begun = await fleet.open(gateway.url, 'begun', bodyOf(4000));
      expect(begun.status).toBe(200);
      await sleep(1000);
      const cutMs = performance.now();
      await fleet.nats.stop();
      const late = await fleet.open(gateway.url, 'late', bodyOf(4));
      expect([late.status, late.headers.get('retry-after')]).toEqual([503, '5']);
      expect(await late.json()).toMatchObject({ error: { code: 'no_worker' } });
      expect(performance.now() - cutMs).toBeLessThan(30_000);
      expect(await begun.text()).toMatch(/"code":"no_worker"/);
      expect(performance.now() - cutMs).toBeGreaterThan(55_000);
      expect(performance.now() - cutMs).toBeLessThan(100_000);
    } finally {
      await fleet.stop();
    }
  });
});
