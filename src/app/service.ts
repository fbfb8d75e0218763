// The whole server put together from a configuration: store, pool, HTTP edge. Used by `chairlift serve` and by
// programs that serve from within.

import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { type Logger, pino } from 'pino';
import { type Config, ConfigError } from '../config.ts';
import { ManagedPool, type PoolEvent } from '../pool/managed-pool.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { bindRefusal } from '../server/auth.ts';
import { type ChairliftServer, createServer } from '../server/create-server.ts';
import { Limiter } from '../server/limits/limiter.ts';
import { defaultSettings, type ServerSettings } from '../server/settings.ts';
import { type Database, openDatabase } from '../store/database.ts';
import { defaultDatabasePath } from '../store/database-path.ts';
import { KeyRing } from '../store/key-ring.ts';
import { KeyStore } from '../store/key-store.ts';
import { UsageStore } from '../store/usage-store.ts';
import { poolModels, poolOptions } from './pool-settings.ts';

export interface Service {
  /** Where it listens, such as http://127.0.0.1:8000. */
  readonly url: string;
  /** The default model, loaded. */
  readonly model: ServedModel;
  readonly pool: ManagedPool;
  /** Reads keys and limits again. */
  reload(): Promise<void>;
  /** Refuses new requests, lets running ones end within the configured limit, closes everything. */
  close(): Promise<void>;
}

interface Store {
  readonly database: Database;
  readonly keyStore: KeyStore;
  readonly keys: KeyRing;
  readonly usage: UsageStore;
  readonly limiter: Limiter;
}

/** The version in package.json. */
export function packageVersion(): string {
  const file = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(file) as { version: string }).version;
}

export async function startService(config: Config, logger: Logger = makeLogger(config)): Promise<Service> {
  const store = await openStore(config.database ?? defaultDatabasePath(), logger);
  let pool: ManagedPool | undefined;
  let app: ChairliftServer | undefined;
  const closeAll = async (limitMs: number) => {
    await app?.close();
    await pool?.close(limitMs);
    await store.usage.close();
    store.database.close();
  };
  try {
    const refusal = await bindRefusal(config.host, store.keys, config.allowAnonymous);
    if (refusal !== undefined) throw new ConfigError(`--host: ${refusal}`);
    pool = openPool(config, logger);
    const model = await preload(pool, config);
    app = createServer({
      pool,
      ...store,
      settings: serverSettings(config),
      logger,
      version: packageVersion(),
    });
    const url = await app.listen({ host: config.host, port: config.port });
    return {
      url,
      model,
      pool,
      reload: () => store.keys.reload(),
      close: () => closeAll(config.shutdownLimit * 1000),
    };
  } catch (error) {
    await closeAll(0);
    throw error;
  }
}

function makeLogger({ logLevel }: Config): Logger {
  return pino({ level: logLevel, base: null }, pino.destination({ dest: 2, sync: false }));
}

async function openStore(path: string, logger: Logger): Promise<Store> {
  const database = await openDatabase(path);
  const onProblem = (error: unknown) => logger.error({ err: error }, 'store');
  const keyStore = new KeyStore(database);
  const keys = await KeyRing.open(database, keyStore, onProblem);
  const usage = new UsageStore(database, onProblem);
  const limiter = new Limiter();
  limiter.restoreDailyTokens(await usage.tokensOfDay(Date.now()), Date.now());
  return { database, keyStore, keys, usage, limiter };
}

function openPool(config: Config, logger: Logger): ManagedPool {
  const { models, broken } = poolModels(config, homedir());
  for (const { name, problem } of broken) logger.warn({ model: name, problem }, 'a model cannot be served');
  const onEvent = ({ kind, model, message }: PoolEvent) => {
    const level = kind === 'failed' || kind === 'incident' ? 'error' : kind === 'fallback' ? 'warn' : 'info';
    logger[level]({ model, detail: message }, `model ${kind}`);
  };
  return new ManagedPool({ ...poolOptions(config, models), onEvent });
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
    requestTimeoutMs: config.requestTimeout === 0 ? Number.POSITIVE_INFINITY : config.requestTimeout * 1000,
    shutdownLimitMs: config.shutdownLimit * 1000,
    isolateCache: config.isolateCache,
    allowAnonymous: config.allowAnonymous,
    logPrompts: config.logPrompts,
  });
}
