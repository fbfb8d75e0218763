// `chairlift bench offline`: how fast a model runs on this machine, without a server. Compares one-by-one with batched
// serving; --streams, --prompt or --prefix measure prompts and decoding apart instead. Progress and tables go to standard
// error; standard output is one line of JSON.

import { statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { chooseBenchTarget } from '../app/bench-target.ts';
import { type BenchObserver, benchComparison } from '../bench/comparison/compare.ts';
import { comparisonPlot } from '../bench/comparison/comparison-report.ts';
import { type Dummy, dummyModel, parseDummy } from '../bench/dummy-model.ts';
import { dummyShapes } from '../bench/dummy-shapes.ts';
import { dummyTypes } from '../bench/dummy-weights.ts';
import { benchOffline, throughputPlot } from '../bench/offline/offline-bench.ts';
import {
  OfflineError,
  type OfflineModel,
  type OfflineSettings,
  openOfflineModel,
} from '../bench/offline/offline-settings.ts';
import type { BenchTarget } from '../bench/offline/target.ts';
import { writeGguf } from '../bench/write-gguf.ts';
import { type KvType, kvTypes } from '../compute/backend.ts';
import { buildSpec } from '../model/build-spec.ts';
import { embeddedModelPath } from '../pool/model-homes.ts';
import { formatBytes } from '../text/byte-size.ts';
import type { GgufFile } from '../weights/gguf.ts';
import { comparisonText, offlineReportText } from './bench-tables.ts';
import { parseCount } from './flags.ts';
import { MODEL_MEANING, parseModel } from './models-on-disk.ts';
import { progressBar } from './terminal.ts';
import { UsageError } from './usage-error.ts';

interface BenchOfflineOptions {
  readonly model?: string;
  readonly dummy?: Dummy;
  readonly layers?: number;
  readonly prompts?: readonly number[];
  readonly concurrencies?: readonly number[];
  readonly requests?: number;
  readonly streams?: readonly number[];
  readonly prompt?: number;
  readonly prefix?: number;
  readonly acceptanceRate?: number;
  /** The former name of `acceptanceRate`. */
  readonly guesses?: number;
  readonly tokens?: number;
  readonly backend?: 'cpu' | 'cuda' | 'webgpu';
  readonly gpu?: string;
  readonly threads?: number;
  readonly kvType: KvType;
  readonly repeats?: number;
  readonly write?: string;
  readonly json?: string;
  readonly plot?: string;
}

type OptionName = keyof BenchOfflineOptions;

/** Each selects one of the two measurements. */
const comparisonOptions = ['prompts', 'concurrencies', 'requests'] as const satisfies readonly OptionName[];
const streamsOptions = [
  'streams',
  'prompt',
  'prefix',
  'acceptanceRate',
  'guesses',
] as const satisfies readonly OptionName[];

const dummyForms =
  `SHAPE:TYPE, of the shapes ${Object.keys(dummyShapes).join(', ')} ` +
  `and the types ${dummyTypes.join(', ').toLowerCase()}`;
const DEFAULT_STREAMS = [1, 2, 4, 8, 16, 32];
const DEFAULT_PROMPT = 256;
const DEFAULT_TOKENS = 64;
const MOST_STREAMS = 1024;

export function addBenchOffline(parent: Command): void {
  parent
    .command('offline')
    .description(
      'measure a model on this machine, without a server: requests one by one and the same in a batch; ' +
        'with --streams, --prompt or --prefix how fast it computes prompts and decodes',
    )
    .option('-m, --model <path>', `${MODEL_MEANING}; else the embedded model`, parseModel)
    .option('--dummy <shape:type>', `random weights in place of a model: ${dummyForms}`, parseDummyName)
    .option('--layers <n>', 'of the --dummy model, the first so many', parseCount)
    .option('--prompts <list>', 'compare: tokens of the prompts (default: 32,128,512)', parseLengths)
    .option('--concurrencies <list>', 'compare: requests at once (default: 4,8,16)', parseStreams)
    .option('--requests <n>', 'compare: requests of a trial (default: twice those at once)', parseCount)
    .option('--streams <list>', 'how many sequences decode at once (default: 1,2,4,8,16,32)', parseStreams)
    .option('--prompt <n>', 'with streams: tokens of each prompt (default: 256)', parseCount)
    .option('--prefix <n>', 'also measure a prompt of so many tokens, cold and cached', parseCount)
    .option(
      '--acceptance-rate <share>',
      'also decode with draft tokens of which this share is right',
      parseShare,
    )
    .addOption(
      new Option('--guesses <share>', 'the former name of --acceptance-rate')
        .argParser(parseShare)
        .hideHelp(),
    )
    .option('--tokens <n>', 'tokens of each answer (default: 32, with streams 64)', parseCount)
    .addOption(
      new Option('--backend <name>', 'what computes; as serve chooses where unset').choices([
        'cpu',
        'cuda',
        'webgpu',
      ]),
    )
    .option('--gpu <name>', 'one of several GPUs')
    .option('--threads <n>', 'threads that compute; all of the machine where unset', parseCount)
    .addOption(new Option('--kv-type <type>', 'how K and V are kept').choices(kvTypes).default('f16'))
    .option('--repeats <n>', 'how often each measurement is made (default: 3, with streams once)', parseCount)
    .option(
      '--write <file>',
      'write the --dummy model as a GGUF file; measured, from that file, only if options say what to measure',
    )
    .option('--json <file>', 'write the JSON to a file, too; - for standard output alone')
    .option('--plot <file>', 'draw throughput over streams, or over requests at once, as SVG')
    .action(run);
}

async function run(options: BenchOfflineOptions): Promise<void> {
  const { model, write, json, plot } = options;
  const dummy = makeDummy(options);
  if (model !== undefined && dummy !== undefined) throw new UsageError('give either --model or --dummy');
  const ofComparison = comparisonOptions.find((name) => options[name] !== undefined);
  const ofStreams = streamsOptions.find((name) => options[name] !== undefined);
  if (ofComparison !== undefined && ofStreams !== undefined) {
    const flag = ofStreams.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    throw new UsageError(`--${ofComparison} and --${flag} belong to different measurements: give one`);
  }
  if (write !== undefined) {
    if (dummy === undefined) throw new UsageError('--write: only a --dummy model is written');
    await writeModel(dummy, write);
    if (ofComparison === undefined && ofStreams === undefined) return;
  }
  for (const file of [json, plot]) checkFolder(file);
  const target = await chooseBenchTarget(options);
  const opened = openModel(options, dummy);
  try {
    await (ofStreams === undefined ? compare : measureStreams)(target, opened, options);
  } catch (error) {
    throw error instanceof OfflineError ? usageError(error) : error;
  } finally {
    opened.weights.close();
  }
}

function makeDummy({ dummy, layers }: BenchOfflineOptions): GgufFile | undefined {
  if (dummy === undefined) {
    if (layers !== undefined) throw new UsageError('--layers: only a --dummy model is cut');
    return undefined;
  }
  const most = dummyShapes[dummy.shape].layers;
  if (layers !== undefined && layers > most) throw new UsageError(`--layers: ${dummy.shape} has ${most}`);
  return dummyModel(dummy.shape, dummy.type, layers);
}

/** A dummy that was written is measured from its file. */
function openModel({ model, write }: BenchOfflineOptions, dummy: GgufFile | undefined): OfflineModel {
  if (dummy !== undefined && write === undefined) {
    return { name: dummy.path, source: 'random', spec: buildSpec(dummy), weights: dummy.weights };
  }
  const opened = openOfflineModel(write ?? model ?? embeddedModelPath());
  if (opened.spec.headless !== true) return opened;
  opened.weights.close();
  throw new UsageError('--model: it embeds texts and draws no tokens, which are what is measured');
}

async function compare(
  target: BenchTarget,
  model: OfflineModel,
  options: BenchOfflineOptions,
): Promise<void> {
  const report = await benchComparison(target, model, options, observer());
  writeReport(report, comparisonText(report), comparisonPlot, options);
  // A fast and wrong result must not pass.
  if (report.mismatches.length > 0) process.exitCode = 1;
}

async function measureStreams(
  target: BenchTarget,
  model: OfflineModel,
  options: BenchOfflineOptions,
): Promise<void> {
  const report = await benchOffline(target, model, streamsSettings(options), observer());
  writeReport(report, offlineReportText(report), throughputPlot, options);
}

function observer(): BenchObserver {
  const bar = progressBar('loading');
  return {
    onLoad: bar.update,
    onPhase(text) {
      bar.end();
      process.stderr.write(`${text} …\n`);
    },
  };
}

function streamsSettings(options: BenchOfflineOptions): OfflineSettings {
  return {
    streams: options.streams ?? DEFAULT_STREAMS,
    promptTokens: options.prompt ?? DEFAULT_PROMPT,
    outputTokens: options.tokens ?? DEFAULT_TOKENS,
    threads: options.threads ?? availableParallelism(),
    kvType: options.kvType,
    repeats: options.repeats ?? 1,
    prefixTokens: options.prefix,
    acceptanceRate: options.acceptanceRate ?? options.guesses,
  };
}

function usageError({ option, message }: OfflineError): UsageError {
  return new UsageError(option === undefined ? message : `--${option}: ${message}`);
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

function writeReport<Report>(
  report: Report,
  text: string,
  draw: (report: Report) => string,
  { json, plot }: BenchOfflineOptions,
): void {
  process.stderr.write(`\n${text}\n\n`);
  const line = `${JSON.stringify(report)}\n`;
  if (plot !== undefined) writeFileSync(plot, draw(report));
  if (json !== undefined && json !== '-') writeFileSync(json, line);
  process.stdout.write(line);
}

/** Checked before the measurement. */
function checkFolder(file: string | undefined): void {
  if (file === undefined || file === '-') return;
  const folder = dirname(resolve(file));
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new UsageError(`${file} cannot be written: there is no folder ${folder}`);
  }
}

function parseDummyName(text: string): Dummy {
  const wanted = parseDummy(text);
  if (wanted === undefined) throw new InvalidArgumentError(`give ${dummyForms}`);
  return wanted;
}

function parseStreams(text: string): number[] {
  const counts = wholeNumbers(text);
  if (counts?.every((count) => count <= MOST_STREAMS)) return counts;
  throw new InvalidArgumentError(`give whole numbers from 1 to ${MOST_STREAMS}, such as 1,8,16`);
}

function parseShare(text: string): number {
  const share = text.trim() === '' ? Number.NaN : Number(text);
  if (share >= 0 && share <= 1) return share;
  throw new InvalidArgumentError('give a number from 0 to 1, such as 0.7');
}

function parseLengths(text: string): number[] {
  const counts = wholeNumbers(text);
  if (counts !== undefined) return counts;
  throw new InvalidArgumentError('give whole numbers from 1, such as 32,128,512');
}

function wholeNumbers(text: string): number[] | undefined {
  const numbers = text.split(',').map((part) => Number(part.trim() === '' ? Number.NaN : part));
  return numbers.every((number) => Number.isSafeInteger(number) && number >= 1) ? numbers : undefined;
}
