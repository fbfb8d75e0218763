// `chairlift bench serve`: puts load on an OpenAI-compatible server and reports latency and throughput. Progress and
// tables go to standard error; standard output is one line of JSON.

import { statSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { RowTable } from '../bench/plot/page.ts';
import {
  KEY_FORMS,
  type KeyShare,
  LENGTH_FORMS,
  type LengthDistribution,
  noKey,
  parseKey,
  parseLengths,
} from '../bench/serve/load-plan.ts';
import { reportPage } from '../bench/serve/report-page.ts';
import { failureTable, keyTable, latencyTable, notesOn, overviewRows } from '../bench/serve/report-rows.ts';
import { GOODPUT_FORM, type GoodputLimits, parseGoodput } from '../bench/serve/request-record.ts';
import { LiveLoad, type Phase } from '../bench/serve/run-load.ts';
import { benchServer } from '../bench/serve/serve-bench.ts';
import { fullJson, type ServeReport, type ServeSettings, summaryJson } from '../bench/serve/serve-report.ts';
import { baseUrlOf, type Endpoint, TargetError } from '../bench/serve/target.ts';
import { parseCount, parseInteger, parseTemperature } from './flags.ts';
import { DEFAULT_URL } from './server-client.ts';
import { formatTable, progressBar } from './terminal.ts';
import { UsageError } from './usage-error.ts';

interface BenchServeOptions {
  readonly url: string;
  readonly model?: string;
  readonly key?: readonly KeyShare[];
  readonly requests: number;
  readonly rate?: number;
  readonly concurrency?: number;
  readonly promptTokens: LengthDistribution;
  readonly outputTokens: LengthDistribution;
  readonly prefixTokens: number;
  readonly prefixes: number;
  readonly endpoint: Endpoint;
  readonly temperature: number;
  readonly seed: number;
  readonly ignoreEos?: true;
  readonly warmup: number;
  readonly timeoutMs: number;
  readonly goodput?: GoodputLimits;
  readonly json?: string;
  readonly html?: string;
  readonly quiet?: true;
}

const DEFAULT_CONCURRENCY = 8;
const INTERRUPTED_EXIT = 130;
/** The limit of timers. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

export function addBenchServe(parent: Command): void {
  parent
    .command('serve')
    .description('put load on an OpenAI-compatible server; measure latency and throughput')
    .option('--url <url>', 'where the server is, with or without /v1', DEFAULT_URL)
    .option('-m, --model <model>', "the model; the server's first where unset")
    .option('--key <key>', `API key, repeatable: ${KEY_FORMS}`, collectKey)
    .option('--requests <n>', 'requests to send', parseCount, 100)
    .option('--rate <r>', 'requests a second, arriving at random (Poisson)', parseRate)
    .option(
      '--concurrency <n>',
      `requests at once; with --rate a cap; else ${DEFAULT_CONCURRENCY}`,
      parseCount,
    )
    .addOption(lengthOption('--prompt-tokens <lengths>', `prompt lengths: ${LENGTH_FORMS}`, 256))
    .addOption(lengthOption('--output-tokens <lengths>', 'answer lengths, in the same forms', 128))
    .option('--prefix-tokens <n>', 'tokens of a shared beginning before each prompt', parseFromZero, 0)
    .option('--prefixes <n>', 'how many different shared beginnings', parseCount, 1)
    .addOption(
      new Option('--endpoint <name>', 'which completions').choices(['chat', 'completions']).default('chat'),
    )
    .option('--temperature <t>', '0 takes the likeliest token each time', parseTemperature, 0)
    .option('--seed <n>', 'the same seed makes the same load', parseInteger, 0)
    .option('--ignore-eos', 'answers of full length, where the server knows ignore_eos')
    .option('--warmup <n>', 'requests before, which do not count', parseFromZero, 0)
    .option('--timeout-ms <n>', 'a request that takes longer has failed', parseTimeout, 600_000)
    .option('--goodput <limits>', `count requests within limits: ${GOODPUT_FORM}`, parseLimits)
    .option('--json <file>', 'write everything, each request included; - for standard output')
    .option('--html <file>', 'write a page with plots')
    .option('--quiet', 'no progress and no tables')
    .action(benchServe);
}

async function benchServe(options: BenchServeOptions): Promise<void> {
  const settings = settingsOf(options);
  for (const file of [options.json, options.html]) checkFolder(file);
  const interrupted = new AbortController();
  const onInterrupt = () => interrupted.abort();
  // A second one ends the program at once.
  process.once('SIGINT', onInterrupt);
  const live = new LiveLoad();
  const endProgress = options.quiet ? () => {} : showProgress(live);
  let report: ServeReport;
  try {
    report = await benchServer(settings, { signal: interrupted.signal, live });
  } catch (error) {
    if (interrupted.signal.aborted) throw new UsageError('ended before the load began');
    throw error instanceof TargetError ? new UsageError(error.message) : error;
  } finally {
    process.off('SIGINT', onInterrupt);
    endProgress();
  }
  writeReport(report, options);
  if (interrupted.signal.aborted) process.exitCode = INTERRUPTED_EXIT;
  else if (report.summary.completed === 0) process.exitCode = 1;
}

function writeReport(report: ServeReport, { json, html, quiet }: BenchServeOptions): void {
  if (!quiet) process.stderr.write(`${reportText(report)}\n`);
  if (html !== undefined) writeFileSync(html, reportPage(report));
  if (json !== undefined && json !== '-') writeFileSync(json, `${fullJson(report)}\n`);
  process.stdout.write(`${json === '-' ? fullJson(report) : summaryJson(report)}\n`);
}

function settingsOf(options: BenchServeOptions): ServeSettings {
  const baseUrl = baseUrlOf(options.url);
  if (baseUrl === undefined) {
    throw new UsageError(`--url: ${options.url} is no address; give one such as ${DEFAULT_URL}`);
  }
  const { rate, concurrency, key: keys = [noKey] } = options;
  const names = keys.map(({ name }) => name);
  const twice = names.find((name, n) => names.indexOf(name) !== n);
  if (twice !== undefined) throw new UsageError(`--key: two keys have the name '${twice}'`);
  return {
    baseUrl,
    model: options.model,
    endpoint: options.endpoint,
    keys,
    requests: options.requests,
    warmup: options.warmup,
    requestsPerSecond: rate,
    concurrency: concurrency ?? (rate === undefined ? DEFAULT_CONCURRENCY : undefined),
    promptTokens: options.promptTokens,
    outputTokens: options.outputTokens,
    prefixes: options.prefixes,
    prefixTokens: options.prefixTokens,
    temperature: options.temperature,
    seed: options.seed,
    ignoreEos: options.ignoreEos === true,
    timeoutMs: options.timeoutMs,
    goodput: options.goodput,
  };
}

function checkFolder(file: string | undefined): void {
  if (file === undefined || file === '-') return;
  const folder = dirname(resolve(file));
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new UsageError(`${file} cannot be written: there is no folder ${folder}`);
  }
}

function lengthOption(flags: string, description: string, tokens: number): Option {
  const option = new Option(flags, description).argParser((text) => {
    const lengths = parseLengths(text);
    if (lengths === undefined) throw new InvalidArgumentError(`give ${LENGTH_FORMS}`);
    return lengths;
  });
  return option.default({ kind: 'fixed', tokens } satisfies LengthDistribution, String(tokens));
}

function collectKey(text: string, before: readonly KeyShare[] = []): KeyShare[] {
  const key = parseKey(text, before.length + 1);
  if (key === undefined) throw new InvalidArgumentError(`give ${KEY_FORMS}, with a weight above 0`);
  return [...before, key];
}

function parseLimits(text: string): GoodputLimits {
  const limits = parseGoodput(text);
  if (limits === undefined) throw new InvalidArgumentError(`give ${GOODPUT_FORM}`);
  return limits;
}

function parseRate(text: string): number {
  const rate = Number(text);
  if (text.trim() === '' || !Number.isFinite(rate) || rate <= 0) {
    throw new InvalidArgumentError('give a number above 0');
  }
  return rate;
}

function parseFromZero(text: string): number {
  const value = parseInteger(text);
  if (value < 0) throw new InvalidArgumentError('give a whole number from 0');
  return value;
}

function parseTimeout(text: string): number {
  const value = parseCount(text);
  if (value > LONGEST_TIMEOUT_MS) throw new InvalidArgumentError(`give at most ${LONGEST_TIMEOUT_MS}`);
  return value;
}

const BAR_MS = 200;
const LINE_MS = 5000;
const BAR_COLUMNS = 'bench [] 100% '.length + 30;

const labels: Readonly<Record<Phase, string>> = {
  calibrate: 'calibrating',
  'warm-up': 'warming up',
  load: 'load',
};

/** Polls by a timer, so that requests are not delayed; returns what ends it. */
function showProgress(live: LiveLoad, stream: NodeJS.WriteStream = process.stderr): () => void {
  const bar = progressBar('bench', stream);
  const update = () => {
    const nowMs = performance.now();
    const share = live.total === 0 ? 0 : live.done / live.total;
    if (stream.isTTY) bar.update(share, progressNote(live, nowMs).slice(0, roomFor(stream)));
    else if (live.total > 0) stream.write(`${progressNote(live, nowMs)}\n`);
  };
  const timer = setInterval(update, stream.isTTY ? BAR_MS : LINE_MS);
  return () => {
    clearInterval(timer);
    bar.end();
  };
}

/** A wrapped line could not be erased. */
function roomFor({ columns = 80 }: NodeJS.WriteStream): number {
  return Math.max(0, columns - BAR_COLUMNS);
}

export function progressNote(live: LiveLoad, nowMs: number): string {
  const { phase, done, total, running, errors, chunks, startedMs } = live;
  if (total === 0) return labels[phase];
  const seconds = (nowMs - startedMs) / 1000;
  return [
    `${labels[phase]} ${done}/${total}`,
    `${running} running`,
    ...(errors > 0 ? [`${errors} failed`] : []),
    `${seconds > 0 ? Math.round(chunks / seconds).toLocaleString('en-US') : 0} tokens/s`,
    ...(done > 0 && done < total ? [`${formatSeconds((seconds / done) * (total - done))} left`] : []),
  ].join(', ');
}

function formatSeconds(seconds: number): string {
  const whole = Math.ceil(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

function reportText(report: ServeReport): string {
  const { summary, model, url } = report;
  return [
    `${model} at ${url}`,
    formatTable(overviewRows(report)),
    layOut(latencyTable(summary)),
    layOut(keyTable(report)),
    layOut(failureTable(summary)),
    notesOn(report).join('\n'),
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

function layOut(table: RowTable | undefined): string {
  if (table === undefined) return '';
  const { headings, rows } = table;
  const lines = [headings, ...rows];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const isText = headings.map((_, column) => rows.some((row) => /^[a-z]/i.test(row[column] ?? '')));
  const place = (text: string, column: number) => {
    const width = widths[column] ?? 0;
    return isText[column] ? text.padEnd(width) : text.padStart(width);
  };
  return lines.map((line) => line.map(place).join('  ').trimEnd()).join('\n');
}
