// From the configuration to the models of the pool and what their engines are told.

import { totalmem } from 'node:os';
import type { Config } from '../config.ts';
import { ConfigError } from '../config.ts';
import type { PoolModel, PoolOptions } from '../pool/managed-pool.ts';
import { defaultModelFolder, embeddedModelPath } from '../pool/model-folder.ts';
import { findModels, type ModelOnDisk } from '../pool/model-registry.ts';
import type { EngineWish } from '../pool/start-model.ts';

const MEMORY_SHARE = 0.7;
const MOST_STEP_TOKENS = 2048;

export interface FoundModels {
  /** The default one first. */
  readonly models: readonly PoolModel[];
  /** Found, but cannot be served. */
  readonly broken: readonly ModelOnDisk[];
}

/** Models given by path, then those of the folder; the embedded one last, so that there always is one. */
export function poolModels(config: Config, home: string): FoundModels {
  const folder = config.modelsFolder ?? defaultModelFolder(home);
  const found = findModels({ folder, paths: config.model, lastPaths: [embeddedModelPath()] });
  const aliases = config.alias.map(parseAlias);
  const served = found.filter(({ problem }) => problem === undefined);
  const names = new Set(served.map(({ name }) => name));
  for (const { alias, name } of aliases) mustExist('--alias', name, names, alias);
  for (const name of config.pin) mustExist('--pin', name, names);
  for (const name of config.preload) mustExist('--preload', name, names);
  return {
    models: served.map(({ name, path, createdSeconds }) => ({
      name,
      path,
      createdSeconds,
      aliases: aliases.filter((one) => one.name === name).map(({ alias }) => alias),
      pinned: config.pin.includes(name),
    })),
    broken: found.filter(({ problem }) => problem !== undefined),
  };
}

export function poolOptions(config: Config, models: readonly PoolModel[]): Omit<PoolOptions, 'onEvent'> {
  return {
    models,
    memoryBytes: config.memory ?? Math.floor(MEMORY_SHARE * totalmem()),
    keepAliveMs: config.keepAlive === 0 ? undefined : config.keepAlive * 1000,
    engine: engineWish(config),
    kv: {
      kvType: config.kvType,
      ...(config.kvBlocks === undefined ? {} : { blocks: config.kvBlocks }),
      ...(config.kvMemory === undefined ? {} : { bytes: config.kvMemory }),
    },
  };
}

function engineWish(config: Config): EngineWish {
  const { backend, threads, kvType, maxBatchSize, context, targetStepMs, maxStepTokens, direct } = config;
  const budget =
    targetStepMs !== undefined
      ? ({ kind: 'adaptive', targetStepMs, maxStepTokens: maxStepTokens ?? MOST_STEP_TOKENS } as const)
      : maxStepTokens === undefined
        ? undefined
        : ({ kind: 'fixed', maxStepTokens } as const);
  return {
    kvType,
    direct,
    ...(backend === undefined ? {} : { backend }),
    ...(threads === undefined ? {} : { threads }),
    ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
    ...(context === undefined ? {} : { contextLength: context }),
    ...(budget === undefined ? {} : { budget }),
  };
}

function parseAlias(text: string): { alias: string; name: string } {
  const at = text.indexOf('=');
  if (at > 0 && at < text.length - 1) return { alias: text.slice(0, at), name: text.slice(at + 1) };
  throw new ConfigError(`--alias: give alias=name, not ${text}`);
}

function mustExist(flag: string, name: string, known: ReadonlySet<string>, alias?: string): void {
  if (alias !== undefined && known.has(alias))
    throw new ConfigError(`${flag}: ${alias} is a model's own name`);
  if (known.has(name)) return;
  throw new ConfigError(`${flag}: there is no model named ${name}; known are ${[...known].join(', ')}`);
}
