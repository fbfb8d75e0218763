// What gateways keep of requests in a real NATS: sealed or in memory, never on disks in clear text; in parts where it is large;
// and there again after the bucket, or the server with its only copy, was lost.

import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jetstream } from '@nats-io/jetstream';
import { Kvm } from '@nats-io/kv';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { type Bucket, openBucket } from '../../src/fleet/bucket.ts';
import type { NatsBus } from '../../src/fleet/nats-bus.ts';
import { FleetArchive, KEEP_MS } from '../../src/fleet/request-archive.ts';
import { nodeClock } from '../../src/runtime/clock.ts';
import type { KeptRequest } from '../../src/server/context.ts';
import { type Given, gatewayOf, type Log, linkOf } from '../support/fleet-link.ts';
import { type NatsServer, natsRefusal, startNats } from '../support/nats-server.ts';
import { waitUntil } from '../support/server-process.ts';

const refusal = natsRefusal();
const folder = mkdtempSync(join(tmpdir(), 'chairlift-archive-'));
const endings: (() => unknown)[] = [];
const SECRET = 'a secret that is longer than others';
const PROMPT = 'the-prompt-that-nobody-else-may-read';
const BUCKET = 'chairlift-main-requests';
const surroundings = { clock: nodeClock, randomBytes, onProblem: expect.unreachable };
const STREAM = `KV_${BUCKET}`;

afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function requestOf(id: string, body = PROMPT): KeptRequest {
  return {
    id,
    keyId: 'key-1',
    route: '/r',
    body,
    answerId: 'a',
    seed: 1,
    arrivedMs: 1,
  } as unknown as KeptRequest;
}

async function server(name: string): Promise<{ join: string; store: string }> {
  const store = join(folder, name);
  const started = await startNats(folder, `jetstream { store_dir: "${store}" }`);
  endings.push(() => started.stop());
  return { join: `nats://127.0.0.1:${started.port}`, store };
}

async function gateway(given: Given, log: Log = []) {
  const joined = await gatewayOf(given, log);
  endings.push(() => joined.close(0));
  return joined;
}

async function link(given: Given): Promise<NatsBus> {
  const bus = await linkOf(given);
  endings.push(() => bus.close());
  return bus;
}

function filesIn(path: string): string[] {
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .map((name) => join(path, name))
    .filter((file) => statSync(file).isFile());
}

/** What the server has in its files, and what anybody with its credentials can read. */
async function exposed(bus: NatsBus, store: string): Promise<{ disk: boolean; bucket: boolean }> {
  const values = await new Kvm(jetstream(bus.connection)).open(BUCKET);
  const read: string[] = [];
  for await (const key of await values.keys()) read.push((await values.get(key))?.string() ?? '');
  expect(read.length).toBeGreaterThan(0);
  const written = filesIn(store).map((file) => readFileSync(file, 'latin1'));
  const has = (texts: string[]) => texts.some((text) => text.includes(PROMPT));
  return { disk: has(written), bucket: has(read) };
}

describe.skipIf(refusal !== undefined)(
  `what is kept of requests${refusal === undefined ? '' : ` (${refusal})`}`,
  () => {
    it('is in memory by default, and on no disk, also where an earlier version left a bucket there', async () => {
      const { join: address, store } = await server('default');
      const bus = await link({ join: address });
      await new Kvm(jetstream(bus.connection)).create(BUCKET, { history: 1 });
      const [one, other] = [
        await gateway({ join: address, node: 'g1' }),
        await gateway({ join: address, node: 'g2' }),
      ];
      await one.archive?.keep(requestOf('r1'));
      expect(await other.archive?.find('key-1', 'r1')).toEqual(requestOf('r1'));
      expect(await exposed(bus, store)).toEqual({ disk: false, bucket: true });
    });

    it('is sealed for gateways alone where they have a key, in memory and on disks', async () => {
      for (const archive of ['memory', 'file']) {
        const { join: address, store } = await server(`sealed-${archive}`);
        const log: Log = [];
        const given = { join: address, archive, archiveKey: SECRET };
        const one = await gateway({ ...given, node: 'g1' });
        const other = await gateway({ ...given, node: 'g2' });
        const stranger = await gateway({ ...given, node: 'g3', archiveKey: `${SECRET}!` }, log);
        await one.archive?.keep(requestOf('r1'));
        expect(await other.archive?.find('key-1', 'r1')).toEqual(requestOf('r1'));
        expect(await stranger.archive?.find('key-1', 'r1')).toBeUndefined();
        expect(log.join('\n')).toContain('the same --archive-key');
        const bus = await link({ join: address });
        expect(await exposed(bus, store)).toEqual({ disk: false, bucket: false });
      }
    });

    it('cannot be on disks without a key, and is nothing where it is switched off', async () => {
      const { join: address } = await server('off');
      await expect(gatewayOf({ join: address, archive: 'file' })).rejects.toThrow(/CHAIRLIFT_ARCHIVE_KEY/);
      await expect(gatewayOf({ join: address, archiveKey: 'short' })).rejects.toThrow(/openssl rand/);
      expect((await gateway({ join: address, archive: 'off', node: 'g' })).archive).toBeUndefined();
      const bus = await link({ join: address });
      const manager = await jetstream(bus.connection).jetstreamManager();
      await expect(manager.streams.info(STREAM)).rejects.toThrow('stream not found');
    });

    it('has the size of the settings, also where it was another', async () => {
      const { join: address } = await server('size');
      const bus = await link({ join: address });
      const manager = await jetstream(bus.connection).jetstreamManager();
      for (const mib of [4, 64]) {
        const joined = await gatewayOf({ join: address, archiveBytes: `${mib}MiB`, node: `g${mib}` });
        expect((await manager.streams.info(STREAM)).config.max_bytes).toBe(mib * 2 ** 20);
        await joined.close(0);
      }
    });

    it('may be larger than a message', async () => {
      const { join: address } = await server('large');
      const { archive } = await gateway({ join: address, archiveKey: SECRET, node: 'g' });
      for (const bytes of [2 ** 20 - 2000, 1_500_000, 8 * 2 ** 20]) {
        const request = requestOf(`r${bytes}`, 'x'.repeat(bytes));
        await archive?.keep(request);
        await archive?.keep(request);
        const found = await archive?.find('key-1', request.id);
        expect(found?.body.length).toBe(bytes);
        expect(found).toEqual(request);
      }
    });

    it('has a large body written once, though what is counted of its answer comes later', async () => {
      const { join: address } = await server('once');
      const one = await gateway({ join: address, archiveKey: SECRET, node: 'g1' });
      const other = await gateway({ join: address, archiveKey: SECRET, node: 'g2' });
      const bus = await link({ join: address });
      const manager = await jetstream(bus.connection).jetstreamManager();
      const bytes = async () => (await manager.streams.info(STREAM)).state.bytes;
      const request = requestOf('r1', 'x'.repeat(3 * 2 ** 20));
      await one.archive?.keep(request);
      const before = await bytes();
      expect(before).toBeGreaterThan(3 * 2 ** 20);
      const counted = { promptTokens: 5, cachedTokens: 1, completionTokens: 2 };
      await one.archive?.keep({ ...request, counted });
      expect((await bytes()) - before).toBeLessThan(4096);
      expect(await other.archive?.find('key-1', 'r1')).toEqual({ ...request, counted });
      // Another request by the same id has its own.
      const another = requestOf('r1', 'y'.repeat(2 ** 20));
      await one.archive?.keep(another);
      expect(await other.archive?.find('key-1', 'r1')).toEqual(another);
    });

    it('is kept again at once where the bucket was deleted', async () => {
      const { join: address } = await server('deleted');
      const log: Log = [];
      const { archive } = await gateway({ join: address, node: 'g' }, log);
      await archive?.keep(requestOf('r1'));
      const bus = await link({ join: address });
      await (await jetstream(bus.connection).jetstreamManager()).streams.delete(STREAM);
      expect(await archive?.find('key-1', 'r1').catch(() => undefined)).toBeUndefined();
      await archive?.keep(requestOf('r2'));
      expect(await archive?.find('key-1', 'r2')).toEqual(requestOf('r2'));
      expect(log.join('\n')).toContain('was deleted');
    });
  },
);

describe.skipIf(refusal !== undefined)('a bucket in a cluster of three', () => {
  const options = { storage: 'memory', ttlMs: KEEP_MS } as const;

  async function cluster(
    name: string,
  ): Promise<{ servers: NatsServer[]; stores: string[]; addresses: string }> {
    const first = 20_000 + Math.floor(Math.random() * 20_000);
    const routes = [0, 1, 2].map((i) => `"nats://127.0.0.1:${first + i}"`).join(', ');
    const servers = await Promise.all(
      [0, 1, 2].map((i) => {
        const store = join(folder, `${name}-${i}`);
        mkdirSync(store);
        return startNats(
          store,
          `server_name: ${name}${i}`,
          `jetstream { store_dir: "${store}" }`,
          `cluster { name: ${name}, listen: "127.0.0.1:${first + i}", routes: [${routes}] }`,
        );
      }),
    );
    endings.push(() => Promise.all(servers.map((one) => one.stop())));
    await waitUntil(() => servers.some((one) => one.log().includes('new metadata leader')));
    const stores = [0, 1, 2].map((i) => join(folder, `${name}-${i}`));
    return { servers, stores, addresses: servers.map(({ port }) => `nats://127.0.0.1:${port}`).join(',') };
  }

  /** One copy, as it is made while the cluster is incomplete. */
  async function singleCopy(bus: NatsBus) {
    await waitUntil(() =>
      new Kvm(jetstream(bus.connection))
        .create(BUCKET, { storage: 'memory', replicas: 1, ttl: KEEP_MS } as never)
        .then(
          () => true,
          () => false,
        ),
    );
    return jetstream(bus.connection).jetstreamManager();
  }

  it('gets its three copies though it was made with one', async () => {
    const { addresses, stores } = await cluster('raised');
    const bus = await link({ join: addresses });
    const manager = await singleCopy(bus);
    // On a busy machine the cluster may be silent for a while: that is a problem of the moment, and mended later.
    const bucket = (await openBucket(bus.connection, BUCKET, options, () => {}, 200)) as Bucket;
    endings.push(() => bucket.close());
    await waitUntil(async () => {
      const info = await manager.streams.info(STREAM).catch(() => undefined);
      const current = info?.cluster?.replicas?.filter((copy) => copy.current).length;
      return info?.config.num_replicas === 3 && current === 2;
    });
    const archive = new FleetArchive<KeptRequest>(bucket, undefined, surroundings);
    await waitUntil(async () => {
      const kept = archive.keep(requestOf('r1'));
      return kept.then(
        () => true,
        () => false,
      );
    });
    for (const store of stores) expect((await exposed(bus, store)).disk).toBe(false);
  });

  it('is made anew where the server with its only copy is lost', async () => {
    const { servers, addresses } = await cluster('lost');
    const bus = await link({ join: addresses });
    const manager = await singleCopy(bus);
    const problems: string[] = [];
    // Healed by hand, so that it is not raised before its server is gone.
    const bucket = (await openBucket(
      bus.connection,
      BUCKET,
      options,
      (message) => problems.push(message),
      3_600_000,
    )) as Bucket;
    endings.push(() => bucket.close());
    const holder = Number((await manager.streams.info(STREAM)).cluster?.leader?.slice(-1));
    await servers[holder]?.stop();
    const archive = new FleetArchive<KeptRequest>(bucket, SECRET, surroundings);
    await waitUntil(async () => {
      await archive.keep(requestOf('r1')).catch(() => {});
      return archive.find('key-1', 'r1').then(
        (found) => found !== undefined,
        () => false,
      );
    });
  });
});
