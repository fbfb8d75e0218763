// The settings that count, for people: where each value comes from, without secrets, and what settings that nobody has given
// come to on this machine.

import { hostname } from 'node:os';
import { chooseBackend } from '../compute/choose-backend.ts';
import type { Config, ResolvedConfig } from '../config.ts';
import {
  type ConfigOption,
  configOptions,
  flagOf,
  type OptionKind,
  type OptionName,
  optionGroups,
  optionNames,
  variableOf,
} from '../config-options.ts';
import { plainMeaning, settingText } from '../config-text.ts';
import { machineLimits } from '../runtime/limits.ts';
import type { EffectiveSetting, EffectiveSettings } from '../server/effective-settings.ts';
import { defaultDatabasePath } from '../store/database.ts';
import { withoutPassword } from '../store/postgres-address.ts';
import { chooseGpu, type GpuChoice, isGpuBackend } from './gpu-choice.ts';
import { modelsFolder, poolOptions } from './pool-settings.ts';

export type ChosenSettings = { readonly [Name in OptionName]?: string | number };

/** What weights and KV of all models may take together. */
export async function modelMemoryBytes(config: Config): Promise<number> {
  return poolOptions(config, { models: [] }, await chooseGpu(config)).memoryBytes;
}

/** Only of those that are unset. A number is what the setting would have; a text says what counts in its place. */
export async function chosenSettings(
  config: Config,
  home: string,
  choose: (config: Config) => Promise<GpuChoice> = chooseGpu,
): Promise<ChosenSettings> {
  const gpu = await choose(config);
  const limits = machineLimits();
  const budget = poolOptions(config, { models: [] }, gpu, limits).memoryBytes;
  const isGpuOnly = isGpuBackend(gpu.backend) && gpu.memoryBytes !== undefined;
  const chosen: ChosenSettings = {
    modelsFolder: modelsFolder(config, home),
    database: defaultDatabasePath(),
    ...(config.adminPort === undefined ? {} : { adminHost: config.host }),
    backend: gpu.backend ?? chooseBackend(undefined).name,
    ...(isGpuOnly ? { gpuMemory: budget } : { memory: budget }),
    threads: limits.cores,
    context: 'that of each model',
    maxBatchSize: 'what memory allows',
    targetStepMs: 'measured at the start',
    ...(config.kvBlocks === undefined && config.kvMemory === undefined
      ? { kvMemory: 'grows with the need' }
      : {}),
    ...(config.join.length === 0 ? {} : { node: hostname() }),
  };
  const unset = Object.entries(chosen).filter(([name]) => config[name as OptionName] === undefined);
  return Object.fromEntries(unset);
}

/** In the order and the groups of the help. */
export function effectiveSettings(resolved: ResolvedConfig, chosen: ChosenSettings): EffectiveSettings {
  const { config, sources, file } = withoutSecrets(resolved);
  let group = '';
  const settings = optionNames.map((name): EffectiveSetting => {
    const { kind, meaning, default: standard, secret }: ConfigOption = configOptions[name];
    group = optionGroups[name] ?? group;
    const given = config[name];
    const value = given ?? rounded(kind, chosen[name]);
    return {
      name,
      group,
      flag: flagOf(name),
      variable: variableOf(name),
      meaning: plainMeaning(meaning),
      ...(kind.type === 'choice' ? { choices: kind.values } : {}),
      ...(standard === undefined ? {} : { default: settingText(kind, standard) }),
      ...(value === undefined ? {} : { value: settingText(kind, value) }),
      source: given === undefined && value !== undefined ? 'chosen here' : sources[name],
      ...(secret ? { secret } : {}),
    };
  });
  return { ...(file === undefined ? {} : { file }), settings };
}

/** What the machine comes to is not known to the byte. */
function rounded({ type }: OptionKind, value: string | number | undefined): string | number | undefined {
  const isBytes = type === 'bytes' && typeof value === 'number';
  return isBytes ? value - (value % 1024 ** 2) : value;
}

const HIDDEN = '(hidden)';

/** Hides passwords, also in addresses. */
export function withoutSecrets(resolved: ResolvedConfig): ResolvedConfig {
  const { config } = resolved;
  const secrets = optionNames.filter(
    (name) => (configOptions[name] as ConfigOption).secret && config[name] !== undefined,
  );
  return {
    ...resolved,
    config: {
      ...config,
      ...Object.fromEntries(secrets.map((name) => [name, HIDDEN])),
      ...(config.database === undefined ? {} : { database: withoutPassword(config.database) }),
      upstreams: config.upstreams.map((one) => ({
        ...one,
        url: one.url.replace(/\/\/.*@/s, '//'),
        ...(one.key === undefined ? {} : { key: HIDDEN }),
      })),
      join: config.join.map((address) => address.replace(/^([a-z]+:\/\/)?.*@/is, '$1')),
    },
  };
}
