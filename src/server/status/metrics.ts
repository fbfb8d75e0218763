// Metrics for Prometheus. Latencies and totals are gathered here, from requests and steps, so that they outlive engines;
// gauges are read from the engines at each scrape.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { type EngineClient, type EngineLoad, loadOf } from '../../engine/engine-client.ts';
import type { TokenUsage } from '../../generation/answer-source.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { within } from '../../runtime/timers.ts';
import { TIERS, type Tier } from '../../store/key-record.ts';
import type { UpstreamUse } from '../live/live-event.ts';
import type { ServerSettings } from '../settings.ts';
import { type FleetFigures, FleetMetrics } from './fleet-metrics.ts';
import { ImageMetrics } from './image-metrics.ts';
import { type AnswerTimes, LlamaMetrics } from './llama-metrics.ts';
import { TierMetrics } from './tier-metrics.ts';

const STATS_TIMEOUT_MS = 1000;
const slowBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const fastBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

export interface RequestLabels {
  readonly model: string;
  readonly tier: Tier;
}

interface Submitted {
  readonly atMs: number;
  readonly tier: Tier;
  readonly onAdmitted: (atMs: number) => void;
}

interface FleetSource {
  figures(): Promise<FleetFigures>;
}

/** Of a node of a fleet; `control` at gateways. */
interface FleetSources {
  readonly control?: FleetSource | undefined;
  readonly clockSkewMs?: (() => number) | undefined;
}

interface MetricSources extends FleetSources {
  /** Where traces are taken. */
  readonly spanCounts?: { readonly exported: number; readonly dropped: number } | undefined;
}

const byRequest: readonly (keyof RequestLabels)[] = ['model', 'tier'];

export class Metrics {
  readonly #registry = new Registry();
  readonly #pool: ModelPool;
  readonly #subscribed = new WeakSet<EngineClient>();
  readonly #submitted = new Map<string, Submitted>();
  readonly #llama: LlamaMetrics | undefined;
  readonly #fleet: { readonly source: FleetSource; readonly metrics: FleetMetrics } | undefined;
  /** Scrapes at the same time share one. */
  #scrape: Promise<string> | undefined;
  readonly #firstToken = this.#histogram(
    'time_to_first_token_seconds',
    'From arrival to the first token',
    slowBuckets,
    byRequest,
  );
  readonly #perToken = this.#histogram(
    'time_per_output_token_seconds',
    'Mean time between tokens of a request',
    fastBuckets,
  );
  readonly #queued = this.#histogram(
    'queue_seconds',
    'From submission to the first step',
    slowBuckets,
    byRequest,
  );
  readonly #stepped = this.#histogram('step_seconds', 'One step of an engine', fastBuckets);
  readonly #lasted = this.#histogram(
    'request_seconds',
    'From arrival to the end of the answer',
    slowBuckets,
    byRequest,
  );
  readonly #responses = this.#counter('responses_total', 'Responses by status', ['status']);
  readonly #errors = this.#counter('errors_total', 'Failed requests by kind', ['kind']);
  readonly #promptTokens = this.#counter('prompt_tokens_total', 'Prompt tokens, cached ones too');
  readonly #cachedTokens = this.#counter('cached_tokens_total', 'Prompt tokens that needed no compute');
  readonly #generatedTokens = this.#counter('generated_tokens_total', 'Tokens generated for clients');
  /** The second one is its former name. */
  readonly #draftTokens = (['draft_tokens_total', 'guessed_tokens_total'] as const).map((name) =>
    this.#counter(name, 'Draft tokens that were computed, by outcome', ['model', 'outcome']),
  );
  readonly #preemptions = this.#counter('preemptions_total', 'Sequences that had to give their blocks back');
  readonly #fallbacks = this.#counter('fallback_requests_total', 'Requests that ran without batching');
  readonly #upstreamRequests = this.#counter(
    'upstream_requests_total',
    'Requests sent to upstreams, by outcome',
    ['upstream', 'model', 'outcome'],
  );
  readonly #upstreamFallbacks = this.#counter(
    'upstream_fallbacks_total',
    'Requests for a local model that an upstream was sent in its place, by reason',
    ['upstream', 'model', 'reason'],
  );
  readonly #engineUp = this.#gauge('engine_up', '1 where a loaded engine answers');
  readonly #waiting = this.#gauge('queued_sequences', 'Sequences that wait', ['model', 'priority']);
  readonly #running = this.#gauge('running_sequences', 'Sequences in the running batch');
  readonly #tiers = new TierMetrics(this.#registry);
  readonly #images = new ImageMetrics(this.#registry);
  readonly #blocks = this.#gauge('blocks', 'KV blocks by state', ['model', 'state']);

  constructor(
    pool: ModelPool,
    { llamaMetrics = false }: Partial<Pick<ServerSettings, 'llamaMetrics'>> = {},
    { control, clockSkewMs, spanCounts }: MetricSources = {},
  ) {
    this.#pool = pool;
    this.#fleet = control && { source: control, metrics: new FleetMetrics() };
    if (clockSkewMs !== undefined) {
      new Gauge({
        name: 'chairlift_fleet_clock_skew_seconds',
        help: 'The largest difference between the clock of this node and that of another in its fleet',
        registers: [this.#registry],
        collect() {
          this.set(clockSkewMs() / 1000);
        },
      });
    }
    if (spanCounts !== undefined) this.#countSpans(spanCounts);
    this.#llama = llamaMetrics ? new LlamaMetrics() : undefined;
    collectDefaultMetrics({ register: this.#registry });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    this.#scrape ??= this.#collect().finally(() => {
      this.#scrape = undefined;
    });
    return this.#scrape;
  }

  subscribe({ name, engine }: Pick<ServedModel, 'name' | 'engine'>): void {
    if (this.#subscribed.has(engine)) return;
    this.#subscribed.add(engine);
    // A request may be for an adapter, whose steps are those of its model.
    const model = this.#pool.loaded().find((served) => served.engine === engine)?.name ?? name;
    engine.monitor?.subscribe(this.#tiers.subscriber(model));
    engine.monitor?.subscribe(this.#images.subscriber(model));
    engine.monitor?.subscribe({
      step: ({ admitted, preempted, sequences, times }) => {
        this.#llama?.stepped(sequences);
        const { scheduleMs, computeMs, sampleMs, emitMs } = times;
        const stepMs = scheduleMs + computeMs + sampleMs + emitMs;
        this.#stepped.observe({ model }, stepMs / 1000);
        this.#preemptions.inc({ model }, preempted.length);
        // The report of a step arrives when the step is over.
        for (const id of admitted) this.#admitted(model, id, performance.now() - stepMs);
      },
    });
  }

  fellBack(model: string): void {
    this.#fallbacks.inc({ model });
  }

  /** `model`: the upstream's, by its name here. */
  answeredBy({ name: upstream, fallback }: UpstreamUse, model: string, outcome: string): void {
    this.#upstreamRequests.inc({ upstream, model, outcome });
    if (fallback === undefined) return;
    this.#upstreamFallbacks.inc({ upstream, model: fallback.model, reason: fallback.reason });
  }

  /** `onAdmitted`: called with the time of the first step, on the monotonic clock, if the engine reports it. */
  submitted(id: string, { tier }: RequestLabels, onAdmitted: (atMs: number) => void = () => {}): void {
    this.#submitted.set(id, { atMs: performance.now(), tier, onAdmitted });
  }

  /** Must be called when the request has ended, admitted or not. */
  forget(id: string): void {
    this.#submitted.delete(id);
  }

  firstToken({ model, tier }: RequestLabels, waitedMs: number): void {
    this.#firstToken.observe({ model, tier }, waitedMs / 1000);
  }

  /** `tokens` came one after the other, the first of them `decodeMs` ago. */
  completed({ model, tier }: RequestLabels, tokens: number, decodeMs: number, totalMs: number): void {
    if (tokens > 1) this.#perToken.observe({ model }, decodeMs / 1000 / (tokens - 1));
    this.#lasted.observe({ model, tier }, totalMs / 1000);
  }

  used(model: string, usage: TokenUsage, times: AnswerTimes): void {
    this.#llama?.used(usage, times);
    const { promptTokens, cachedTokens, completionTokens, draftTokens } = usage;
    for (const counter of draftTokens === undefined ? [] : this.#draftTokens) {
      counter.inc({ model, outcome: 'accepted' }, draftTokens?.accepted);
      counter.inc({ model, outcome: 'rejected' }, draftTokens?.rejected);
    }
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

  #countSpans(counts: NonNullable<MetricSources['spanCounts']>): void {
    new Counter({
      name: 'chairlift_trace_spans_total',
      help: 'Spans of traces, by what became of them: those of a collector that is slow or away are dropped',
      labelNames: ['outcome'],
      registers: [this.#registry],
      collect() {
        this.reset();
        this.inc({ outcome: 'exported' }, counts.exported);
        this.inc({ outcome: 'dropped' }, counts.dropped);
      },
    });
  }

  #admitted(model: string, id: string, atMs: number): void {
    const submitted = this.#submitted.get(id);
    if (submitted === undefined) return;
    this.#submitted.delete(id);
    submitted.onAdmitted(atMs);
    this.#queued.observe({ model, tier: submitted.tier }, Math.max(0, atMs - submitted.atMs) / 1000);
  }

  /** Gauges change in one go, once every engine has answered. */
  async #collect(): Promise<string> {
    const answers = await Promise.all(
      this.#pool.loaded().map(async (served) => {
        const { name, engine } = served;
        // A worker of a fleet has engines that no HTTP request has subscribed.
        this.subscribe(served);
        const load = await within(loadOf(engine), STATS_TIMEOUT_MS).catch(() => undefined);
        return { name, load };
      }),
    );
    for (const gauge of [this.#engineUp, this.#waiting, this.#running, this.#blocks]) gauge.reset();
    const loaded = new Set(answers.map(({ name }) => name));
    this.#tiers.setGauges(loaded);
    this.#images.setGauges(loaded);
    for (const { name, load } of answers) {
      this.#engineUp.set({ model: name }, load === undefined ? 0 : 1);
      // Start at 0: Prometheus does not see the first increment of a new series as a rise.
      this.#fallbacks.inc({ model: name }, 0);
      this.#preemptions.inc({ model: name }, 0);
      if (load !== undefined) this.#take(name, load);
    }
    const own = await this.#registry.metrics();
    const fleet = this.#fleet && (await this.#fleet.metrics.text(await this.#fleet.source.figures()));
    return `${own}${fleet ?? ''}${this.#llama?.text(totalsOf(answers)) ?? ''}`;
  }

  #take(model: string, { queues, running, blocks }: EngineLoad): void {
    for (const { priority, waiting } of queues) {
      this.#waiting.set({ model, priority: TIERS[priority] }, waiting);
    }
    this.#running.set({ model }, running);
    for (const state of ['free', 'cached', 'used'] as const)
      this.#blocks.set({ model, state }, blocks[state]);
  }

  #histogram<Label extends string = 'model'>(
    name: string,
    help: string,
    buckets: number[],
    labels?: readonly Label[],
  ): Histogram<Label> {
    const labelNames = labels ?? (['model'] as Label[]);
    return new Histogram({
      name: `chairlift_${name}`,
      help,
      buckets,
      labelNames,
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

function totalsOf(answers: readonly { readonly load: EngineLoad | undefined }[]) {
  const sum = (count: (load: EngineLoad) => number) =>
    answers.reduce((total, { load }) => total + (load === undefined ? 0 : count(load)), 0);
  return {
    running: sum(({ running }) => running),
    waiting: sum(({ queues }) => queues.reduce((total, { waiting }) => total + waiting, 0)),
  };
}
