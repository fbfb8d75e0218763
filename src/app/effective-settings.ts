// What settings that nobody has given come to on this machine, as the server would choose them.

import { hostname } from 'node:os';
import { chooseBackend } from '../compute/choose-backend.ts';
import type { Config } from '../config.ts';
import type { OptionName } from '../config-options.ts';
import { machineLimits } from '../runtime/limits.ts';
import { defaultDatabasePath } from '../store/database.ts';
import { chooseGpu, type GpuChoice, isGpuBackend } from './gpu-choice.ts';
import { modelsFolder, poolOptions } from './pool-settings.ts';

export type ChosenSettings = { readonly [Name in OptionName]?: string | number };

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
