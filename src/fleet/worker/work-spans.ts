// Spans of what a worker computes for gateways, as parts of their traces: each attempt at a request, with its queue, its prompt and
// its tokens.

import type { EngineClient } from '../../engine/engine-client.ts';
import type { EngineRequest } from '../../engine/request.ts';
import type { Clock } from '../../runtime/clock.ts';
import { readTraceContext, type TraceContext } from '../../tracing/trace-context.ts';
import type { Tracer } from '../../tracing/tracer.ts';
import type { LedgerEntry } from './ledger.ts';

type TracedEntry = Pick<
  LedgerEntry,
  'id' | 'attempt' | 'gateway' | 'model' | 'tokens' | 'given' | 'finish' | 'returned' | 'expected'
>;

interface WorkSpansOptions {
  readonly tracer: Tracer;
  readonly node: string;
  readonly clock: Pick<Clock, 'wallMs' | 'monotonicMs'>;
}

export class WorkSpans {
  readonly #options: WorkSpansOptions;
  readonly #subscribed = new WeakSet<EngineClient>();
  /** Those that wait, by the ids of their engines. */
  readonly #waiting = new Map<string, WorkSpan>();

  constructor(options: WorkSpansOptions) {
    this.#options = options;
  }

  /** Undefined where its gateway takes no trace of it. */
  begin(entry: TracedEntry, { trace }: Pick<EngineRequest, 'trace'>): WorkSpan | undefined {
    const parent = trace && readTraceContext(trace);
    if (parent?.isSampled !== true) return undefined;
    return new WorkSpan(this.#options, parent, entry);
  }

  /** `engineId`: what the engine calls it. */
  submitted(span: WorkSpan, engine: EngineClient, engineId: string): void {
    this.#subscribe(engine);
    this.#waiting.set(engineId, span);
    span.submitted();
  }

  /** Must be called for each that was submitted. */
  ended(engineId: string): void {
    this.#waiting.delete(engineId);
  }

  #subscribe(engine: EngineClient): void {
    if (this.#subscribed.has(engine)) return;
    this.#subscribed.add(engine);
    engine.monitor?.subscribe({
      step: ({ admitted, times: { scheduleMs, computeMs, sampleMs, emitMs } }) => {
        const stepMs = scheduleMs + computeMs + sampleMs + emitMs;
        for (const id of admitted) this.#waiting.get(id)?.admitted(stepMs);
      },
    });
  }
}

export class WorkSpan {
  readonly #options: WorkSpansOptions;
  readonly #parent: TraceContext;
  readonly #entry: TracedEntry;
  readonly #takenMs: number;
  #submittedMs: number | undefined;
  #admittedMs: number | undefined;
  #firstTokenMs: number | undefined;

  constructor(options: WorkSpansOptions, parent: TraceContext, entry: TracedEntry) {
    this.#options = options;
    this.#parent = parent;
    this.#entry = entry;
    this.#takenMs = this.#nowMs;
  }

  submitted(): void {
    this.#submittedMs ??= this.#nowMs;
  }

  /** Told when its first step is over. */
  admitted(stepMs: number): void {
    this.#admittedMs ??= this.#nowMs - stepMs;
  }

  token(): void {
    this.#firstTokenMs ??= this.#nowMs;
  }

  end(): void {
    const { tracer, node, clock } = this.#options;
    const { id, attempt, gateway, model, tokens, given, finish, returned, expected } = this.#entry;
    const endMs = this.#nowMs;
    const wallMs = (atMs: number | undefined) =>
      atMs === undefined ? undefined : clock.wallMs() - (endMs - atMs);
    const context = tracer.child(this.#parent);
    tracer.add({
      context,
      parentId: this.#parent.spanId,
      name: `compute ${model}`,
      kind: 'consumer',
      startMs: wallMs(this.#takenMs) as number,
      endMs: clock.wallMs(),
      attributes: {
        'messaging.system': 'nats',
        'gen_ai.request.model': model,
        'gen_ai.usage.input_tokens': finish?.promptTokens,
        'gen_ai.usage.cache_read.input_tokens': finish?.cachedTokens,
        'gen_ai.usage.output_tokens': tokens.length - given,
        'chairlift.node': node,
        'chairlift.gateway': gateway,
        'chairlift.engine.request.id': id,
        'chairlift.attempt': attempt,
        'chairlift.returned': returned?.reason,
        'chairlift.expected.memory_tokens': expected?.memory,
        'chairlift.expected.host_tokens': expected?.host,
        'chairlift.expected.disk_tokens': expected?.disk,
      },
      error: finish?.error?.code ?? (returned === undefined ? undefined : 'returned'),
    });
    tracer.addPhases(context, {
      submittedMs: wallMs(this.#submittedMs),
      admittedMs: wallMs(this.#admittedMs),
      firstTokenMs: wallMs(this.#firstTokenMs),
      endMs: clock.wallMs(),
    });
  }

  get #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }
}
