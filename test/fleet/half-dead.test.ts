// A small fleet over a real NATS server whose nodes are slow, half dead, away for a while or named alike: what a gateway says of
// itself and of its models stays true.

import { appendFileSync, copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FleetView } from '../../src/fleet/gateway/fleet-control.ts';
import { inputLine } from '../support/batch-server.ts';
import { FleetBatch } from '../support/fleet-batch.ts';
import { type NatsServer, natsRefusal, startNats } from '../support/nats-server.ts';
import { ServerHome, type ServerProcess, waitUntil } from '../support/server-process.ts';

const refusal = natsRefusal();
const embedded = new URL('../../models/chairlift-demo-14m-q8_0.gguf', import.meta.url);

describe.skipIf(refusal !== undefined)(
  `a fleet with nodes that are half dead${refusal === undefined ? '' : ` (${refusal})`}`,
  () => {
    const homes = {
      w1: new ServerHome(),
      w2: new ServerHome(),
      w3: new ServerHome(),
      g: new ServerHome(),
      pinned: new ServerHome(),
    };
    let nats: NatsServer;
    let flags: string[];
    let w1: ServerProcess;
    let w2: ServerProcess;
    let gateway: ServerProcess;

    /** Both have the same bytes: under a common name, and each under one of its own in a file of its own. */
    const startWorker = (node: 'w1' | 'w2') =>
      homes[node].start(
        ...[...flags, '--worker', '--node', node, '--threads', '1', '--memory', '4GiB'],
        ...['--model', `common=${homes[node].folder}/${node}.gguf`],
        ...['--model', `of-${node}=${homes[node].folder}/${node}.gguf`],
      );
    const startGateway = () => homes.g.start(...flags, '--gateway', '--node', 'g');

    beforeAll(async () => {
      const folder = join(homes.g.folder, 'nats');
      mkdirSync(folder);
      nats = await startNats(folder, `jetstream { store_dir: "${folder}" }`);
      flags = ['--join', `nats://127.0.0.1:${nats.port}`];
      for (const node of ['w1', 'w2'] as const)
        copyFileSync(embedded, join(homes[node].folder, `${node}.gguf`));
      [w1, w2, gateway] = await Promise.all([startWorker('w1'), startWorker('w2'), startGateway()]);
      await waitUntil(async () => (await ask('common')).ok && (await models()).length >= 3);
    });

    afterAll(async () => {
      await Promise.all([w1, w2, gateway].map((node) => node?.stop()));
      await nats?.stop();
      for (const home of Object.values(homes)) home.remove();
    });

    const ask = (model: string, at = gateway) =>
      fetch(`${at.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model, prompt: 'Once upon a time', max_tokens: 4, temperature: 0 }),
      });

    async function models(at = gateway): Promise<{ id: string; state: string }[]> {
      const response = await fetch(`${at.url}/v1/models`);
      return ((await response.json()) as { data: { id: string; state: string }[] }).data;
    }
    const stateOf = async (name: string, at = gateway) =>
      (await models(at)).find(({ id }) => id === name)?.state;

    it('is ready while one worker’s engine is stopped and the other is well, at every probe', async () => {
      const pid = w1.enginePid();
      process.kill(pid, 'SIGSTOP');
      try {
        const statuses: number[] = [];
        for (let i = 0; i < 16; i++) {
          const probes = await Promise.all(['/ready', '/health'].map((path) => fetch(gateway.url + path)));
          statuses.push(...probes.map(({ status }) => status));
          expect(await probes[1]?.json()).toMatchObject({ status: 'ok' });
          await sleep(250);
        }
        expect(new Set(statuses)).toEqual(new Set([200]));
        const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
        expect(metrics).toContain('chairlift_engine_up{model="common"} 1');
      } finally {
        process.kill(pid, 'SIGCONT');
      }
    });

    it('serves the same bytes under every name they have, also after the gateway is started again', async () => {
      const answers = async () =>
        Promise.all(
          ['common', 'of-w1', 'of-w2'].map(async (model) => {
            const response = await ask(model);
            const { choices } = (await response.json()) as { choices?: [{ text: string }] };
            return [response.status, choices?.[0].text];
          }),
        );
      const first = await answers();
      expect(first).toEqual([first[0], first[0], first[0]]);
      expect(first[0]?.[0]).toBe(200);
      await gateway.stop();
      gateway = await startGateway();
      expect(await answers()).toEqual(first);
    });

    it('does not let a second node of a name start, and names nodes of one machine apart by itself', async () => {
      const twin = homes.w3.start(...flags, '--worker', '--node', 'w1');
      await expect(twin).rejects.toThrow(
        new RegExp(`a node named w1 is in the fleet already, process ${w1.pid} on`),
      );
      await expect(twin).rejects.not.toThrow(/model loading/);
      const unnamed = await Promise.all([
        homes.w3.start(...flags, '--worker', '--threads', '1'),
        homes.pinned.start(...flags, '--gateway'),
      ]);
      const names = async () => {
        const { nodes } = (await (await fetch(`${gateway.url}/admin/fleet`)).json()) as FleetView;
        return nodes.map(({ node }) => node);
      };
      await waitUntil(async () => (await names()).length === 5);
      expect(await names()).toEqual(
        expect.arrayContaining([expect.stringMatching(/-worker$/), expect.stringMatching(/-gateway-\d+$/)]),
      );
      const prints = [gateway, unnamed[1]].map(async (at) => {
        const answer = (await (await ask('of-w1', at)).json()) as { system_fingerprint: string };
        return answer.system_fingerprint;
      });
      expect(await prints[1]).toBe(await prints[0]);
      await Promise.all(unnamed.map((node) => node.stop()));
    });

    it('leaves a drained worker drained when it starts again, until it is resumed', async () => {
      const drain = async (on: boolean) => {
        const response = await fetch(`${gateway.url}/admin/fleet/drain`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ node: 'w2', on }),
        });
        expect(await response.json()).toEqual({ ok: true });
      };
      const status = async () => {
        const { nodes } = (await (await fetch(`${gateway.url}/admin/fleet`)).json()) as FleetView;
        return nodes.find(({ node }) => node === 'w2');
      };
      await waitUntil(async () => (await status())?.draining === false);
      await drain(true);
      const { start } = (await status()) as { start: string };
      await w2.stop();
      const view = (await (await fetch(`${gateway.url}/admin/fleet`)).json()) as FleetView;
      expect(view.drained).toEqual(['w2']);
      w2 = await startWorker('w2');
      await waitUntil(async () => ![undefined, start].includes((await status())?.start));
      // More statuses than its first.
      await sleep(2000);
      expect((await status())?.draining).toBe(true);
      await drain(false);
      await waitUntil(async () => (await status())?.draining === false);
    });

    it('warns of another file by a name that is taken, counts it, and pins the right one', async () => {
      const metric = async (name: string, at = gateway) =>
        Number(
          new RegExp(`^chairlift_fleet_${name} (\\S+)$`, 'm').exec(
            await (await fetch(`${at.url}/metrics`)).text(),
          )?.[1],
        );
      const contents = 'model_contents{model="common"}';
      expect(await metric(contents)).toBe(1);
      await waitUntil(async () => (await metric('members{role="worker",state="serving"}')) === 2);
      // A gateway of an earlier test may have its lease still.
      expect(await metric('oldest_status_seconds')).toBeLessThan(7);
      expect(await metric('archive_bytes')).toBeGreaterThanOrEqual(0);
      const { nodes } = (await (await fetch(`${gateway.url}/admin/fleet`)).json()) as FleetView;
      const key = nodes.find(({ node }) => node === 'w1')?.models[0]?.key.slice(0, 12);
      copyFileSync(embedded, join(homes.w3.folder, 'other.gguf'));
      appendFileSync(join(homes.w3.folder, 'other.gguf'), 'another file');
      const w3 = await homes.w3.start(
        ...[...flags, '--worker', '--node', 'w3', '--threads', '1', '--memory', '4GiB'],
        ...['--model', `common=${homes.w3.folder}/other.gguf`],
      );
      const pinned = await homes.pinned.start(
        ...[...flags, '--gateway', '--node', 'pinned', '--model-content', `common=${key}`],
      );
      try {
        await waitUntil(async () => (await metric(contents)) === 2 && (await metric(contents, pinned)) === 2);
        expect(gateway.log()).toMatch(/different files by the name common/);
        await Promise.all([w1.stop(), w2.stop()]);
        await waitUntil(async () => (await metric(contents, pinned)) === 1);
        // The other file answers where none is pinned, and nowhere else.
        await waitUntil(async () => (await stateOf('common', pinned)) === 'away');
        expect(await stateOf('common')).toBe('loaded');
      } finally {
        await Promise.all([w3.stop(), pinned.stop()]);
        [w1, w2] = await Promise.all([startWorker('w1'), startWorker('w2')]);
      }
    });

    it('asks clients to come back for a model whose worker is away, and lets batches wait for it', async () => {
      // They may have started again just now.
      for (const model of ['of-w1', 'of-w2']) await waitUntil(async () => (await ask(model)).ok);
      await w2.stop();
      await waitUntil(async () => (await stateOf('of-w2')) === 'away');
      const refused = await ask('of-w2');
      expect(refused.status).toBe(503);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(await refused.json()).toMatchObject({ error: { code: 'model_away' } });
      expect((await ask('never-heard-of')).status).toBe(404);
      expect((await fetch(`${gateway.url}/ready`)).status).toBe(200);
      const line = inputLine('one', { model: 'of-w2', prompt: 'Once', max_tokens: 2 }, '/v1/completions');
      const batch = await FleetBatch.begin([gateway.url], '', [line]);
      await batch.until(({ status }) => status === 'in_progress', 30_000);
      w2 = await startWorker('w2');
      const ended = await batch.until(({ status }) => status !== 'in_progress', 60_000);
      expect(ended).toMatchObject({ request_counts: { total: 1, completed: 1, failed: 0 } });
    });
  },
);
