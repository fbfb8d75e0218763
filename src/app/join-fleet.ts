// From the configuration to a node of a fleet. What only fleets need is loaded on joining one.

import { randomBytes } from 'node:crypto';
import { homedir, hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { NatsConnection, NodeConnectionOptions } from '@nats-io/transport-node';
import type { Logger } from 'pino';
import { ARITHMETIC_VERSION } from '../compute/backend.ts';
import { type Config, ConfigError } from '../config.ts';
import type { JoinedNode } from '../fleet/join.ts';
import type { NatsBus } from '../fleet/nats-bus.ts';
import { canDecodePictures } from '../images/decode.ts';
import { PictureWorkers } from '../images/picture-workers.ts';
import { openLocalModel } from '../pool/local-model.ts';
import type { ModelPool } from '../pool/model-pool.ts';
import { nodeClock } from '../runtime/clock.ts';
import { machineLimits } from '../runtime/limits.ts';
import type { KeptRequest, RequestArchive } from '../server/context.ts';
import { isLoopback } from '../server/request/auth.ts';
import type { Tracer } from '../tracing/tracer.ts';
import { checkArchiveKey, requireArchiveKey } from './archive-settings.ts';
import { natsAccess, refuseWithoutServers } from './nats-access.ts';
import { isNobodyThere, natsProblem } from './nats-problem.ts';
import { chosenFormats, chosenTemplates, pinnedContents } from './pool-settings.ts';

/** Where only memory limits concurrency. */
const MOST_RUNNING = 256;
/** Of the machine's memory, for pictures of requests: their files at a gateway, what becomes of them at a worker; and its bounds. */
const PICTURE_SHARE = 1 / 8;
const LEAST_PICTURES = 2 ** 28;
const MOST_PICTURES = 2 ** 33;
/** The message system may start together with this node. */
const STARTUP_WAIT_MS = 30_000;
const RETRY_MS = 500;

export interface FleetRoles {
  readonly worker: boolean;
  readonly gateway: boolean;
}

/** Both unless the configuration says otherwise. */
export function rolesOf({ join: servers, worker, gateway }: Config): FleetRoles {
  if (servers.length === 0 && (worker || gateway)) {
    throw new ConfigError(`--${worker ? 'worker' : 'gateway'}: needs --join, the fleet to be part of`);
  }
  return { worker: worker || !gateway, gateway: gateway || !worker };
}

export interface JoinedFleet extends Omit<JoinedNode, 'requests'> {
  /** Requests whose clients may resume at any gateway. */
  readonly archive: RequestArchive | undefined;
}

/** A checked plan to join: settings are valid, and the packages are installed. */
export interface FleetPlan {
  readonly config: Config;
  readonly node: string;
  readonly connection: NodeConnectionOptions;
  readonly parts: FleetParts;
}

type FleetParts = Awaited<ReturnType<typeof fleetParts>>;

export async function planFleet(config: Config): Promise<FleetPlan | undefined> {
  if (config.join.length === 0) {
    refuseWithoutServers(config);
    return undefined;
  }
  if (!/^[\w-]{1,64}$/.test(config.fleet)) {
    throw new ConfigError('--fleet: has letters, digits, - and _ alone');
  }
  const node = nodeName(config);
  archiveOf(config);
  const parts = await fleetParts();
  return {
    config,
    node,
    connection: {
      ...(await natsAccess(config)),
      name: `chairlift ${node}`,
      inboxPrefix: new parts.Subjects(config.fleet).inbox(node),
    },
    parts,
  };
}

/** Waits for a server that is not there yet, but not for one that refuses. */
export async function connectFleet(
  { config, connection, parts }: FleetPlan,
  logger: Logger,
  patienceMs = STARTUP_WAIT_MS,
): Promise<NatsBus> {
  const { fleet } = config;
  const servers = config.join.join(', ');
  const endMs = performance.now() + patienceMs;
  for (let told = false; ; told = true) {
    try {
      return await parts.connectNats(connection, {
        refusal: (reached) => anonymousRefusal(config, reached),
        onProblem: (message) => logger.warn({ fleet }, message),
      });
    } catch (error) {
      const problem = natsProblem(error, config);
      if (!isNobodyThere(error) || performance.now() + RETRY_MS > endMs) {
        throw new ConfigError(`--join: ${servers} cannot be joined: ${problem}`);
      }
      if (!told) logger.warn({ fleet }, `waits for ${servers}: ${problem}`);
      await sleep(RETRY_MS);
    }
  }
}

/** Before models are loaded: two processes by one name would take each other's requests. */
export async function claimNodeName({ config, node, parts }: FleetPlan, bus: NatsBus): Promise<void> {
  const holder = await parts.claimName(bus, new parts.Subjects(config.fleet), node, randomBytes);
  if (holder === undefined) return;
  throw new ConfigError(
    `--node: a node named ${node} is in the fleet already, process ${holder.pid} on ${holder.host}: give this one another name with --node`,
  );
}

/** `own`: the models of this machine, for a worker. */
export async function joinFleet(
  { config, node: name, parts }: FleetPlan,
  bus: NatsBus,
  { gateway }: FleetRoles,
  own: ModelPool | undefined,
  version: string,
  logger: Logger,
  tracer?: Tracer,
): Promise<JoinedFleet> {
  const { fleet, kvType } = config;
  const templateOf = chosenTemplates(config);
  const formatOf = chosenFormats(config);
  const onProblem = (message: string) => logger.warn({ fleet }, message);
  const determinism = (computedBy: string) => `${computedBy} ${kvType} ${ARITHMETIC_VERSION}`;
  const folder = join(homedir(), '.chairlift', 'fleet');
  const keys = new parts.ModelKeys(join(folder, 'model-keys.json'));
  const pictures = own && (await pictureReading(config, own, onProblem));
  const { requests, close, ...node } = await parts.joinFleet({
    bus,
    openBucket: (bucket, limits) => parts.openBucket(bus.connection, bucket, limits, onProblem),
    readBucket: (bucket) => parts.openBucketReader(bus.connection, bucket, onProblem),
    clock: nodeClock,
    randomBytes,
    fleet,
    node: name,
    version,
    folder,
    worker: own && {
      ...{ pool: own, keys, determinism, tracer, pictures },
      maxRunning: config.maxBatchSize ?? MOST_RUNNING,
    },
    gateway: gateway
      ? {
          openText: ({ path, projectorPath }, model, sees) =>
            openLocalModel(path, {
              chatTemplate: templateOf(model),
              toolFormat: formatOf(model),
              images: sees && 'if-possible',
              projectorPath,
            }),
          pins: pinnedContents(config),
          archive: archiveOf(config),
          pictureBytes: pictureMemory(),
        }
      : undefined,
    onProblem,
  });
  node.membership.onChange((change, { node: other, roles }) =>
    logger.info({ node: other, roles }, `a node has ${change} the fleet`),
  );
  const surroundings = { clock: nodeClock, randomBytes, onProblem };
  const archive = requests && new parts.FleetArchive<KeptRequest>(requests, config.archiveKey, surroundings);
  return {
    ...node,
    archive,
    close: async (limitMs) => {
      await close(limitMs);
      await pictures?.reader.close();
    },
  };
}

function pictureMemory(): number {
  const share = Math.floor(PICTURE_SHARE * machineLimits().memoryBytes);
  return Math.max(LEAST_PICTURES, Math.min(share, MOST_PICTURES));
}

/** Undefined, and said where it matters, without what decodes them. */
async function pictureReading(
  { imageLimit: maxBytes, imagePixels: maxPixels, vision }: Config,
  pool: ModelPool,
  onProblem: (message: string) => void,
) {
  if (await canDecodePictures()) {
    return { reader: new PictureWorkers(), limits: { maxBytes, maxPixels }, roomBytes: pictureMemory() };
  }
  const seeing = vision ? pool.list().flatMap(({ name, sees }) => (sees ? [name] : [])) : [];
  if (seeing.length > 0) {
    onProblem(`reads no images for ${seeing.join(', ')}: they need the package sharp: npm install sharp`);
  }
  return undefined;
}

/** Prompts never lie on the message system's disks as they are. */
function archiveOf({ archive = 'memory', archiveBytes, archiveKey }: Config) {
  if (archive === 'off') return undefined;
  if (archive === 'file') requireArchiveKey(archiveKey);
  checkArchiveKey(archiveKey);
  return { storage: archive as 'memory' | 'file', maxBytes: archiveBytes };
}

async function fleetParts() {
  try {
    const [fleet, nats, bucket, keys, archive, name, bus] = await Promise.all([
      import('../fleet/join.ts'),
      import('../fleet/nats-bus.ts'),
      import('../fleet/bucket.ts'),
      import('../pool/model-keys.ts'),
      import('../fleet/request-archive.ts'),
      import('../fleet/node-name.ts'),
      import('../fleet/bus.ts'),
      // Imported here so that a missing package is reported early.
      import('@nats-io/transport-node'),
    ]);
    return { ...fleet, ...nats, ...bucket, ...keys, ...archive, ...name, ...bus };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const packages = ['transport-node', 'jetstream', 'kv'].map((name) => `@nats-io/${name}`).join(' ');
    throw new ConfigError(
      `--join: needs packages that are not installed: npm install ${packages} @msgpack/msgpack`,
    );
  }
}

/** Part of a subject: it has no dots. By default what tells nodes of one machine apart is in it, and stays over restarts. */
export function nodeName(config: Config): string {
  const { node, port, adminPort } = config;
  if (node !== undefined) {
    if (/^[\w-]{1,64}$/.test(node)) return node;
    throw new ConfigError('--node: has letters, digits, - and _ alone');
  }
  const { worker, gateway } = rolesOf(config);
  const role = worker && gateway ? 'node' : worker ? 'worker' : 'gateway';
  const own = gateway ? port : adminPort;
  // A free port is not known yet.
  const end = own === undefined ? role : `${role}-${own === 0 ? process.pid : own}`;
  return `${hostname()
    .replaceAll(/[^\w-]/g, '-')
    .slice(0, 40)}-${end}`;
}

/** Anyone who may publish on the message system may use every model, and answer in its place. */
function anonymousRefusal({ allowAnonymous }: Config, connection: NatsConnection): string | undefined {
  const { info } = connection;
  const host = connection
    .getServer()
    .replace(/:\d+$/, '')
    .replace(/^\[(.*)\]$/, '$1');
  const isLocal = host === 'localhost' || isLoopback(host);
  if (allowAnonymous || isLocal || info?.auth_required === true || info?.tls_verify === true)
    return undefined;
  return `${host} asks for no credentials, so that anyone who reaches it could use the models: give it accounts, or say --allow-anonymous`;
}
