// A fleet on one machine with a real NATS server, one home for each node: for what happens to single processes. What needs
// machines of their own is in scripts/fleet-lab.js.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { ChunkReader, fromWire } from '../../src/fleet/wire.ts';
import { type NatsServer, startNats } from './nats-server.ts';
import { ServerHome, type ServerProcess, waitUntil } from './server-process.ts';

interface NodeOptions {
  /** Of the NATS server. */
  readonly user?: string;
  readonly environment?: NodeJS.ProcessEnv;
  readonly database?: string;
}

interface Denied {
  readonly publish?: readonly string[];
  readonly subscribe?: readonly string[];
}

/** As a server's configuration has it: nothing else is allowed. */
type Allowed = string;

export class SmallFleet {
  readonly #folder = mkdtempSync(join(tmpdir(), 'chairlift-fleet-'));
  readonly #homes: ServerHome[] = [];
  #nats: NatsServer | undefined;
  #listener: NatsConnection | undefined;

  /** What users of NATS may do. The user `all` may do everything; passwords are the names. */
  static async start(given: Readonly<Record<string, Denied | Allowed>> = {}): Promise<SmallFleet> {
    const fleet = new SmallFleet();
    const deny = (subjects: readonly string[] = []) => `{ deny: ${JSON.stringify(subjects)} }`;
    const permissionsOf = (limits: Denied | Allowed) =>
      typeof limits === 'string'
        ? limits
        : `permissions: { publish: ${deny(limits.publish)}, subscribe: ${deny(limits.subscribe)} }`;
    const users = Object.entries({ ...given, all: {} }).map(
      ([user, limits]) => `{ user: ${user}, password: ${user}, ${permissionsOf(limits)} }`,
    );
    fleet.#nats = await startNats(
      fleet.#folder,
      `jetstream { store_dir: "${join(fleet.#folder, 'jetstream')}" }`,
      `authorization { users: [${users.join(', ')}] }`,
    );
    fleet.#listener = await connect({ port: fleet.nats.port, user: 'all', pass: 'all' });
    return fleet;
  }

  get nats(): NatsServer {
    return this.#nats as NatsServer;
  }

  /** How many messages come on these subjects from now on. */
  count(subject: string): () => number {
    let messages = 0;
    this.#listener?.subscribe(subject, {
      callback: () => {
        messages += 1;
      },
    });
    return () => messages;
  }

  /** Every message on these subjects from now on, as nodes read it. */
  listen(subject: string, listener: (message: unknown) => void): void {
    const chunks = new ChunkReader();
    this.#listener?.subscribe(subject, {
      callback: (_, { data }) => {
        const whole = chunks.take(data);
        if (whole !== undefined) listener(fromWire(whole));
      },
    });
  }

  /** In a database that nodes share. */
  createKey(database: string, name: string, ...flags: string[]): string {
    const home = new ServerHome(database);
    this.#homes.push(home);
    return home.createKey(name, 'normal', ...flags);
  }

  worker(node: string, options: NodeOptions = {}, ...flags: string[]): Promise<ServerProcess> {
    return this.#start(node, options, '--worker', '--threads', '1', ...flags);
  }

  /** Resolves when it is ready: it knows a worker. */
  async gateway(node: string, options: NodeOptions = {}): Promise<ServerProcess> {
    const gateway = await this.#start(node, options, '--gateway');
    await waitUntil(async () => (await fetch(`${gateway.url}/ready`)).ok);
    return gateway;
  }

  /** Resolves when the gateway has heard that these workers have loaded their model. */
  async knows({ url }: ServerProcess, ...workers: readonly string[]): Promise<void> {
    await waitUntil(async () => {
      const { nodes } = (await (await fetch(`${url}/admin/fleet`)).json()) as {
        nodes: { node: string; models: { state: string }[] }[];
      };
      const ready = nodes.filter(({ models }) => models.some(({ state }) => state === 'loaded'));
      return workers.every((worker) => ready.some(({ node }) => node === worker));
    });
  }

  /** Begins a stream of a chat, or comes back to one, from its beginning, where no body is given. */
  async open(url: string, id: string, body?: object, key?: string): Promise<Response> {
    return fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-request-id': id,
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? { 'last-event-id': '0' } : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify({ ...body, stream: true }) }),
    });
  }

  /** The text of a stream that was begun before, from its beginning. */
  async resume(url: string, id: string): Promise<string> {
    return contentOf(await (await this.open(url, id)).text());
  }

  async stop(): Promise<void> {
    await Promise.all(this.#homes.map((home) => home.close()));
    await this.#listener?.close();
    await this.#nats?.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #start(node: string, { user = 'all', environment, database }: NodeOptions, ...flags: string[]) {
    const home = new ServerHome(database);
    this.#homes.push(home);
    home.environment = { ...environment, CHAIRLIFT_NATS_PASSWORD: user };
    const address = `nats://127.0.0.1:${this.nats.port}`;
    return home.start('--join', address, '--nats-user', user, '--node', node, ...flags);
  }
}

/** The text of a chat's events. */
export function contentOf(events: string): string {
  return [...events.matchAll(/^data: (\{.*)$/gm)]
    .map(([, data]) => JSON.parse(data as string) as { choices?: { delta: { content?: string } }[] })
    .map(({ choices }) => choices?.[0]?.delta.content ?? '')
    .join('');
}
