// `npm run bench -- steps SHAPE:TYPE[,…] [streams] [kernels]`: how long one step of a model of that shape takes, for several
// streams that decode and for a prompt, beside the machine's read bandwidth; with several models, kernel tables, numbers of threads
// or builds of the addon, in turns. `--trace` shows what each thread does. Ends in one JSON line.

import { existsSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { dummyModel } from '#src/bench/dummy-model.ts';
import { decodeStepBytes } from '#src/bench/offline/step-bytes.ts';
import { median } from '#src/bench/statistics.ts';
import { type BatchSequence, buildBatch } from '#src/compute/batch.ts';
import { type CpuBackend, createCpuBackend } from '#src/compute/cpu/backend.ts';
import { type Addon, loadAddon } from '#src/compute/cpu/binding.ts';
import { fileMatrixBytes, sizesOf, weightBytes } from '#src/compute/memory.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import { messageOf } from '#src/runtime/error-message.ts';
import type { NumaNode } from '#src/runtime/numa-nodes.ts';
import { validateSampling } from '#src/sampling/parameters.ts';
import { BusyPrograms } from './busy-programs.ts';
import {
  countFrom,
  dummyFrom,
  fillBlocks,
  giveUp,
  kernelsFrom,
  openAddon,
  print,
  report,
} from './harness.ts';
import { type StepSummary, summarize, summaryText } from './step-summary.ts';
import { readTimeline } from './timeline.ts';
import { type TraceEvent, traceEvents } from './trace-events.ts';

const HISTORY = 200;
const BLOCKS_PER_STREAM = 8;
const PROMPT_TOKENS = 256;
const TRACED_STEPS = 3;
const TRACED_LOOPS = 1 << 14;
const TRACED_PIECES = 1 << 17;
// A step in the midst of one that another program disturbs says little.
const DISTURBED_STEPS = 8;
const BANDWIDTH_MEGABYTES = 1024;

interface Options {
  /** Trace events of a few steps are written to it. */
  readonly trace?: string;
  readonly threads?: string;
  /** Builds of the addon. */
  readonly addon?: string;
  readonly repeats?: string;
  /** Once more with each thread held to a core of its own. */
  readonly pin?: boolean;
  /** Other programs that want a core each, in every second turn. */
  readonly busy?: string;
}

interface Build {
  /** Empty where there is one. */
  readonly name: string;
  readonly addon: Addon;
}

interface Contender {
  readonly model: string;
  readonly kernels: string;
  readonly build: string;
  readonly pinned: boolean;
  readonly threads: number;
  readonly backend: CpuBackend;
  readonly vocabSize: number;
  /** What a step of `streams` streams must read. */
  readonly stepBytes: (streams: number) => number;
}

interface Times {
  readonly alone: readonly number[];
  /** Beside other programs; empty without them. */
  readonly disturbed: readonly number[];
}

const { positionals, values } = readArguments();
const [models = '', streamsText = '1,8,16', kernelsText] = positionals;
const wanted = models.split(',').map(dummyFrom);
const streams = streamsText.split(',').map((text) => countFrom(text, 'streams'));
const threadCounts = (values.threads ?? `${availableParallelism()}`)
  .split(',')
  .map((text) => countFrom(text, 'threads'));
const repeats = countFrom(values.repeats ?? '9', 'repeats');
const busy = values.busy === undefined ? 0 : countFrom(values.busy, 'busy programs');
const builds = openBuilds(values.addon);
const { addon } = builds[0] as Build;
const tables = (kernelsText?.split(',') ?? [undefined]).map((name) => kernelsFrom(name, addon));
const variants = tables.flatMap((kernels) =>
  (values.pin ? [false, true] : [false]).map((pinned) => ({ kernels, pinned })),
);
if (values.trace !== undefined) requireTimelines();

function readArguments(): { readonly positionals: readonly string[]; readonly values: Options } {
  const text = { type: 'string' } as const;
  const options = {
    trace: text,
    threads: text,
    addon: text,
    repeats: text,
    busy: text,
    pin: { type: 'boolean' },
  } as const;
  try {
    return parseArgs({ args: process.argv.slice(2), options, allowPositionals: true });
  } catch (error) {
    return giveUp(messageOf(error));
  }
}

function openBuilds(files: string | undefined): Build[] {
  if (files === undefined) return [{ name: '', addon: openAddon() }];
  return files.split(',').map((file) => {
    if (!existsSync(file)) giveUp(`there is no ${file}`);
    const load = loadAddon(resolve(file));
    return load.available ? { name: file, addon: load.addon } : giveUp(`${file}: ${load.reason}`);
  });
}

function requireTimelines(): void {
  const without = builds.find((build) => build.addon.startTimeline === undefined);
  if (without !== undefined) giveUp(`${without.name} records no timeline: it is too old for --trace`);
}

const stream = (index: number, tokens: readonly number[], start: number): BatchSequence => ({
  tokens,
  start,
  blocks: Array.from({ length: BLOCKS_PER_STREAM }, (_, block) => index * BLOCKS_PER_STREAM + block),
  wantLogits: 'last',
});

/** As if each core were a NUMA node, of which a thread does not leave its own. */
function coresAlone(count: number): NumaNode[] {
  return Array.from({ length: count }, (_, core) => ({ number: core, cores: [core] }));
}

/** One backend computes with all numbers of threads. */
async function openContenders(): Promise<Contender[]> {
  const contenders: Contender[] = [];
  const mostThreads = Math.max(...threadCounts);
  const blockCount = BLOCKS_PER_STREAM * Math.max(...streams);
  for (const { shape, type } of wanted) {
    const files = dummyModel(shape, type);
    const [spec, model] = [buildSpec(files), files.path];
    const bytes = weightBytes(spec, files.weights, fileMatrixBytes);
    print(`${model}, ${(bytes / 1e9).toFixed(2)} GB, ${threadCounts.join(', ')} threads`);
    const context = { contextTokens: HISTORY + 1, kvType: 'f16' } as const;
    const stepBytes = (count: number) => {
      const read = decodeStepBytes(spec, files.weights, sizesOf('cpu'), { streams: count, ...context });
      return read.weights + read.kv;
    };
    for (const build of builds) {
      for (const { kernels, pinned } of variants) {
        const nodes = pinned ? { nodes: coresAlone(mostThreads) } : {};
        const options = { blockCount, threads: mostThreads, isa: kernels, ...nodes };
        const backend = await createCpuBackend(build.addon, spec, files.weights, options);
        await fillBlocks(backend);
        const { vocabSize } = spec;
        const own = { model, kernels, build: build.name, pinned, backend, vocabSize, stepBytes };
        contenders.push(...threadCounts.map((threads) => ({ ...own, threads })));
      }
    }
  }
  return contenders;
}

function titleOf({ model, kernels, build, pinned, threads }: Contender): string {
  return [
    model,
    kernels,
    ...(build === '' ? [] : [build]),
    `${threads} ${pinned ? 'pinned ' : ''}threads`,
  ].join(', ');
}

/** Milliseconds of a step, the average of `steps`. */
async function timeSteps(
  { backend, threads }: Contender,
  sequences: readonly BatchSequence[],
  steps: number,
): Promise<number> {
  backend.useThreads(threads);
  const batches = Array.from({ length: steps }, () => buildBatch(sequences));
  const started = performance.now();
  for (const batch of batches) await backend.step(batch);
  return (performance.now() - started) / steps;
}

/** In turns, so that a machine that slows down does so for all. */
async function timeAll(
  contenders: readonly Contender[],
  sequences: readonly BatchSequence[],
): Promise<Times[]> {
  const steps = programs === undefined ? 1 : DISTURBED_STEPS;
  const times = contenders.map(() => ({ alone: [] as number[], disturbed: [] as number[] }));
  for (let turn = 0; turn < repeats; turn++) {
    for (const [index, contender] of contenders.entries()) {
      const { alone, disturbed } = times[index] as (typeof times)[number];
      alone.push(await timeSteps(contender, sequences, steps));
      if (programs === undefined) continue;
      disturbed.push(await programs.during(() => timeSteps(contender, sequences, steps)));
    }
  }
  return times;
}

/** By number of threads; measured anew each time, for a machine's other work changes it. */
function readBandwidths(): ReadonlyMap<number, number> {
  return new Map(threadCounts.map((count) => [count, addon.readBandwidth(count, BANDWIDTH_MEGABYTES)]));
}

async function measureDecode(contenders: readonly Contender[], count: number) {
  const sequences = Array.from({ length: count }, (_, index) => stream(index, [100 + index], HISTORY));
  const bandwidths = readBandwidths();
  const times = await timeAll(contenders, sequences);
  return contenders.map((contender, index) => {
    const { alone, disturbed } = times[index] as Times;
    const { model, kernels, build, pinned, threads } = contender;
    const bandwidth = bandwidths.get(threads) as number;
    const [bestMs, medianMs] = [Math.min(...alone), median(alone)];
    const tokensPerSecond = (count * 1000) / medianMs;
    const bandwidthShare = (contender.stepBytes(count) * 1000) / medianMs / bandwidth;
    print(
      `${titleOf(contender)}, ${String(count).padStart(3)} streams: median ${medianMs.toFixed(1)} ms, ` +
        `${tokensPerSecond.toFixed(1)} tokens/s; best ${bestMs.toFixed(1)} ms; ` +
        `${(bandwidthShare * 100).toFixed(0)} % of ${(bandwidth / 1e9).toFixed(1)} GB/s${besideText(medianMs, disturbed)}`,
    );
    const own = { model, kernels, build, pinned, threads, streams: count, bestMs, medianMs, tokensPerSecond };
    return { ...own, bandwidth, bandwidthShare, ...besidePrograms(medianMs, disturbed) };
  });
}

function besidePrograms(medianMs: number, disturbed: readonly number[]) {
  if (disturbed.length === 0) return {};
  const besideMs = median(disturbed);
  return { busy: { programs: busy, medianMs: besideMs, speed: medianMs / besideMs } };
}

function besideText(medianMs: number, disturbed: readonly number[]): string {
  const { busy } = besidePrograms(medianMs, disturbed);
  if (busy === undefined) return '';
  return `; beside ${busy.programs} busy programs ${busy.medianMs.toFixed(1)} ms, ${(busy.speed * 100).toFixed(0)} % of the speed`;
}

const promptTokens = Array.from({ length: PROMPT_TOKENS }, (_, token) => token);

async function measurePrompt(contenders: readonly Contender[]) {
  const times = await timeAll(contenders, [stream(0, promptTokens, 0)]);
  return contenders.map((contender, index) => {
    const { alone, disturbed } = times[index] as Times;
    const { model, kernels, build, pinned, threads } = contender;
    const medianMs = median(alone);
    const tokensPerSecond = (PROMPT_TOKENS * 1000) / medianMs;
    print(
      `${titleOf(contender)}, prompt of ${PROMPT_TOKENS}: ${tokensPerSecond.toFixed(0)} tokens/s${besideText(medianMs, disturbed)}`,
    );
    return {
      model,
      kernels,
      build,
      pinned,
      threads,
      tokensPerSecond,
      ...besidePrograms(medianMs, disturbed),
    };
  });
}

/** A few steps and the sampling of their tokens. */
async function recordSteps(contender: Contender, sequences: readonly BatchSequence[]) {
  const { backend, vocabSize, threads } = contender;
  const validation = validateSampling({ temperature: 0 }, { vocabSize, freshSeed: { low: 0, high: 0 } });
  if (!validation.ok) throw new Error(validation.problem);
  const { parameters } = validation;
  const rows = sequences.map(() => ({ parameters, position: HISTORY + 1, choice: 0, forbidden: [] }));
  // Whoever rested has woken up once it is over.
  await timeSteps(contender, sequences, 1);
  backend.startTimeline(TRACED_LOOPS, TRACED_PIECES);
  for (let step = 0; step < TRACED_STEPS; step++) {
    const { logits } = await backend.step(buildBatch(sequences));
    backend.sampleRows(logits, vocabSize, rows);
  }
  const timeline = readTimeline(backend.takeTimeline());
  return { timeline, summary: summarize(timeline, threads) };
}

/** Writes the events of all contenders and prints where their time goes. */
async function trace(contenders: readonly Contender[], file: string) {
  const events: TraceEvent[] = [];
  const summaries: (StepSummary & { readonly title: string })[] = [];
  const works: [string, readonly BatchSequence[]][] = [
    ...streams.map((count): [string, BatchSequence[]] => [
      `${count} streams`,
      Array.from({ length: count }, (_, index) => stream(index, [100 + index], HISTORY)),
    ]),
    [`prompt of ${PROMPT_TOKENS}`, [stream(0, promptTokens, 0)]],
  ];
  for (const [work, sequences] of works) {
    for (const contender of contenders) {
      const title = `${titleOf(contender)}, ${work}`;
      const { timeline, summary } = await recordSteps(contender, sequences);
      events.push(...traceEvents(timeline, summaries.length + 1, title));
      summaries.push({ title, ...summary });
      print(`\n${title}`);
      for (const line of summaryText(summary)) print(line);
    }
  }
  writeFileSync(file, JSON.stringify({ traceEvents: events, displayTimeUnit: 'ms' }));
  print(`\n${events.length} events in ${file}: open it in ui.perfetto.dev or chrome://tracing`);
  return summaries;
}

const contenders = await openContenders();
const programs = busy === 0 ? undefined : new BusyPrograms(busy);
try {
  const decode = [];
  for (const count of streams) decode.push(...(await measureDecode(contenders, count)));
  const prompt = await measurePrompt(contenders);
  const traced = values.trace === undefined ? {} : { traced: await trace(contenders, values.trace) };
  report('steps', { threads: threadCounts, decode, prompt, ...traced });
} finally {
  programs?.close();
  for (const backend of new Set(contenders.map((contender) => contender.backend))) backend.close();
}
