// From the configuration to a node of a fleet. What only fleets need is loaded where one is joined.

import { readFileSync } from 'node:fs';
import { homedir, hostname } from 'node:os';
import { join } from 'node:path';
import type { NodeConnectionOptions } from '@nats-io/transport-node';
import type { Logger } from 'pino';
import { type Config, ConfigError } from '../config.ts';
import { messageOf } from '../failure/message-of.ts';
import type { JoinedNode } from '../fleet/join.ts';
import type { NatsBus } from '../fleet/nats-bus.ts';
import type { ModelPool } from '../pool/model-pool.ts';
import type { KeptRequest, RequestArchive } from '../server/resumption.ts';
import { chosenFormats, chosenTemplates } from './pool-settings.ts';

/** Other bits come out of the same model where this differs: raised whenever a kernel's arithmetic changes. */
const ARITHMETIC = 1;
/** Where only memory limits how many run at once. */
const MOST_RUNNING = 256;

export interface FleetRoles {
  readonly worker: boolean;
  readonly gateway: boolean;
}

/** Both where nobody says. */
export function rolesOf({ join: servers, worker, gateway }: Config): FleetRoles {
  if (servers.length === 0 && (worker || gateway)) {
    throw new ConfigError(`--${worker ? 'worker' : 'gateway'}: needs --join, the fleet to be part of`);
  }
  return { worker: worker || !gateway, gateway: gateway || !worker };
}

export interface JoinedFleet extends Omit<JoinedNode, 'requests'> {
  /** Requests whose clients may come back by any gateway. */
  readonly archive: RequestArchive | undefined;
}

/** `own`: the models of this machine, where it is a worker. */
export async function joinFleet(
  config: Config,
  { gateway }: FleetRoles,
  own: ModelPool | undefined,
  version: string,
  logger: Logger,
): Promise<JoinedFleet> {
  const { fleet, kvType } = config;
  if (!/^[\w-]{1,64}$/.test(fleet)) throw new ConfigError('--fleet: has letters, digits, - and _ alone');
  const { FleetArchive, joinFleet: joined, connection } = await fleetParts(config);
  const templateOf = chosenTemplates(config);
  const formatOf = chosenFormats(config);
  const determinism = (computedBy: string) => `${computedBy} ${kvType} ${ARITHMETIC}`;
  try {
    const { requests, ...node } = await joined({
      connection,
      refusal: (bus) => strangersRefusal(config, bus),
      fleet,
      node: nodeName(config),
      version,
      folder: join(homedir(), '.chairlift', 'fleet'),
      worker: own && { pool: own, determinism, maxRunning: config.maxBatchSize ?? MOST_RUNNING },
      gateway: gateway
        ? { textOf: (name) => ({ chatTemplate: templateOf(name), toolFormat: formatOf(name) }) }
        : undefined,
      onProblem: (message) => logger.warn({ fleet }, message),
    });
    node.membership.onChange((change, { node: name, roles }) =>
      logger.info({ node: name, roles }, `a node has ${change} the fleet`),
    );
    return { ...node, archive: requests && new FleetArchive<KeptRequest>(requests) };
  } catch (error) {
    throw new ConfigError(`--join: ${config.join.join(', ')} cannot be joined: ${messageOf(error)}`);
  }
}

async function fleetParts(config: Config) {
  try {
    const [fleet, archive, connection] = await Promise.all([
      import('../fleet/join.ts'),
      import('../fleet/gateway/request-archive.ts'),
      connectionOptions(config),
    ]);
    return { ...fleet, ...archive, connection };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const packages = ['transport-node', 'jetstream', 'kv'].map((name) => `@nats-io/${name}`).join(' ');
    throw new ConfigError(
      `--join: needs packages that are not installed: npm install ${packages} @msgpack/msgpack`,
    );
  }
}

/** Part of a subject: it has no dots. */
function nodeName({ node }: Config): string {
  if (node !== undefined && !/^[\w-]{1,64}$/.test(node)) {
    throw new ConfigError('--node: has letters, digits, - and _ alone');
  }
  return (node ?? hostname()).replaceAll(/[^\w-]/g, '-').slice(0, 64);
}

/** Whoever may speak on the message system may use every model, and answer in their place. */
function strangersRefusal({ allowAnonymous }: Config, { connection }: NatsBus): string | undefined {
  const { info } = connection;
  const host = connection.getServer().replace(/:\d+$/, '');
  const isLocal = host === 'localhost' || host === '[::1]' || host.startsWith('127.');
  if (allowAnonymous || isLocal || info?.auth_required === true || info?.tls_verify === true)
    return undefined;
  return `${host} asks for no credentials, so that anyone who reaches it could use the models: give it accounts, or say --allow-anonymous`;
}

async function connectionOptions(config: Config): Promise<NodeConnectionOptions> {
  const { credsAuthenticator, nkeyAuthenticator } = await import('@nats-io/transport-node');
  const { natsUser, natsPassword, natsToken, natsCredentials, natsNkey, natsCa, natsCert, natsKey } = config;
  const authenticators = [
    ...(natsCredentials === undefined
      ? []
      : [credsAuthenticator(readSecret('--nats-credentials', natsCredentials))]),
    ...(natsNkey === undefined ? [] : [nkeyAuthenticator(readSecret('--nats-nkey', natsNkey))]),
  ];
  const tls = {
    ...(natsCa === undefined ? {} : { caFile: natsCa }),
    ...(natsCert === undefined ? {} : { certFile: natsCert }),
    ...(natsKey === undefined ? {} : { keyFile: natsKey }),
  };
  return {
    name: `chairlift ${nodeName(config)}`,
    servers: config.join.map(addressOf),
    ...(natsUser === undefined ? {} : { user: natsUser, pass: natsPassword ?? '' }),
    ...(natsToken === undefined ? {} : { token: natsToken }),
    ...(authenticators.length === 0 ? {} : { authenticator: authenticators }),
    ...(Object.keys(tls).length > 0 || config.join.some((url) => url.startsWith('tls:')) ? { tls } : {}),
  };
}

function addressOf(url: string): string {
  if (/^[a-z]+:\/\/[^/@]*@/.test(url)) {
    throw new ConfigError('--join: names no password: give it with --nats-user and CHAIRLIFT_NATS_PASSWORD');
  }
  return url;
}

function readSecret(flag: string, path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new ConfigError(`${flag}: ${messageOf(error)}`);
  }
}
