// `chairlift search WORDS`: models on the Hugging Face hub by words; with `owner/repo`, what of it can be pulled and fits here.

import type { Command } from 'commander';
import { modelMemoryBytes } from '../app/effective-settings.ts';
import { hubSettings } from '../app/hub-settings.ts';
import { processInputs, resolveConfig } from '../config.ts';
import {
  type FoundModel,
  type HubFormat,
  hubFormats,
  type PullableModel,
  pullableModels,
  searchHub,
} from '../pool/hub-search.ts';
import { weightsFit } from '../pool/model-memory.ts';
import { referenceIn } from '../pool/model-reference.ts';
import { formatBytes } from '../text/byte-size.ts';
import { addHubOptions, interruptible, type PullFlags } from './obtain-model.ts';
import { formatColumns } from './terminal.ts';
import { UsageError } from './usage-error.ts';

/** `llama3.2` is a word to search for here. */
const NO_SHORT_NAMES = new Map<string, string>();

interface SearchFlags extends PullFlags {
  readonly format: string;
  readonly json?: true;
}

export function addSearch(program: Command): void {
  const command = program
    .command('search')
    .description('find models on the Hugging Face hub')
    .argument(
      '<words...>',
      'words of its name; or owner/repo, for its files and which of them fit this machine',
    )
    .option('--format <format>', `what the models are written in: ${hubFormats.join(' or ')}`, 'gguf')
    .option('--json', 'print JSON')
    .option('--config <file>', 'config file; ~/.chairlift/config.json where it exists');
  addHubOptions(command).action(search);
}

async function search(words: readonly string[], flags: SearchFlags): Promise<void> {
  const { format } = flags;
  if (!isFormat(format)) throw new UsageError(`--format: give ${hubFormats.join(' or ')}, not ${format}`);
  const hub = hubSettings({ url: flags.hub, token: flags.token });
  const [only = ''] = words;
  const repository = words.length === 1 ? referenceIn(only, NO_SHORT_NAMES) : undefined;
  const print = (data: object, text: string) =>
    process.stdout.write(`${flags.json ? JSON.stringify(data) : text}\n`);
  await interruptible(async (signal) => {
    if (repository === undefined) {
      const found = await searchHub(hub, { words: words.join(' '), format }, signal);
      print(found, layOutFound(found, words.join(' ')));
      return;
    }
    const { config } = resolveConfig(processInputs({ config: flags.config }));
    const budgetBytes = await modelMemoryBytes(config);
    const models = (await pullableModels(hub, repository, signal)).map((model) => ({
      ...model,
      fits: weightsFit(model.sizeBytes, budgetBytes),
    }));
    print(models, layOutModels(models, budgetBytes));
  }, 'stopped');
}

function isFormat(text: string): text is HubFormat {
  return hubFormats.some((known) => known === text);
}

export function layOutFound(found: readonly FoundModel[], words: string): string {
  if (found.length === 0) return `The hub has no model that is called ${words}.`;
  const rows = found.map(({ name, parameters, architecture, supported, downloads, gated }) => [
    name,
    parameters === undefined ? undefined : sizeName(parameters),
    architecture === undefined ? undefined : `${architecture}${supported ? '' : ' (not supported)'}`,
    downloads,
    gated ? 'gated: needs a token' : '',
  ]);
  const [first] = found;
  return [
    formatColumns(['name', 'parameters', 'architecture', 'downloads', ''], rows),
    '',
    `'chairlift search ${first?.name}' shows its files and which of them fit this machine.`,
  ].join('\n');
}

export function layOutModels(
  models: readonly (PullableModel & { readonly fits: boolean })[],
  budgetBytes: number,
): string {
  if (models.length === 0)
    return 'The repository holds no model in GGUF or safetensors, which are the formats served here.';
  const rows = models.map(({ model, quantization, sizeBytes, fits }) => [
    model,
    quantization ?? 'as published',
    formatBytes(sizeBytes),
    fits ? 'yes' : 'no',
  ]);
  const best = models.findLast(({ fits }) => fits);
  return [
    formatColumns(['model', 'quantization', 'size', 'fits'], rows),
    '',
    `Models may take ${formatBytes(budgetBytes)} here ('chairlift config' says why).`,
    ...(best === undefined ? [] : [`'chairlift pull ${best.model}' brings the largest that fits.`]),
  ].join('\n');
}

/** As models are called by their size: 1.24B, 135M. */
function sizeName(parameters: number): string {
  const [unit, name] = parameters >= 1e9 ? [1e9, 'B'] : [1e6, 'M'];
  return `${(parameters / Number(unit)).toPrecision(3)}${name}`;
}
