// `npm run bench -- overhead`: what a step costs besides the forward pass and sampling, which is how long a device rests between two of
// them: the real engine with a backend that computes nothing, for sequences that use no sampler and for long contexts with penalties.
// Then what an engine process sends of a step, while the next one computes. Medians of many steps, in microseconds. Ends in one JSON line.

import { fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { median } from '#src/bench/statistics.ts';
import { type Backend, type Batch, BLOCK_TOKENS, type StepResult } from '#src/compute/backend.ts';
import { BlockUses, checkBatch } from '#src/compute/batch.ts';
import { Engine } from '#src/engine/engine.ts';
import type { EngineRequest } from '#src/engine/request.ts';
import { unloadedError } from '#src/engine/request-errors.ts';
import { RequestStreams } from '#src/engine/request-streams.ts';
import type { StepReport } from '#src/engine/step-report.ts';
import { type SamplingRequest, validateSampling } from '#src/sampling/parameters.ts';
import { seedFrom } from '#src/sampling/random.ts';
import type { SampleResult, SampleRow } from '#src/sampling/sample-row.ts';
import { print, report } from './harness.ts';

const VOCABULARY = 128_256;
const CONTEXT = 16_384;
const WARM_UP_STEPS = 300;
const STEPS = 1000;
/** Between the steps of an engine process, so that each report travels alone. */
const PACE_MS = 3;
interface Load {
  readonly sequences: number;
  readonly context: number;
  readonly sampling: SamplingRequest;
}

const greedy = { temperature: 0 };
const penalties = { topP: 0.95, repetitionPenalty: 1.1, presencePenalty: 0.5, frequencyPenalty: 0.5 };
const loads: readonly Load[] = [
  ...[1, 8, 16, 64].map((sequences) => ({ sequences, context: 500, sampling: greedy })),
  ...[16, 64].map((sequences) => ({ sequences, context: 8000, sampling: penalties })),
];

/** Answers every step at once and times what the engine does around its calls. */
class IdleBackend implements Backend {
  readonly name = 'cpu';
  readonly blockCount: number;
  readonly checkUs: number[] = [];
  readonly outsideUs: number[] = [];
  readonly #sequences: number;
  readonly #paceMs: number;
  readonly #uses: BlockUses;
  /** When the engine was last given something, and the time it has used in this step. */
  #given = 0;
  #outsideMs = 0;
  #decodes = 0;

  constructor({ sequences, context }: Load, paceMs: number) {
    this.#sequences = sequences;
    this.#paceMs = paceMs;
    const tokens = context + WARM_UP_STEPS + STEPS;
    this.blockCount = Math.ceil(1.3 * sequences * Math.ceil(tokens / BLOCK_TOKENS));
    this.#uses = new BlockUses(this.blockCount);
  }

  async step(batch: Batch): Promise<StepResult> {
    const entered = performance.now();
    this.#outsideMs += entered - this.#given;
    const limits = { blockCount: this.blockCount, vocabSize: VOCABULARY, contextLength: CONTEXT };
    checkBatch(batch, limits, this.#uses);
    this.#count(batch, 1000 * (performance.now() - entered));
    await sleep(this.#paceMs);
    this.#given = performance.now();
    return { logits: new Float32Array(0), states: new Float32Array(0) };
  }

  sampleRows = (_logits: Float32Array, _vocabSize: number, rows: readonly SampleRow[]): SampleResult[] => {
    this.#outsideMs += performance.now() - this.#given;
    const results = rows.map(({ position }) => ({
      ok: true as const,
      token: (7919 * position) % VOCABULARY,
    }));
    this.#given = performance.now();
    return results;
  };

  releaseBlocks(): void {}
  close(): void {}

  #count({ tokens, starts }: Batch, checkUs: number): void {
    const decoding = tokens.length === this.#sequences && starts.length === this.#sequences;
    if (decoding && this.#decodes++ >= WARM_UP_STEPS) {
      this.outsideUs.push(1000 * this.#outsideMs);
      this.checkUs.push(checkUs);
    }
    this.#outsideMs = 0;
  }
}

function requestsOf({ sequences, context, sampling }: Load): EngineRequest[] {
  const validation = validateSampling(
    { ...sampling, maxTokens: WARM_UP_STEPS + STEPS, ignoreEos: true },
    { vocabSize: VOCABULARY, freshSeed: seedFrom(1n) },
  );
  if (!validation.ok) throw new Error(`${validation.parameter} ${validation.problem}`);
  return Array.from({ length: sequences }, (_, n) => ({
    id: `request-${n}`,
    prompt: Int32Array.from({ length: context }, (_, place) => (place * 7919 + n * 104_729) % VOCABULARY),
    parameters: validation.parameters,
    priority: 1 as const,
    salt: '',
    account: '',
    enqueuedMs: n,
  }));
}

async function runEngine(load: Load, paceMs: number, report: (report: StepReport) => void) {
  const backend = new IdleBackend(load, paceMs);
  const engine = new Engine(
    backend,
    {
      blockCount: backend.blockCount,
      budget: { kind: 'fixed', maxStepTokens: 8192 },
      watermark: 1,
      vocabSize: VOCABULARY,
      contextLength: CONTEXT,
      endIds: [],
    },
    report,
  );
  for (const request of requestsOf(load)) engine.submit(request);
  const running = engine.run();
  await engine.drain();
  engine.end(unloadedError);
  await running;
  return backend;
}

interface SendFigures {
  readonly kind: 'sent';
  readonly sendUs: number;
}
type FromChild = { readonly kind: 'report'; readonly report: StepReport } | SendFigures;

async function serveParent(load: Load): Promise<void> {
  const sendUs: number[] = [];
  await runEngine(load, PACE_MS, (report) => {
    const started = performance.now();
    process.send?.({ kind: 'report', report });
    sendUs.push(1000 * (performance.now() - started));
  });
  process.send?.({ kind: 'sent', sendUs: median(sendUs) }, () => process.disconnect());
}

/** CPU time of this process for each report, from the pipe to the reader of the tokens. */
async function measureMessages(load: Load) {
  const child = fork(fileURLToPath(import.meta.url), ['engine', String(loads.indexOf(load))], {
    serialization: 'advanced',
  });
  const streams = new RequestStreams();
  const readers = requestsOf(load).map(async ({ id }) => {
    for await (const event of streams.open(id, () => {})) if (event.kind === 'finish') return;
  });
  let reports = 0;
  let started: NodeJS.CpuUsage | undefined;
  const sent = new Promise<SendFigures>((resolve, reject) => {
    child.on('exit', (code) => reject(new Error(`the engine process ended with code ${code}`)));
    child.on('message', (message: FromChild) => {
      if (message.kind === 'sent') return resolve(message);
      streams.deliver(message.report.events);
      if (++reports === WARM_UP_STEPS) started = process.cpuUsage();
    });
  });
  const { sendUs } = await sent;
  const { user, system } = process.cpuUsage(started);
  await Promise.all(readers);
  return { sendUs, receiveUs: (user + system) / (reports - WARM_UP_STEPS) };
}

async function measureAll(): Promise<void> {
  print('microseconds per step: engine | check of the batch | both | send | receive');
  const results = [];
  for (const load of loads) {
    const backend = await runEngine(load, 0, () => {});
    const engineUs = median(backend.outsideUs);
    const checkUs = median(backend.checkUs);
    const { sendUs, receiveUs } = await measureMessages(load);
    const columns = [engineUs, checkUs, engineUs + checkUs, sendUs, receiveUs].map((us) => us.toFixed(0));
    const { sequences, context, sampling } = load;
    const samplers = sampling === greedy ? 'greedy' : 'penalties';
    print(`${sequences} sequences of ${context}, ${samplers}: ${columns.join(' | ')}`);
    results.push({ sequences, context, samplers, engineUs, checkUs, sendUs, receiveUs });
  }
  report('overhead', { steps: STEPS, results });
}

const [, , role, index] = process.argv;
if (role === 'engine') await serveParent(loads[Number(index)] as Load);
else await measureAll();
