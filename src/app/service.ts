// The whole server put together from a configuration: store, pool, HTTP edge. Used by `chairlift serve` and by
// programs that serve from within.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Server as HttpsServer } from 'node:https';
import { homedir, hostname } from 'node:os';
import { resolve } from 'node:path';
import { type Logger, pino } from 'pino';
import { type Config, ConfigError } from '../config.ts';
import type { NatsBus } from '../fleet/nats-bus.ts';
import { ManagedPool, type PoolEvent } from '../pool/managed-pool.ts';
import type { ModelPool } from '../pool/model-pool.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { bindRefusal, everyKeyRevoked } from '../server/auth.ts';
import type { BatchDeps, ModelDownloads, TlsPair } from '../server/context.ts';
import { type ChairliftServer, createServer, createServerPair } from '../server/create-server.ts';
import type { KeyLimiter } from '../server/limits/key-limiter.ts';
import { Limiter } from '../server/limits/limiter.ts';
import { SharedLimiter } from '../server/limits/shared-limiter.ts';
import type { ConversationItem } from '../server/responses/items.ts';
import type { Bench } from '../server/routes/bench.ts';
import { defaultSettings, type ServerSettings } from '../server/settings.ts';
import { BatchLines } from '../store/batch-lines.ts';
import { BatchStore } from '../store/batch-store.ts';
import type { Database } from '../store/database.ts';
import { defaultDatabasePath, IN_MEMORY } from '../store/database-path.ts';
import { FileStore } from '../store/file-store.ts';
import { KeyRing } from '../store/key-ring.ts';
import { KeyStore } from '../store/key-store.ts';
import { LimitStore } from '../store/limit-store.ts';
import { openDatabase } from '../store/open-database.ts';
import { ResponseStore } from '../store/response-store.ts';
import { UsageStore } from '../store/usage-store.ts';
import { chooseGpu } from './gpu-choice.ts';
import { hubSettings } from './hub-settings.ts';
import {
  connectFleet,
  type FleetRoles,
  type JoinedFleet,
  joinFleet,
  planFleet,
  rolesOf,
} from './join-fleet.ts';
import { modelsFolder, poolModels, poolOptions } from './pool-settings.ts';
import { readSamplingDefaults } from './sampling-defaults.ts';
import { readTls } from './tls-files.ts';

export interface Service {
  /** Where it listens, such as http://127.0.0.1:8000. Empty for a worker of a fleet, which listens nowhere. */
  readonly url: string;
  /** Where /metrics and /admin are, if not there. */
  readonly adminUrl: string | undefined;
  /** The default model, loaded, where it computes itself. */
  readonly model: ServedModel | undefined;
  /** Reads keys, limits and certificate again. What cannot be read stays as it was; the log says so. */
  reload(): Promise<void>;
  /** Refuses new requests, lets running ones end within the configured limit, closes everything. */
  close(): Promise<void>;
}

interface Store {
  readonly database: Database;
  readonly keyStore: KeyStore;
  readonly keys: KeyRing;
  readonly usage: UsageStore;
  /** Undefined where none are kept. */
  readonly responses: ResponseStore<ConversationItem> | undefined;
  readonly files: FileStore;
  readonly batches: BatchDeps;
  readonly limiter: KeyLimiter & { close?(): Promise<void> };
}

/** A database server may start together with this one. */
const DATABASE_PATIENCE_MS = 30_000;

/** The version in package.json. */
export function packageVersion(): string {
  const file = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(file) as { version: string }).version;
}

/** Loaded when asked for: few servers measure themselves. */
function benchOf(url: () => string): Bench {
  return async (order, run) => (await import('./bench-self.ts')).benchSelf(url(), order, run);
}

export async function startService(config: Config, logger: Logger = makeLogger(config)): Promise<Service> {
  checkAddresses(config);
  const tls = readTls(config);
  const roles = rolesOf(config);
  const settings = serverSettings(config);
  const plan = await planFleet(config);
  const store = await openStore(storedAt(config, roles), config, logger);
  let own: ManagedPool | undefined;
  let bus: NatsBus | undefined;
  let fleet: JoinedFleet | undefined;
  const apps: ChairliftServer[] = [];
  const closeAll = async (limitMs: number) => {
    fleet?.drain();
    for (const app of apps) await app.close();
    await fleet?.pool?.close(limitMs);
    await fleet?.close(limitMs);
    await bus?.close();
    await own?.close(limitMs);
    await closeStore(store, logger);
  };
  try {
    if (roles.gateway || config.adminPort !== undefined) await checkDoor(config, store.keys, logger);
    // Before any model is loaded: that may take minutes, and would be for nothing where no fleet can be joined.
    bus = plan && (await connectFleet(plan, logger));
    own = roles.worker ? await openPool(config, logger) : undefined;
    const model = own && (await preload(own, config));
    fleet = plan && bus && (await joinFleet(plan, bus, roles, own, packageVersion(), logger));
    let url = '';
    const deps = {
      pool: (fleet?.pool ?? own) as ModelPool,
      archive: fleet?.archive,
      fleet: fleet?.control,
      // A worker alone has no address for requests.
      bench: roles.gateway ? benchOf(() => url) : undefined,
      ...store,
      downloads: downloadsOf(config, logger),
      tls,
      settings,
      logger,
      version: packageVersion(),
    };
    const { main, admin } =
      config.adminPort === undefined
        ? { main: createServer(deps), admin: undefined }
        : createServerPair(deps);
    apps.push(main, ...(admin === undefined ? [] : [admin]));
    if (roles.gateway) url = await main.listen({ host: config.host, port: config.port });
    const adminUrl = await admin?.listen({
      host: config.adminHost ?? config.host,
      port: config.adminPort as number,
    });
    return {
      url,
      adminUrl,
      model,
      reload: () => reload(config, store.keys, apps, logger),
      close: () => closeAll(config.shutdownLimit * 1000),
    };
  } catch (error) {
    await closeAll(0);
    throw error;
  }
}

function checkAddresses({ adminHost, adminPort }: Config): void {
  if (adminHost !== undefined && adminPort === undefined) {
    throw new ConfigError('--admin-host: needs --admin-port, the port on it');
  }
}

async function checkDoor({ host, allowAnonymous }: Config, keys: KeyRing, logger: Logger): Promise<void> {
  const refusal = await bindRefusal(host, keys, allowAnonymous);
  if (refusal !== undefined) throw new ConfigError(`--host: ${refusal}`);
  if (!allowAnonymous && (await keys.standing(Date.now())) === 'revoked') logger.warn(everyKeyRevoked);
}

async function reload(
  config: Config,
  keys: KeyRing,
  apps: readonly ChairliftServer[],
  logger: Logger,
): Promise<void> {
  const attempt = async (what: string, action: () => void | Promise<void>) => {
    try {
      await action();
      logger.info(`read ${what} again`);
    } catch (error) {
      logger.error({ err: error }, `cannot read ${what} again; what there was stays`);
    }
  };
  await attempt('the keys', () => keys.reload());
  if (config.tlsCert === undefined) return;
  await attempt('the certificate', () => {
    const tls = readTls(config) as TlsPair;
    // Connections that stand keep theirs.
    for (const { server } of apps) (server as unknown as HttpsServer).setSecureContext(tls);
  });
}

function makeLogger({ logLevel }: Config): Logger {
  return pino({ level: logLevel, base: null }, pino.destination({ dest: 2, sync: false }));
}

/** A worker that nobody can ask over HTTP has nothing to store. */
function storedAt({ database, adminPort }: Config, { gateway }: FleetRoles): string {
  return gateway || adminPort !== undefined ? (database ?? defaultDatabasePath()) : IN_MEMORY;
}

async function openStore(path: string, config: Config, logger: Logger): Promise<Store> {
  const database = await openDatabase(path, {
    patienceMs: DATABASE_PATIENCE_MS,
    onWait: (problem) => logger.warn(`waits for the database: ${problem.message}`),
  });
  const onProblem = (error: unknown) => logger.error({ err: error }, 'store');
  const keyStore = new KeyStore(database);
  const keys = await KeyRing.open(database, keyStore, onProblem);
  const usage = new UsageStore(database, onProblem);
  const limiter = await openLimiter(database, usage, logger);
  const { keepResponses, responsesLimit: maxBytes } = config;
  const responses =
    keepResponses === 0
      ? undefined
      : new ResponseStore<ConversationItem>(database, { keepMs: keepResponses * 1000, maxBytes }, onProblem);
  const files = new FileStore(database, onProblem);
  const batches = {
    store: new BatchStore(database),
    lines: new BatchLines(database),
    owner: `${config.node ?? hostname()}:${config.port}`,
  };
  return { database, keyStore, keys, usage, responses, files, batches, limiter };
}

/** One for all gateways of a database that they share, else one in memory. */
async function openLimiter(database: Database, usage: UsageStore, logger: Logger): Promise<Store['limiter']> {
  if (database.kind === 'postgres') {
    const onChange = (lost: unknown) => {
      if (lost === undefined) logger.info('the database answers again: limits are those of all gateways');
      else logger.warn({ err: lost }, 'the database is lost: this gateway keeps to its share of the limits');
    };
    return SharedLimiter.open(await LimitStore.open(database, randomUUID()), { onChange });
  }
  const limiter = new Limiter();
  limiter.restoreDailyTokens(await usage.tokensOfDay(Date.now()), Date.now());
  return limiter;
}

/** Nothing that happens here may keep the server from ending. */
async function closeStore(
  { usage, responses, files, limiter, database }: Store,
  logger: Logger,
): Promise<void> {
  const closings = [
    () => usage.close(),
    () => responses?.close(),
    () => files.close(),
    () => limiter.close?.(),
    () => database.close(),
  ];
  for (const close of closings) {
    try {
      await close();
    } catch (error) {
      logger.error({ err: error }, 'store');
    }
  }
}

async function openPool(config: Config, logger: Logger): Promise<ManagedPool> {
  const gpu = await chooseGpu(config);
  if (gpu.notice !== undefined) logger[gpu.backend === 'webgpu' ? 'info' : 'warn'](gpu.notice);
  const { broken, ...models } = poolModels(config, homedir());
  for (const { name, problem } of broken) logger.warn({ model: name, problem }, 'a model cannot be served');
  const onEvent = ({ kind, model, message }: PoolEvent) => {
    const level = kind === 'failed' || kind === 'incident' ? 'error' : kind === 'fallback' ? 'warn' : 'info';
    logger[level]({ model, detail: message }, `model ${kind}`);
  };
  return new ManagedPool({ ...poolOptions(config, models, gpu), onEvent });
}

/** An address in the environment that is none is no reason not to serve. */
function downloadsOf(config: Config, logger: Logger): ModelDownloads | undefined {
  try {
    return { folder: resolve(modelsFolder(config, homedir())), hub: hubSettings() };
  } catch (error) {
    logger.warn({ err: error }, 'no models can be pulled');
    return undefined;
  }
}

/** Loads the default model and those the configuration names; one that fails ends the start. */
async function preload(pool: ManagedPool, config: Config): Promise<ServedModel> {
  for (const name of config.preload) (await leaseOf(pool, name)).release();
  const lease = await leaseOf(pool, undefined);
  lease.release();
  return lease.model;
}

async function leaseOf(pool: ManagedPool, name: string | undefined) {
  const result = await pool.acquire(name);
  if (result.ok) return result.lease;
  throw new ConfigError(result.message);
}

function serverSettings(config: Config): ServerSettings {
  return Object.freeze({
    ...defaultSettings,
    bodyLimitBytes: config.bodyLimit,
    maxQueuedRequests: config.maxQueuedRequests,
    maxQueuedTokens: config.maxQueuedTokens,
    maxEmbeddingInputs: config.maxEmbeddingInputs,
    requestTimeoutMs: config.requestTimeout === 0 ? Number.POSITIVE_INFINITY : config.requestTimeout * 1000,
    shutdownLimitMs: config.shutdownLimit * 1000,
    shareCache: config.shareCache,
    trustedProxies: config.trustProxy,
    corsOrigins: config.corsOrigins,
    samplingDefaults: readSamplingDefaults(config.samplingDefaults),
    useModelSampling: config.generationConfig === 'auto',
    maxFileBytes: config.fileLimit,
    maxKeyFileBytes: config.filesLimit,
    keepFilesMs: config.keepFiles === 0 ? Number.POSITIVE_INFINITY : config.keepFiles * 1000,
    maxBatchLines: config.maxBatchLines,
    batchConcurrency: config.batchConcurrency,
    protectMetrics: config.protectMetrics,
    allowAnonymous: config.allowAnonymous,
    logPrompts: config.logPrompts,
  });
}
