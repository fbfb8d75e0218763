// From the configuration to the models of the pool and the settings of their engines.

import { resolve } from 'node:path';
import { kvTypeRefusal } from '../compute/kv-type.ts';
import type { Config } from '../config.ts';
import { ConfigError, processInputs } from '../config.ts';
import type { EngineSettings } from '../engine/protocol.ts';
import type { EngineChoice } from '../pool/engine-choice.ts';
import { type GivenAdapter, readGivenAdapter } from '../pool/local-model.ts';
import type { PoolOptions } from '../pool/managed-pool.ts';
import { defaultModelFolder, embeddedModelPath, type ModelHomes, modelHomes } from '../pool/model-homes.ts';
import { parseModelPath } from '../pool/model-names.ts';
import { referenceIn } from '../pool/model-reference.ts';
import { findModels, type InspectedModels, type ModelOnDisk } from '../pool/model-registry.ts';
import { adapterName, type PoolModel } from '../pool/model-slots.ts';
import { givenModel, isFrom, locateModel } from '../pool/named-models.ts';
import { type ShortNames, withShortNames } from '../pool/short-names.ts';
import { messageOf } from '../runtime/error-message.ts';
import { type MachineLimits, machineLimits } from '../runtime/limits.ts';
import { type ChosenTemplate, readChosenTemplate } from '../text/chosen-template.ts';
import { formatNames } from '../text/formats/detect.ts';
import type { FormatName } from '../text/formats/format.ts';
import { type GpuChoice, isGpuBackend } from './gpu-choice.ts';
import { chosenProjectors } from './image-settings.ts';

const MEMORY_SHARE = 0.7;
const GPU_MEMORY_SHARE = 0.9;
const MOST_STEP_TOKENS = 2048;

type PoolModels = Pick<PoolOptions, 'models' | 'find'>;

interface FoundModels extends PoolModels {
  /** Those that cannot be served, with their problems, as of the last look. */
  readonly broken: () => readonly ModelOnDisk[];
}

export function modelsFolder(config: Config, home: string): string {
  return config.modelsFolder ?? defaultModelFolder(home);
}

export function modelHomesOf(config: Config, home: string, { environment } = processInputs({})): ModelHomes {
  return modelHomes(modelsFolder(config, home), { environment, home }, shortNamesOf(config));
}

/** The table of short names with those of the settings. */
export function shortNamesOf({ shortNames }: Pick<Config, 'shortNames'>): ShortNames {
  try {
    const table = withShortNames(shortNames);
    for (const [name, long] of table) {
      if (referenceIn(long, new Map()) === undefined)
        throw new Error(`${name}=${long} names no model of the hub`);
    }
    return table;
  } catch (error) {
    throw new ConfigError(`--short-names: ${messageOf(error)}`);
  }
}

/** By the path of a model, the short names that the settings give it. */
function givenShortNames(config: Config): (path: string) => string[] {
  const table = shortNamesOf(config);
  const given = config.shortNames.map((text) => text.slice(0, text.indexOf('=')));
  const references = given.map((name) => ({ name, reference: referenceIn(name, table) }));
  return (path) =>
    references.flatMap(({ name, reference }) => (reference && isFrom(reference, path) ? [name] : []));
}

/**
 * Models given by path or name, then those of the folder; the embedded one only without any other. Names are resolved
 * once, at the start.
 */
export function poolModels(config: Config, home: string, homes = modelHomesOf(config, home)): FoundModels {
  const folder = modelsFolder(config, home);
  const paths = config.model.map((text) => givenModel(text, homes));
  const aliases = config.alias.map(parseAlias);
  const aliasesOf = (name: string) => aliases.filter((one) => one.name === name).map(({ alias }) => alias);
  const shortNamesAt = givenShortNames(config);
  const adapters = config.adapter.map(givenAdapter);
  const templateOf = chosenTemplates(config);
  const formatOf = chosenFormats(config);
  const draftOf = chosenDrafts(config, homes);
  const projectorOf = chosenProjectors(config);
  const inspected: InspectedModels = new Map();
  let lastPaths: readonly string[] = [];
  let defaultName: string | undefined;
  let lastFound: readonly ModelOnDisk[] = [];
  const look = () => {
    lastFound = findModels({ folder, paths, lastPaths }, inspected);
    if (lastPaths.length === 0 && config.model.length === 0 && !lastFound.some(isSound)) {
      // It stays from now on: it may be in use when others appear.
      lastPaths = [embeddedModelPath()];
      lastFound = findModels({ folder, lastPaths }, inspected);
    }
    return lastFound;
  };
  const servable = (found: readonly ModelOnDisk[]): PoolModel[] => {
    // Models that appear later never become the default.
    defaultName ??= found.find(isSound)?.name;
    return found.filter(isSound).map(({ name, path, createdSeconds, headless, sees }) => ({
      name,
      path,
      createdSeconds,
      ...(headless && { headless }),
      ...(sees && { sees }),
      aliases: [...aliasesOf(name), ...shortNamesAt(path).filter((short) => short !== name)],
      adapters: adapters
        .filter(({ model }) => model === name)
        .map(({ model, ...adapter }) => ({
          ...adapter,
          aliases: aliasesOf(adapterName(model, adapter.name)),
        })),
      pinned: config.pin.includes(name),
      chatTemplate: templateOf(name),
      toolFormat: formatOf(name),
      projectorPath: projectorOf(name, name === defaultName),
      draftPath: draftOf(name, name === defaultName),
    }));
  };
  // Whoever names models wants none that happens to be there in their place.
  const given = findModels({ paths });
  if (given.length > 0 && !given.some(isSound)) throw new ConfigError(`--model: ${given[0]?.problem}`);
  const found = look();
  const models = servable(found);
  if (models.length === 0) throw new ConfigError(`--model: ${found[0]?.problem}`);
  const names = new Set(models.map(({ name }) => name));
  for (const { model } of adapters) mustExist('--adapter', model, names);
  const adapted = adapters.map(({ model, name }) => adapterName(model, name));
  const twice = adapted.find((name, index) => adapted.indexOf(name) !== index);
  if (twice !== undefined) throw new ConfigError(`--adapter: ${twice} is given twice`);
  for (const { alias, name } of aliases) mustExist('--alias', name, new Set([...names, ...adapted]), alias);
  for (const name of config.pin) mustExist('--pin', name, names);
  for (const name of config.preload) mustExist('--preload', name, names);
  for (const name of templateOf.names) mustExist('--chat-template', name, names);
  for (const name of draftOf.names) mustExist('--draft', name, names);
  for (const name of projectorOf.names) mustExist('--mmproj', name, names);
  return { models, find: () => servable(look()), broken: () => lastFound.filter((one) => !isSound(one)) };
}

export function chosenTemplates({ chatTemplate }: Pick<Config, 'chatTemplate'>) {
  const chosen = new Map<string | undefined, ChosenTemplate>();
  for (const text of chatTemplate) {
    const { name, path } = parseModelPath(text);
    try {
      chosen.set(name, readChosenTemplate(path, name !== undefined));
    } catch (error) {
      throw new ConfigError(`--chat-template: ${messageOf(error)}`);
    }
  }
  const find = (name: string) => chosen.get(name) ?? chosen.get(undefined);
  return Object.assign(find, { names: [...chosen.keys()].filter((name) => name !== undefined) });
}

/** By name of a model: what its content must begin with. */
export function pinnedContents({ modelContent }: Pick<Config, 'modelContent'>): ReadonlyMap<string, string> {
  return new Map(
    modelContent.map((text) => {
      const [, name, content] = /^(.+)=([0-9a-f]{12,}(?:-[0-9a-f]*)?)$/.exec(text) ?? [];
      if (name !== undefined && content !== undefined) return [name, content];
      throw new ConfigError(
        `--model-content: '${text}' is not name=content, with 12 digits or more as chairlift fleet shows them`,
      );
    }),
  );
}

export function chosenFormats({ toolFormat }: Pick<Config, 'toolFormat'>) {
  const chosen = new Map<string | undefined, FormatName>();
  for (const text of toolFormat) {
    const { name, path: given } = parseModelPath(text);
    const format = formatNames.find((one) => one === given);
    if (format === undefined)
      throw new ConfigError(`--tool-format: '${given}' is none of ${formatNames.join(', ')}`);
    chosen.set(name, format);
  }
  return (name: string) => chosen.get(name) ?? chosen.get(undefined);
}

/** One without a name drafts for the default model. */
function chosenDrafts({ draft }: Pick<Config, 'draft'>, homes: ModelHomes) {
  const chosen = new Map<string | undefined, string>();
  for (const text of draft) {
    const { name, path: given } = parseModelPath(text);
    const { path, problem } = locateModel(given, homes);
    if (problem !== undefined) throw new ConfigError(`--draft: ${problem}`);
    chosen.set(name, path);
  }
  const find = (name: string, isDefault: boolean) =>
    chosen.get(name) ?? (isDefault ? chosen.get(undefined) : undefined);
  return Object.assign(find, { names: [...chosen.keys()].filter((name) => name !== undefined) });
}

function isSound({ problem }: ModelOnDisk): boolean {
  return problem === undefined;
}

export function poolOptions(
  config: Config,
  models: PoolModels,
  gpu: GpuChoice = { backend: config.backend },
  limits: MachineLimits = machineLimits(),
): Omit<PoolOptions, 'onEvent'> {
  const { kvType, kvBlocks: blocks, kvMemory: bytes } = config;
  const refusal = kvTypeRefusal(kvType, gpu.backend);
  if (refusal !== undefined) throw new ConfigError(`--kv-type: ${refusal}`);
  return {
    ...models,
    memoryBytes: memoryBudget(config, gpu, limits),
    cores: limits.cores,
    keepAliveMs: orNever(config.keepAlive),
    stepTimeoutMs: orNever(config.stepTimeout),
    engine: engineChoice(config, gpu),
    kv: defined({ kvType, blocks, bytes, layerBytes: gpu.bindingBytes }),
  };
}

/**
 * A GPU with its own memory has its own budget, unless a total was set; with unified memory all limits of the machine
 * hold.
 */
function memoryBudget(config: Config, gpu: GpuChoice, limits: MachineLimits): number {
  const gpuMemory = isGpuBackend(gpu.backend) ? config.gpuMemory : undefined;
  if (gpu.memoryBytes !== undefined) {
    const own = Math.floor(GPU_MEMORY_SHARE * gpu.memoryBytes);
    return gpuMemory ?? Math.min(own, config.memory ?? own);
  }
  const shared = config.memory ?? Math.floor(MEMORY_SHARE * limits.memoryBytes);
  if (gpuMemory !== undefined) return config.memory === undefined ? gpuMemory : Math.min(gpuMemory, shared);
  return Math.min(shared, gpu.unifiedBytes ?? shared);
}

function engineChoice(config: Config, { backend }: GpuChoice): EngineChoice {
  const { gpu, threads, direct, maxBatchSize, context: contextLength } = config;
  return defined({
    backend,
    ...(isGpuBackend(backend) ? { gpu } : {}),
    images: config.vision,
    threads,
    tiers: tierSettings(config),
    slots: slotSettings(config),
    engine: defined({
      direct,
      maxBatchSize,
      contextLength,
      budget: stepBudget(config),
      speculation: config.speculation !== 'off',
    }),
  });
}

/** Its files are sealed with the key of the blocks on disk where that was given, or with one of its own. */
function slotSettings({ slotSavePath, cacheDiskKey }: Config): EngineSettings['slots'] {
  if (slotSavePath === undefined) return undefined;
  return defined({ folder: resolve(slotSavePath), keyFile: cacheDiskKey && resolve(cacheDiskKey) });
}

function tierSettings({
  cacheHostSize,
  cacheDisk,
  cacheDiskSize: sizeBytes,
  cacheDiskAge,
  cacheDiskKey,
}: Config): EngineSettings['tiers'] {
  if (cacheHostSize === undefined && cacheDisk === undefined) return undefined;
  const hostBytes = cacheHostSize ?? 0;
  if (cacheDisk === undefined) return { hostBytes };
  return {
    hostBytes,
    disk: defined({
      folder: resolve(cacheDisk),
      sizeBytes,
      ageMs: orNever(cacheDiskAge),
      keyFile: cacheDiskKey && resolve(cacheDiskKey),
    }),
  };
}

function stepBudget({ targetStepMs, maxStepTokens }: Config): EngineSettings['engine']['budget'] {
  if (targetStepMs !== undefined)
    return { kind: 'adaptive', targetStepMs, maxStepTokens: maxStepTokens ?? MOST_STEP_TOKENS };
  return maxStepTokens === undefined ? undefined : { kind: 'fixed', maxStepTokens };
}

/** 0 means no limit. */
function orNever(seconds: number): number | undefined {
  return seconds === 0 ? undefined : seconds * 1000;
}

type Defined<Given> = {
  [Name in keyof Given as undefined extends Given[Name] ? never : Name]: Given[Name];
} & {
  [Name in keyof Given as undefined extends Given[Name] ? Name : never]?: Exclude<Given[Name], undefined>;
};

function defined<Given extends object>(given: Given): Defined<Given> {
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as Defined<Given>;
}

function givenAdapter(text: string): GivenAdapter {
  try {
    return readGivenAdapter(text);
  } catch (error) {
    throw new ConfigError(`--adapter: ${messageOf(error)}`);
  }
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
