// `chairlift bench offline`: how fast a model runs on this machine, without a server. Progress and tables go to
// standard error; standard output is one line of JSON.

import { statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, dirname, resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { dummyModel, parseDummy } from '../bench/dummy-model.ts';
import { dummyShapes } from '../bench/dummy-shapes.ts';
import { dummyTypes } from '../bench/dummy-weights.ts';
import { benchOffline, type OfflineModel } from '../bench/offline/offline-bench.ts';
import type { OfflineReport } from '../bench/offline/offline-report.ts';
import { OfflineError, type OfflineSettings } from '../bench/offline/offline-settings.ts';
import { throughputPlot } from '../bench/offline/throughput-plot.ts';
import { writeGguf } from '../bench/write-gguf.ts';
import type { KvType } from '../compute/backend.ts';
import { BackendUnavailableError } from '../compute/choose-backend.ts';
import { type Addon, loadAddon } from '../compute/cpu/binding.ts';
import { buildSpec } from '../model/build-spec.ts';
import type { GgufFile } from '../weights/gguf.ts';
import { openModelFiles } from '../weights/open-model.ts';
import { parseCount } from './arguments.ts';
import { offlineReportText } from './bench-offline-table.ts';
import { progressBar } from './progress-bar.ts';
import { formatBytes } from './table.ts';
import { UsageError } from './usage-error.ts';

interface BenchOfflineOptions {
  readonly model?: string;
  readonly dummy?: GgufFile;
  readonly streams: readonly number[];
  readonly prompt: number;
  readonly tokens: number;
  readonly prefix?: number;
  readonly threads?: number;
  readonly kvType: KvType;
  readonly repeats: number;
  readonly write?: string;
  readonly json?: string;
  readonly plot?: string;
}

const dummyForms =
  `SHAPE:TYPE, of the shapes ${Object.keys(dummyShapes).join(', ')} ` +
  `and the types ${dummyTypes.join(', ').toLowerCase()}`;
const defaultStreams = [1, 2, 4, 8, 16, 32];
const MOST_STREAMS = 1024;

export function addBenchOffline(parent: Command): void {
  parent
    .command('offline')
    .description('measure how fast a model runs on this machine, without a server')
    .option('--model <path>', 'a .gguf file, a .safetensors file or a model folder')
    .option('--dummy <shape:type>', `random weights in place of a model: ${dummyForms}`, parseDummyModel)
    .addOption(
      new Option('--streams <list>', 'how many sequences decode at once')
        .argParser(parseStreams)
        .default(defaultStreams, defaultStreams.join(',')),
    )
    .option('--prompt <n>', 'tokens of each prompt', parseCount, 256)
    .option('--tokens <n>', 'tokens of each answer', parseCount, 64)
    .option('--prefix <n>', 'also measure a prompt of so many tokens, cold and cached', parseCount)
    .option('--threads <n>', 'threads that compute; all of the machine where unset', parseCount)
    .addOption(new Option('--kv-type <type>', 'how K and V are kept').choices(['f16', 'q8']).default('f16'))
    .option('--repeats <n>', 'how often each measurement is made', parseCount, 1)
    .option(
      '--write <file>',
      'write the --dummy model as a GGUF file; measured, from that file, only if --streams is given',
    )
    .option('--json <file>', 'write the JSON to a file, too; - for standard output alone')
    .option('--plot <file>', 'draw throughput over streams as SVG')
    .action((options: BenchOfflineOptions, command: Command) =>
      run(options, command.getOptionValueSource('streams') === 'cli'),
    );
}

async function run(options: BenchOfflineOptions, streamsGiven: boolean): Promise<void> {
  const { model, dummy, write, json, plot } = options;
  if ((model === undefined) === (dummy === undefined)) throw new UsageError('give either --model or --dummy');
  if (write !== undefined) {
    if (dummy === undefined) throw new UsageError('--write: only a --dummy model is written');
    await writeModel(dummy, write);
    if (!streamsGiven) return;
  }
  for (const file of [json, plot]) checkFolder(file);
  const load = loadAddon();
  if (!load.available) throw new BackendUnavailableError(`the cpu backend is not available: ${load.reason}`);
  const opened = openModel(options);
  try {
    writeReport(await measure(load.addon, opened, settingsOf(options)), options);
  } catch (error) {
    throw error instanceof OfflineError ? new UsageError(error.message) : error;
  } finally {
    opened.weights.close();
  }
}

/** A dummy that was written is measured from its file. */
function openModel({ model, dummy, write }: BenchOfflineOptions): OfflineModel {
  if (dummy !== undefined && write === undefined) {
    return { name: dummy.path, source: 'random', spec: buildSpec(dummy), weights: dummy.weights };
  }
  const files = openModelFiles(write ?? (model as string));
  try {
    return { name: basename(files.path), source: 'file', spec: buildSpec(files), weights: files.weights };
  } catch (error) {
    files.weights.close();
    throw error;
  }
}

function measure(addon: Addon, model: OfflineModel, settings: OfflineSettings): Promise<OfflineReport> {
  const bar = progressBar('loading');
  return benchOffline(addon, model, settings, {
    onLoad: bar.update,
    onPhase(text) {
      bar.end();
      process.stderr.write(`${text} …\n`);
    },
  });
}

function settingsOf(options: BenchOfflineOptions): OfflineSettings {
  return {
    streams: options.streams,
    promptTokens: options.prompt,
    outputTokens: options.tokens,
    threads: options.threads ?? availableParallelism(),
    kvType: options.kvType,
    repeats: options.repeats,
    prefixTokens: options.prefix,
  };
}

async function writeModel(dummy: GgufFile, path: string): Promise<void> {
  const bar = progressBar('writing');
  try {
    const bytes = await writeGguf(dummy, path, bar.update);
    bar.end();
    process.stderr.write(`${dummy.path} written to ${path}, ${formatBytes(bytes)}\n`);
  } finally {
    bar.end();
  }
}

function writeReport(report: OfflineReport, { json, plot }: BenchOfflineOptions): void {
  process.stderr.write(`\n${offlineReportText(report)}\n\n`);
  const line = `${JSON.stringify(report)}\n`;
  if (plot !== undefined) writeFileSync(plot, throughputPlot(report));
  if (json !== undefined && json !== '-') writeFileSync(json, line);
  process.stdout.write(line);
}

/** Before the measurement, not after it. */
function checkFolder(file: string | undefined): void {
  if (file === undefined || file === '-') return;
  const folder = dirname(resolve(file));
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new UsageError(`${file} cannot be written: there is no folder ${folder}`);
  }
}

function parseDummyModel(text: string): GgufFile {
  const wish = parseDummy(text);
  if (wish === undefined) throw new InvalidArgumentError(`give ${dummyForms}`);
  return dummyModel(wish.shape, wish.type);
}

function parseStreams(text: string): number[] {
  const counts = text.split(',').map((part) => Number(part.trim() === '' ? Number.NaN : part));
  const valid = counts.every((count) => Number.isInteger(count) && count >= 1 && count <= MOST_STREAMS);
  if (!valid) throw new InvalidArgumentError(`give whole numbers from 1 to ${MOST_STREAMS}, such as 1,8,16`);
  return counts;
}
