// Builds the whole server from a configuration: store, pool, HTTP.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Server as HttpsServer } from 'node:https';
import { homedir } from 'node:os';
import { resolve } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { type Logger, pino } from 'pino';
import { type Config, ConfigError, processInputs, type ResolvedConfig } from '../config.ts';
import type { NatsBus } from '../fleet/nats-bus.ts';
import { ManagedPool, type PoolEvent } from '../pool/managed-pool.ts';
import { ModelKeys } from '../pool/model-keys.ts';
import type { ModelEntry, ModelPool } from '../pool/model-pool.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { BackgroundDeps, BatchDeps, Bench, ModelDownloads, TlsPair } from '../server/context.ts';
import { type ChairliftServer, createServer, createServerPair } from '../server/create-server.ts';
import { CARRY_OVER_DAYS, usedOfDay } from '../server/limits/daily-budget.ts';
import type { KeyLimiter } from '../server/limits/key-limiter.ts';
import { Limiter } from '../server/limits/limiter.ts';
import { SharedLimiter } from '../server/limits/shared-limiter.ts';
import { bindRefusal, everyKeyRevoked } from '../server/request/auth.ts';
import type { ConversationItem } from '../server/responses/items.ts';
import { defaultSettings, type ServerSettings } from '../server/settings.ts';
import { BackgroundStore } from '../store/background-store.ts';
import { BatchLines } from '../store/batch-lines.ts';
import { BatchStore } from '../store/batch-store.ts';
import { type Database, defaultDatabasePath, IN_MEMORY } from '../store/database.ts';
import { FileStore } from '../store/file-store.ts';
import { KeyRing } from '../store/key-ring.ts';
import { KeyStore } from '../store/key-store.ts';
import { newLeaseOwner } from '../store/lease-owner.ts';
import { LimitStore } from '../store/limit-store.ts';
import { openDatabase } from '../store/open-database.ts';
import { ResponseStore } from '../store/response-store.ts';
import { UsageStore } from '../store/usage-store.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import { readTls, tryAddress } from './addresses.ts';
import { answerOrigins } from './answer-origin.ts';
import { type OpenedArchive, openArchive } from './archive-settings.ts';
import { closeInOrder } from './close-steps.ts';
import { chosenSettings, effectiveSettings } from './effective-settings.ts';
import { chooseGpu, type GpuChoice, isGpuBackend } from './gpu-choice.ts';
import { hubSettings } from './hub-settings.ts';
import { readImageHosts } from './image-settings.ts';
import { type InheritedSockets, listenOnInherited, takeInheritedSockets } from './inherited-sockets.ts';
import {
  claimNodeName,
  connectFleet,
  type FleetPlan,
  type FleetRoles,
  type JoinedFleet,
  joinFleet,
  planFleet,
  rolesOf,
} from './join-fleet.ts';
import { LogDestination } from './log-destination.ts';
import { formatLogLine, usesColour } from './log-text.ts';
import { modelsFolder, poolModels, poolOptions, shortNamesOf } from './pool-settings.ts';
import { followRevokedKeys } from './revoked-keys.ts';
import { readSamplingDefaults } from './sampling-defaults.ts';
import { serviceManagerOf } from './service-manager.ts';
import { openTracing, type Tracing } from './tracing-settings.ts';
import { checkUpstreams, openUpstreams } from './upstream-settings.ts';

export interface Service {
  /** Where it listens, such as http://127.0.0.1:8000. Empty for a worker of a fleet, which listens nowhere. */
  readonly url: string;
  readonly adminUrl: string | undefined;
  readonly model: ServedModel | undefined;
  /** Whether requests need an API key. */
  readonly needsKey: boolean;
  /** Reads keys, limits and certificate again; what cannot be read stays as it was, with a log line. */
  reload(): Promise<void>;
  /** Refuses new requests, lets running ones end within the configured limit, closes everything. Failures are logged. */
  close(): Promise<void>;
  /** Ends running requests now, while closing. */
  hurry(): void;
}

interface Store {
  readonly database: Database;
  readonly keyStore: KeyStore;
  readonly keys: KeyRing;
  readonly usage: UsageStore;
  readonly responses: ResponseStore<ConversationItem> | undefined;
  readonly files: FileStore;
  readonly batches: BatchDeps;
  readonly background: BackgroundDeps;
  readonly limiter: KeyLimiter & { close?(): Promise<void> };
  /** Of a server alone: a fleet keeps streams in its message system. */
  readonly kept: OpenedArchive | undefined;
}

/** The database server may start together with this one. */
const DATABASE_STARTUP_WAIT_MS = 30_000;
/** For each part, on top of what running requests may take. */
const CLOSE_MS = 10_000;

export function packageVersion(): string {
  const file = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(file) as { version: string }).version;
}

/** Loaded on demand: few servers measure themselves. */
function benchOf(url: () => string): Bench {
  return async (order, run) => (await import('./bench-self.ts')).benchSelf(url(), order, run);
}

interface Parts {
  readonly store: Store;
  readonly tracing: Tracing | undefined;
  own?: ManagedPool | undefined;
  bus?: NatsBus | undefined;
  fleet?: JoinedFleet | undefined;
  main?: ChairliftServer;
  admin?: FastifyInstance | undefined;
  isHurried?: boolean;
  /** Of sockets that a service manager holds. */
  leaveSockets?: () => Promise<void>;
  endRevocations?: (() => Promise<void>) | undefined;
}

type OnLoading = (model: string, share: number) => void;

/** `stop` aborts a start, which may take minutes: it rejects with the signal's reason. */
export async function startService(
  resolved: ResolvedConfig,
  logger: Logger = makeLogger(resolved.config),
  stop?: AbortSignal,
  onLoading?: OnLoading,
): Promise<Service> {
  const { config } = resolved;
  checkAddresses(config);
  const tls = readTls(config);
  const upstreams = openUpstreams(config);
  const plan = await planFleet(config);
  const onProblem = (message: string) => logger.warn(message);
  const tracing = openTracing(config, { version: packageVersion(), node: plan?.node, onProblem });
  const store = await unlessStopped(stop, openStore(storedAt(config, rolesOf(config)), config, logger));
  const parts: Parts = { store, tracing };
  try {
    const options = { resolved, logger, tls, upstreams, plan, stop, onLoading };
    return await unlessStopped(stop, startParts(parts, options));
  } catch (error) {
    await closeParts(parts, 0, logger);
    throw error;
  }
}

interface StartOptions {
  readonly resolved: ResolvedConfig;
  readonly logger: Logger;
  readonly tls: TlsPair | undefined;
  readonly upstreams: Upstreams | undefined;
  readonly plan: FleetPlan | undefined;
  readonly stop: AbortSignal | undefined;
  readonly onLoading: OnLoading | undefined;
}

async function startParts(parts: Parts, options: StartOptions): Promise<Service> {
  const { resolved, logger, tls, upstreams, plan, stop, onLoading } = options;
  const { config } = resolved;
  const { store } = parts;
  const roles = rolesOf(config);
  const { tracing } = parts;
  if (roles.gateway || config.adminPort !== undefined) await checkDoor(config, store.keys, logger);
  // Before any model is loaded, which may take minutes for nothing.
  parts.bus = plan && (await connectFleet(plan, logger));
  if (plan && parts.bus) await claimNodeName(plan, parts.bus);
  const inherited = takeInheritedSockets();
  const manager = serviceManagerOf(logger);
  checkInherited(config, inherited);
  if (inherited === undefined) {
    for (const { host, port } of addressesOf(config, roles)) await tryAddress(host, port);
  }
  stop?.throwIfAborted();
  const gpu = roles.worker ? await chooseGpu(config) : { backend: config.backend };
  const found = roles.worker ? poolModels(config, homedir()) : undefined;
  parts.own = found && openPool(config, found, gpu, logger, onLoading);
  if (upstreams !== undefined) checkNames(upstreams, parts.own?.list() ?? [], logger);
  parts.endRevocations = parts.own && followRevokedKeys(store.keys, parts.own);
  const model = parts.own && (await preload(parts.own, config));
  stop?.throwIfAborted();
  parts.fleet =
    plan &&
    parts.bus &&
    (await joinFleet(plan, parts.bus, roles, parts.own, packageVersion(), logger, tracing?.tracer));
  let url = '';
  const deps = {
    pool: (parts.fleet?.pool ?? parts.own) as ModelPool,
    upstreams,
    archive: parts.fleet === undefined ? store.kept?.archive : parts.fleet.archive,
    originOf: parts.fleet === undefined && parts.own ? answerOrigins(config, parts.own) : undefined,
    fleet: parts.fleet?.control,
    clockSkewMs: parts.fleet?.clockSkewMs,
    tracer: tracing?.tracer,
    spanCounts: tracing?.exporter.counts,
    // A worker alone has no address for requests.
    bench: roles.gateway ? benchOf(() => url) : undefined,
    ...store,
    batches: { ...store.batches, share: batchShare(store, parts.fleet) },
    brokenModels: found?.broken,
    downloads: downloadsOf(config, logger),
    tls,
    settings: serverSettings(config),
    effectiveSettings: async () =>
      effectiveSettings(resolved, await chosenSettings(config, homedir(), async () => gpu)),
    logger,
    version: packageVersion(),
  };
  const { main, admin } =
    config.adminPort === undefined ? { main: createServer(deps), admin: undefined } : createServerPair(deps);
  parts.main = main;
  parts.admin = admin;
  const scheme = tls === undefined ? 'http' : 'https';
  if (roles.gateway && inherited !== undefined) {
    const listening = await listenOnInherited(main, inherited.main, scheme);
    parts.leaveSockets = listening.leave;
    url = listening.url;
    for (const host of listening.hosts) await checkDoor({ ...config, host }, store.keys, logger);
  } else if (roles.gateway) url = await listen(main, mainAddress(config));
  const adminUrl =
    admin &&
    (inherited === undefined || inherited.admin.length === 0
      ? await listen(admin, adminAddress(config) as Address)
      : (await listenOnInherited(admin, inherited.admin, scheme)).url);
  // People read it in what `serve` prints; a log that is kept needs it too.
  if (!isLogText(config))
    logger.info({ ...(url !== '' && { url }), adminUrl, version: deps.version }, 'listening');
  if (roles.gateway) await main.startBackground();
  await manager.ready(url === '' ? 'works for its fleet' : `listens on ${url}`);
  const limitMs = config.shutdownLimit * 1000;
  let closed: Promise<void> | undefined;
  return {
    url,
    adminUrl,
    model,
    needsKey: (await store.keys.status(Date.now())) === 'live',
    reload: () => reload(config, store.keys, [main, ...(admin === undefined ? [] : [admin])], logger),
    close: () => {
      closed ??= manager.stopping().then(() => closeParts(parts, limitMs, logger));
      return closed;
    },
    hurry: () => {
      parts.isHurried = true;
      void main.drain(0);
    },
  };
}

/** Gateways that share batches run `batchConcurrency` of their lines together. */
function batchShare({ database }: Store, fleet: JoinedFleet | undefined): BatchDeps['share'] {
  const control = fleet?.control;
  return control && database.kind === 'postgres' ? (total) => control.share(total) : undefined;
}

/** Without Fastify's line about it. */
async function listen(app: FastifyInstance, address: Address): Promise<string> {
  const { level } = app.log;
  app.log.level = 'silent';
  try {
    return await app.listen(address);
  } finally {
    app.log.level = level;
  }
}

/** A running step continues for nothing; the process ends soon. */
async function unlessStopped<Result>(stop: AbortSignal | undefined, start: Promise<Result>): Promise<Result> {
  if (stop === undefined) return start;
  let onStop = () => {};
  const stopped = new Promise<never>((_, reject) => {
    onStop = () => reject(stop.reason);
    if (stop.aborted) onStop();
    stop.addEventListener('abort', onStop);
  });
  start.catch(() => {});
  try {
    return await Promise.race([stopped, start]);
  } finally {
    stop.removeEventListener('abort', onStop);
  }
}

/** `limitMs`: for running requests. */
async function closeParts(parts: Parts, limitMs: number, logger: Logger): Promise<void> {
  const { main, admin, fleet, bus, own, store, tracing } = parts;
  const endMs = performance.now() + limitMs;
  const leftMs = () => (parts.isHurried === true ? 0 : Math.max(0, endMs - performance.now()));
  const steps: readonly (readonly [string, () => unknown])[] = [
    // First: connections that come from now on are the next server's.
    ['the sockets', () => parts.leaveSockets?.()],
    ['the fleet', () => fleet?.drain()],
    ['running requests', () => main?.drain(limitMs)],
    ['the HTTP server', () => main?.close()],
    ['the HTTP server of the admin port', () => admin?.close()],
    ['the fleet’s models', () => fleet?.pool?.close(leftMs())],
    ['the fleet', () => fleet?.close(leftMs())],
    ['the connection to the fleet', () => bus?.close()],
    ['keys that were revoked', () => parts.endRevocations?.()],
    ['the models', () => own?.close(leftMs())],
    ['traces', () => tracing?.exporter.close()],
    ['kept streams', () => store.kept?.close()],
    ['the usage', () => store.usage.close()],
    ['the responses', () => store.responses?.close()],
    ['the files', () => store.files.close()],
    ['the limits', () => store.limiter.close?.()],
    ['the database', () => store.database.close()],
  ];
  await closeInOrder(
    steps.map(([what, close]) => ({ what, limitMs: limitMs + CLOSE_MS, close })),
    logger,
  );
}

/** Sockets that nobody would listen on must not be taken in silence. */
function checkInherited(config: Config, inherited: InheritedSockets | undefined): void {
  if (inherited === undefined) return;
  const { gateway } = rolesOf(config);
  if (gateway && inherited.main.length === 0) {
    throw new ConfigError('LISTEN_FDS: all sockets are named admin; one is needed for requests');
  }
  if (!gateway && inherited.main.length > 0) {
    throw new ConfigError('LISTEN_FDS: a worker listens nowhere, but for a socket named admin');
  }
  if (inherited.admin.length > 0 && config.adminPort === undefined) {
    throw new ConfigError('LISTEN_FDS: a socket is named admin, which needs --admin-port');
  }
}

interface Address {
  readonly host: string;
  readonly port: number;
}

function mainAddress({ host, port }: Config): Address {
  return { host, port };
}

function adminAddress({ host, adminHost = host, adminPort }: Config): Address | undefined {
  return adminPort === undefined ? undefined : { host: adminHost, port: adminPort };
}

function addressesOf(config: Config, { gateway }: FleetRoles): Address[] {
  const admin = adminAddress(config);
  return [...(gateway ? [mainAddress(config)] : []), ...(admin === undefined ? [] : [admin])];
}

function checkAddresses({ adminHost, adminPort }: Config): void {
  if (adminHost !== undefined && adminPort === undefined) {
    throw new ConfigError('--admin-host: needs --admin-port, the port on it');
  }
}

async function checkDoor(
  { host, allowAnonymous }: Pick<Config, 'host' | 'allowAnonymous'>,
  keys: KeyRing,
  logger: Logger,
): Promise<void> {
  const refusal = await bindRefusal(host, keys, allowAnonymous);
  if (refusal !== undefined) throw new ConfigError(`--host: ${refusal}`);
  if (!allowAnonymous && (await keys.status(Date.now())) === 'revoked') logger.warn(everyKeyRevoked);
}

async function reload(
  config: Config,
  keys: KeyRing,
  apps: readonly FastifyInstance[],
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
    // Open connections keep their certificate.
    for (const { server } of apps) (server as unknown as HttpsServer).setSecureContext(tls);
  });
}

export function makeLogger(
  config: Config,
  destination: Pick<LogDestination, 'write'> = new LogDestination(),
): Logger {
  const options = { level: config.logLevel, base: null };
  if (!isLogText(config)) return pino(options, destination);
  const colour = process.stderr.isTTY === true && usesColour(processInputs({}).environment);
  return pino(options, { write: (line) => destination.write(formatLogLine(line, colour)) });
}

function isLogText({ logFormat }: Config): boolean {
  return logFormat === 'auto' ? process.stderr.isTTY === true : logFormat === 'text';
}

/** A worker without HTTP has nothing to store. */
function storedAt({ database, adminPort }: Config, { gateway }: FleetRoles): string {
  return gateway || adminPort !== undefined ? (database ?? defaultDatabasePath()) : IN_MEMORY;
}

async function openStore(path: string, config: Config, logger: Logger): Promise<Store> {
  const database = await openDatabase(path, {
    patienceMs: DATABASE_STARTUP_WAIT_MS,
    connections: config.databaseConnections,
    onWait: (problem) => logger.warn(`waits for the database: ${problem.message}`),
  });
  const onProblem = (error: unknown) => logger.error({ err: error }, 'store');
  const keyStore = new KeyStore(database);
  const keys = await KeyRing.open(database, keyStore, onProblem);
  const usage = new UsageStore(database, onProblem);
  // First, because limits begin with what keys have used.
  const kept = config.join.length === 0 ? await openArchive(config, database, usage, logger) : undefined;
  const limiter = await openLimiter(database, keyStore, usage, logger);
  const { keepResponses, responsesLimit: maxBytes } = config;
  const responses =
    keepResponses === 0
      ? undefined
      : new ResponseStore<ConversationItem>(database, { keepMs: keepResponses * 1000, maxBytes }, onProblem);
  const files = new FileStore(database, onProblem);
  const batches = {
    store: new BatchStore(database),
    lines: new BatchLines(database),
    owner: newLeaseOwner(),
  };
  const background = { store: new BackgroundStore(database), owner: newLeaseOwner() };
  return { database, keyStore, keys, usage, responses, files, batches, background, limiter, kept };
}

async function openLimiter(
  database: Database,
  keyStore: KeyStore,
  usage: UsageStore,
  logger: Logger,
): Promise<Store['limiter']> {
  if (database.kind === 'postgres') {
    const onChange = (lost: unknown) => {
      if (lost === undefined) logger.info('the database answers again: limits are those of all gateways');
      else logger.warn({ err: lost }, 'the database is lost: this gateway keeps to its share of the limits');
    };
    return SharedLimiter.open(new LimitStore(database, randomUUID()), { onChange });
  }
  const limiter = new Limiter();
  const nowMs = Date.now();
  const tokens = await usage.tokensOfDays(CARRY_OVER_DAYS + 1, nowMs);
  const limits = new Map((await keyStore.list()).map(({ id, limits }) => [id, limits.dailyTokens]));
  limiter.restoreDailyTokens(
    new Map([...tokens].map(([keyId, byDay]) => [keyId, usedOfDay(byDay, limits.get(keyId))])),
    nowMs,
  );
  return limiter;
}

function openPool(
  config: Config,
  { broken, ...models }: ReturnType<typeof poolModels>,
  gpu: GpuChoice,
  logger: Logger,
  onProgress: OnLoading | undefined,
): ManagedPool {
  if (gpu.notice !== undefined) logger[isGpuBackend(gpu.backend) ? 'info' : 'warn'](gpu.notice);
  for (const { name, problem } of broken()) logger.warn({ model: name, problem }, 'a model cannot be served');
  const onEvent = ({ kind, model, message }: PoolEvent) => {
    const level = kind === 'failed' || kind === 'incident' ? 'error' : kind === 'fallback' ? 'warn' : 'info';
    logger[level]({ model, detail: message }, `model ${kind}`);
  };
  const modelKeys = new ModelKeys(resolve(homedir(), '.chairlift', 'model-keys.json'));
  return new ManagedPool({ ...poolOptions(config, models, gpu), modelKeys, onEvent, onProgress });
}

/** A malformed address in the environment must not keep the server from starting. */
function downloadsOf(config: Config, logger: Logger): ModelDownloads | undefined {
  try {
    const folder = resolve(modelsFolder(config, homedir()));
    return { folder, hub: hubSettings(), shortNames: shortNamesOf(config) };
  } catch (error) {
    logger.warn({ err: error }, 'no models can be pulled');
    return undefined;
  }
}

function checkNames(upstreams: Upstreams, entries: readonly ModelEntry[], logger: Logger): void {
  for (const model of checkUpstreams(upstreams, entries)) {
    logger.warn({ model }, 'an upstream would stand in for a model that is not here');
  }
}

/** A model that fails to load ends the start. */
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
    maxQueuedSequences: config.maxQueuedSequences,
    maxQueuedTokens: config.maxQueuedTokens,
    maxEmbeddingInputs: config.maxEmbeddingInputs,
    maxBatchSize: config.direct ? 1 : config.maxBatchSize,
    requestTimeoutMs: config.requestTimeout === 0 ? Number.POSITIVE_INFINITY : config.requestTimeout * 1000,
    shareCache: config.shareCache,
    savesSlots: config.slotSavePath !== undefined,
    kvShares: { high: config.kvShareHigh, normal: config.kvShareNormal, low: config.kvShareLow },
    trustedProxies: config.trustProxy,
    corsOrigins: config.corsOrigins,
    samplingDefaults: readSamplingDefaults(config.samplingDefaults),
    useModelSampling: config.generationConfig === 'auto',
    thinking: config.thinking === 'auto' ? undefined : config.thinking === 'on',
    images: {
      maxBytes: config.imageLimit,
      maxPixels: config.imagePixels,
      maxImages: config.maxImages,
      maxTotalBytes: config.imagesLimit,
    },
    imageHosts: readImageHosts(config),
    maxFileBytes: config.fileLimit,
    maxKeyFileBytes: config.filesLimit,
    keepFilesMs: config.keepFiles === 0 ? Number.POSITIVE_INFINITY : config.keepFiles * 1000,
    maxBatchLines: config.maxBatchLines,
    batchConcurrency: config.batchConcurrency,
    protectMetrics: config.protectMetrics,
    llamaMetrics: config.llamaMetrics,
    allowAnonymous: config.allowAnonymous,
    logPrompts: config.logPrompts,
  });
}
