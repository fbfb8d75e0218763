// What Prometheus reads. Latencies are measured here, from tokens and steps as they come; gauges and totals of
// the engines are asked from them at each scrape.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { EngineStats } from '../engine/engine.ts';
import type { EngineHandle } from '../pool/engine-handle.ts';
import type { ModelPool } from '../pool/model-pool.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { RunUsage } from './completion-run.ts';
import { within } from './within.ts';

const STATS_TIMEOUT_MS = 1000;
const PRIORITY_NAMES = ['high', 'normal', 'low'] as const;
const slowBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const fastBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

export class Metrics {
  readonly #registry = new Registry();
  readonly #pool: ModelPool;
  readonly #watched = new WeakSet<EngineHandle>();
  /** When each sequence that was not admitted yet was submitted. */
  readonly #submittedMs = new Map<string, number>();
  readonly #firstToken = this.#histogram(
    'time_to_first_token_seconds',
    'From arrival to the first token',
    slowBuckets,
  );
  readonly #perToken = this.#histogram(
    'time_per_output_token_seconds',
    'Mean time between tokens of a request',
    fastBuckets,
  );
  readonly #queued = this.#histogram('queue_seconds', 'From submission to the first step', slowBuckets);
  readonly #stepped = this.#histogram('step_seconds', 'One step of an engine', fastBuckets);
  readonly #lasted = this.#histogram('request_seconds', 'From arrival to the end of the answer', slowBuckets);
  readonly #responses = this.#counter('responses_total', 'Responses by status', ['status']);
  readonly #errors = this.#counter('errors_total', 'Failed requests by kind', ['kind']);
  readonly #promptTokens = this.#counter('prompt_tokens_total', 'Prompt tokens, cached ones too');
  readonly #cachedTokens = this.#counter('cached_tokens_total', 'Prompt tokens that needed no compute');
  readonly #generatedTokens = this.#counter('generated_tokens_total', 'Tokens generated for clients');
  readonly #preemptions = this.#counter('preemptions_total', 'Sequences that had to give their blocks back');
  readonly #fallbacks = this.#counter('fallback_requests_total', 'Requests that ran without batching');
  readonly #engineUp = this.#gauge('engine_up', '1 where a loaded engine answers');
  readonly #waiting = this.#gauge('queued_sequences', 'Sequences that wait', ['model', 'priority']);
  readonly #running = this.#gauge('running_sequences', 'Sequences in the running batch');
  readonly #blocks = this.#gauge('blocks', 'K/V blocks by state', ['model', 'state']);

  constructor(pool: ModelPool) {
    this.#pool = pool;
    collectDefaultMetrics({ register: this.#registry });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  async text(): Promise<string> {
    for (const gauge of [this.#engineUp, this.#waiting, this.#running, this.#blocks]) gauge.reset();
    for (const counter of [this.#preemptions, this.#fallbacks]) counter.reset();
    await Promise.all(
      this.#pool.loaded().map(async ({ name, engine }) => {
        const stats = await within(engine.stats(), STATS_TIMEOUT_MS).catch(() => undefined);
        this.#engineUp.set({ model: name }, stats === undefined ? 0 : 1);
        if (stats !== undefined) this.#take(name, stats);
      }),
    );
    return this.#registry.metrics();
  }

  /** Measures the engine's steps from now on. */
  watch({ name, engine }: ServedModel): void {
    if (this.#watched.has(engine)) return;
    this.#watched.add(engine);
    engine.watch(({ admitted, times }) => {
      const { scheduleMs, computeMs, sampleMs, emitMs } = times;
      const stepMs = scheduleMs + computeMs + sampleMs + emitMs;
      this.#stepped.observe({ model: name }, stepMs / 1000);
      // The step that admitted them is over when it is heard of.
      for (const sequence of admitted) this.#admitted(name, sequence, performance.now() - stepMs);
    });
  }

  submitted(sequence: string): void {
    this.#submittedMs.set(sequence, performance.now());
  }

  /** It ended, admitted or not. */
  forget(sequence: string): void {
    this.#submittedMs.delete(sequence);
  }

  firstToken(model: string, waitedMs: number): void {
    this.#firstToken.observe({ model }, waitedMs / 1000);
  }

  /** `tokens` came one after the other, the first of them `decodeMs` ago. */
  completed(model: string, tokens: number, decodeMs: number, totalMs: number): void {
    if (tokens > 1) this.#perToken.observe({ model }, decodeMs / 1000 / (tokens - 1));
    this.#lasted.observe({ model }, totalMs / 1000);
  }

  used(model: string, { promptTokens, cachedTokens, completionTokens }: RunUsage): void {
    this.#promptTokens.inc({ model }, promptTokens);
    this.#cachedTokens.inc({ model }, cachedTokens);
    this.#generatedTokens.inc({ model }, completionTokens);
  }

  responded(status: number): void {
    this.#responses.inc({ status: String(status) });
  }

  failed(kind: string): void {
    this.#errors.inc({ kind });
  }

  #admitted(model: string, sequence: string, atMs: number): void {
    const submittedMs = this.#submittedMs.get(sequence);
    if (submittedMs === undefined) return;
    this.#submittedMs.delete(sequence);
    this.#queued.observe({ model }, Math.max(0, atMs - submittedMs) / 1000);
  }

  #take(model: string, { queues, running, blocks, counters, requests }: EngineStats): void {
    for (const { priority, waiting } of queues) {
      this.#waiting.set({ model, priority: PRIORITY_NAMES[priority] }, waiting);
    }
    this.#running.set({ model }, running.length);
    for (const state of ['free', 'cached', 'used'] as const)
      this.#blocks.set({ model, state }, blocks[state]);
    this.#preemptions.inc({ model }, counters.preemptions);
    this.#fallbacks.inc({ model }, requests.direct);
  }

  #histogram(name: string, help: string, buckets: number[]): Histogram<'model'> {
    return new Histogram({
      name: `chairlift_${name}`,
      help,
      buckets,
      labelNames: ['model'],
      registers: [this.#registry],
    });
  }

  #counter<Label extends string = 'model'>(name: string, help: string, labels?: Label[]): Counter<Label> {
    const labelNames = labels ?? (['model'] as Label[]);
    return new Counter({ name: `chairlift_${name}`, help, labelNames, registers: [this.#registry] });
  }

  #gauge<Label extends string = 'model'>(name: string, help: string, labels?: Label[]): Gauge<Label> {
    const labelNames = labels ?? (['model'] as Label[]);
    return new Gauge({ name: `chairlift_${name}`, help, labelNames, registers: [this.#registry] });
  }
}
