// Begins traces, or goes on with those of clients, and hands their spans to an exporter. A span is made when it is over: while
// an answer is computed a trace costs nothing but its ids.

import { randomBytes } from 'node:crypto';
import { type AnswerTimes, phasesOf, type Span } from './span.ts';
import { readTraceContext, type TraceContext } from './trace-context.ts';

export interface SpanSink {
  /** Never waits, and never fails. */
  add(span: Span): void;
}

const TRACE_BYTES = 16;
const SPAN_BYTES = 8;
/** Drawn together: drawing a few bytes takes longer than writing a span. */
const DRAWN_BYTES = 4096;

export interface BegunTrace {
  readonly context: TraceContext;
  readonly parentId: string | undefined;
}

export class Tracer {
  readonly #sink: SpanSink;
  readonly #ratio: number;
  #drawn = Buffer.alloc(0);

  /** `ratio`: of the traces that begin here, from 0 to 1. Those of clients are sampled as their clients decided. */
  constructor(sink: SpanSink, ratio: number) {
    this.#sink = sink;
    this.#ratio = ratio;
  }

  begin(headers: Parameters<typeof readTraceContext>[0]): BegunTrace {
    const parent = readTraceContext(headers);
    if (parent !== undefined) return { context: this.child(parent), parentId: parent.spanId };
    const traceId = this.#newId(TRACE_BYTES);
    const isSampled = isChosen(traceId, this.#ratio);
    return { context: { traceId, spanId: this.#newId(SPAN_BYTES), isSampled }, parentId: undefined };
  }

  child(parent: TraceContext): TraceContext {
    return { ...parent, spanId: this.#newId(SPAN_BYTES) };
  }

  add(span: Span): void {
    if (span.context.isSampled) this.#sink.add(span);
  }

  /** Of an answer that an engine has computed. */
  addPhases(parent: TraceContext, times: AnswerTimes): void {
    if (!parent.isSampled) return;
    for (const phase of phasesOf(times))
      this.add({
        ...phase,
        context: this.child(parent),
        parentId: parent.spanId,
        kind: 'internal',
        attributes: {},
      });
  }

  #newId(bytes: number): string {
    if (this.#drawn.length < bytes) this.#drawn = randomBytes(DRAWN_BYTES);
    const id = this.#drawn.toString('hex', 0, bytes);
    this.#drawn = this.#drawn.subarray(bytes);
    return id;
  }
}

/** By the trace's id, as OpenTelemetry's sampler does: whoever has the same ratio takes the same traces. */
function isChosen(traceId: string, ratio: number): boolean {
  const lot = Number.parseInt(traceId.slice(-13), 16);
  return lot < ratio * 2 ** 52;
}
