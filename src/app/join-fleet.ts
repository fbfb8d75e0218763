// From the configuration to a node of a fleet: its connection, its worker over the pool of this machine, and the pool of all
// machines that its gateway serves from.

import { readFileSync } from 'node:fs';
import { homedir, hostname } from 'node:os';
import { join } from 'node:path';
import type { NodeConnectionOptions } from '@nats-io/transport-node';
import type { Logger } from 'pino';
import { type Config, ConfigError } from '../config.ts';
import { messageOf } from '../failure/message-of.ts';
import type { NatsBus } from '../fleet/nats-bus.ts';
import type { ModelPool } from '../pool/model-pool.ts';
import { chosenFormats, chosenTemplates } from './pool-settings.ts';

/** Other bits come out of the same model where this differs: raised whenever a kernel's arithmetic changes. */
const ARITHMETIC = 1;

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

export interface JoinedFleet {
  /** The models of all workers. Undefined where it is no gateway. */
  readonly pool: ModelPool | undefined;
  /** Takes nothing new from now on, and says so. */
  drain(): void;
  /** Lets its worker's requests end for so long, and gives the rest to others. */
  close(limitMs: number): Promise<void>;
}

/** `own`: the models of this machine, where it is a worker. */
export async function joinFleet(
  config: Config,
  roles: FleetRoles,
  own: ModelPool | undefined,
  version: string,
  logger: Logger,
): Promise<JoinedFleet> {
  const onProblem = (message: string) => logger.warn({ fleet: config.fleet }, message);
  const parts = await loadParts();
  if (!parts.isFleetName(config.fleet)) throw new ConfigError('--fleet: has letters, digits, - and _ alone');
  const node = nodeName(config);
  const bus = await connect(config, node, parts, onProblem);
  const subjects = new parts.Subjects(config.fleet);
  const nowMs = () => performance.now();
  const common = { node, bus, subjects, nowMs };
  const fleetNode = new parts.FleetNode({
    ...common,
    roles: [...(roles.worker ? (['worker'] as const) : []), ...(roles.gateway ? (['gateway'] as const) : [])],
    version,
    memoryBytes: own?.memoryBytes ?? 0,
    onProblem,
  });
  const { membership, start } = fleetNode;
  membership.onChange((change, status) =>
    logger.info({ node: status.node, roles: status.roles }, `a node has ${change} the fleet`),
  );
  const home = join(homedir(), '.chairlift', 'fleet');
  const worker =
    own === undefined ? undefined : new parts.FleetWorker({ ...common, start, membership, pool: own });
  if (own !== undefined && worker !== undefined) {
    const models = new parts.WorkerModels({
      pool: own,
      ledger: worker.ledger,
      keys: new parts.ModelKeys(join(home, 'model-keys.json')),
      determinism: (computedBy) => `${computedBy} ${config.kvType} ${ARITHMETIC}`,
      onProblem,
    });
    fleetNode.work(
      () => ({ draining: worker.draining, models: models.status() }),
      (question) => parts.answerQuestion(question, own, worker),
    );
  }
  const pool = roles.gateway
    ? gatewayPool(config, parts, { ...common, membership }, fleetNode, home)
    : undefined;
  fleetNode.tell();
  return {
    pool,
    drain: () => {
      if (worker !== undefined) worker.draining = true;
      fleetNode.tell();
    },
    close: async (limitMs) => {
      await worker?.close(limitMs);
      fleetNode.close();
      await bus.close();
    },
  };
}

type Parts = Awaited<ReturnType<typeof loadParts>>;

/** What only fleets need is loaded where one is joined. */
async function loadParts() {
  try {
    const [bus, node, subjects, worker, models, keys, questions, pool, dispatcher, choice] =
      await Promise.all([
        import('../fleet/nats-bus.ts'),
        import('../fleet/fleet-node.ts'),
        import('../fleet/subjects.ts'),
        import('../fleet/worker/fleet-worker.ts'),
        import('../fleet/worker/worker-models.ts'),
        import('../fleet/worker/model-key.ts'),
        import('../fleet/worker/answer-questions.ts'),
        import('../fleet/gateway/fleet-pool.ts'),
        import('../fleet/gateway/dispatcher.ts'),
        import('../fleet/gateway/least-loaded.ts'),
      ]);
    return {
      ...bus,
      ...node,
      ...subjects,
      ...worker,
      ...models,
      ...keys,
      ...questions,
      ...pool,
      ...dispatcher,
      ...choice,
    };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new ConfigError(
      '--join: needs packages that are not installed: npm install @nats-io/transport-node @msgpack/msgpack',
    );
  }
}

type Common = Omit<ConstructorParameters<Parts['Dispatcher']>[0], 'choice'>;

function gatewayPool(
  config: Config,
  { Dispatcher, FleetPool, LeastLoaded }: Parts,
  common: Common,
  node: InstanceType<Parts['FleetNode']>,
  home: string,
): ModelPool {
  const templateOf = chosenTemplates(config);
  const formatOf = chosenFormats(config);
  return new FleetPool({
    membership: common.membership,
    dispatcher: new Dispatcher({ ...common, choice: new LeastLoaded() }),
    ask: (name, question, timeoutMs) => node.ask(name, question, timeoutMs),
    folder: join(home, 'models'),
    textOf: (name) => ({ chatTemplate: templateOf(name), toolFormat: formatOf(name) }),
  });
}

/** Part of a subject: it has no dots. */
function nodeName({ node }: Config): string {
  const name = node ?? hostname();
  if (node !== undefined && !/^[\w-]{1,64}$/.test(node)) {
    throw new ConfigError('--node: has letters, digits, - and _ alone');
  }
  return name.replaceAll(/[^\w-]/g, '-').slice(0, 64);
}

async function connect(
  config: Config,
  name: string,
  { connectNats }: Parts,
  onProblem: (message: string) => void,
): Promise<NatsBus> {
  const options = await connectionOptions(config, name);
  let bus: NatsBus;
  try {
    bus = await connectNats(options, onProblem);
  } catch (error) {
    throw new ConfigError(`--join: ${config.join.join(', ')} cannot be joined: ${messageOf(error)}`);
  }
  const refusal = strangersRefusal(config, bus);
  if (refusal === undefined) return bus;
  await bus.close();
  throw new ConfigError(refusal);
}

/** Whoever may speak on the message system may use every model, and answer in their place. */
function strangersRefusal({ allowAnonymous }: Config, { connection }: NatsBus): string | undefined {
  const { info } = connection;
  const host = connection.getServer().replace(/:\d+$/, '');
  const isLocal = host === 'localhost' || host === '[::1]' || host.startsWith('127.');
  if (allowAnonymous || isLocal || info?.auth_required === true || info?.tls_verify === true)
    return undefined;
  return `--join: ${host} asks for no credentials, so that anyone who reaches it could use the models: give it accounts, or say --allow-anonymous`;
}

async function connectionOptions(config: Config, name: string): Promise<NodeConnectionOptions> {
  const { credsAuthenticator, nkeyAuthenticator } = await import('@nats-io/transport-node');
  const { natsUser, natsPassword, natsToken, natsCredentials, natsNkey, natsCa, natsCert, natsKey } = config;
  const authenticator = natsCredentials
    ? credsAuthenticator(readSecret('--nats-credentials', natsCredentials))
    : natsNkey
      ? nkeyAuthenticator(readSecret('--nats-nkey', natsNkey))
      : undefined;
  const tls = {
    ...(natsCa === undefined ? {} : { caFile: natsCa }),
    ...(natsCert === undefined ? {} : { certFile: natsCert }),
    ...(natsKey === undefined ? {} : { keyFile: natsKey }),
  };
  return {
    name: `chairlift ${name}`,
    servers: config.join.map(addressOf),
    ...(natsUser === undefined ? {} : { user: natsUser, pass: natsPassword ?? '' }),
    ...(natsToken === undefined ? {} : { token: natsToken }),
    ...(authenticator === undefined ? {} : { authenticator }),
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
