// A worker whose KV blocks go to the memory of its machine, over a real NATS server: the gateway knows what lies there.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ToWorker } from '../../src/fleet/messages.ts';
import { eventually } from '../support/eventually.ts';
import { fleetCompletion } from '../support/fleet-completion.ts';
import { hasAddon } from '../support/native.ts';
import { natsRefusal } from '../support/nats-server.ts';
import type { ServerProcess } from '../support/server-process.ts';
import { SmallFleet } from '../support/small-fleet.ts';

const refusal = natsRefusal() ?? (hasAddon ? undefined : 'the addon is not built');
const because = refusal === undefined ? '' : ` (${refusal})`;

describe.skipIf(refusal !== undefined)(`what left a worker’s memory${because}`, () => {
  let fleet: SmallFleet;
  let gateway: ServerProcess;
  const expected: NonNullable<Extract<ToWorker, { kind: 'submit' }>['expected']>[] = [];

  beforeAll(async () => {
    fleet = await SmallFleet.start();
    fleet.listen('chairlift.main.work.w', (message) => {
      const work = message as ToWorker;
      if (work.kind === 'submit' && work.expected !== undefined) expected.push(work.expected);
    });
    // Room for two of the prompts below.
    await fleet.worker('w', {}, '--cache-host-size', '64m', '--kv-blocks', '24');
    gateway = await fleet.gateway('g');
    await fleet.knows(gateway, 'w');
  });

  afterAll(() => fleet?.stop());

  const ask = (name: string) =>
    fleetCompletion(gateway.url, `${name} walked over the hill and looked at the lake. `.repeat(20));

  it('is expected in the memory of its machine, and comes up from there with the same answer', async () => {
    const first = await ask('Milo');
    for (const name of ['Anna', 'Bert', 'Cleo', 'Dora']) await ask(name);
    // What was evicted is told a quarter of a second later.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    const again = await ask('Milo');
    expect(again.choices[0]?.text).toBe(first.choices[0]?.text);
    const { memory, host, disk } = expected.at(-1) ?? {};
    expect([disk, host]).toEqual([0, expect.any(Number)]);
    expect(host).toBeGreaterThanOrEqual(32);
    expect(again.usage.prompt_tokens_details.cached_tokens).toBe((memory ?? 0) + (host ?? 0));
    await eventually(async () => {
      const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
      expect(metrics).toContain(`chairlift_fleet_expected_prefix_tokens_total{tier="host"} ${host}`);
    });
  });
});
