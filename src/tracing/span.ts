// Spans as plain data, and the spans of an answer: how long it waited, computed its prompt, and its tokens.

import type { TraceContext } from './trace-context.ts';

export type SpanKind = 'internal' | 'server' | 'client' | 'consumer';

export type AttributeValue = string | number | boolean | readonly string[] | undefined;

export interface Span {
  readonly context: TraceContext;
  readonly parentId: string | undefined;
  readonly name: string;
  readonly kind: SpanKind;
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly endMs: number;
  /** By OpenTelemetry's names; undefined ones are left out. */
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  /** What went wrong, by the name that metrics have for it. */
  readonly error?: string | undefined;
}

/** Of a request to an engine, in milliseconds since 1970; undefined where that did not happen, or nobody told. */
export interface AnswerTimes {
  readonly submittedMs: number | undefined;
  readonly admittedMs: number | undefined;
  readonly firstTokenMs: number | undefined;
  readonly endMs: number;
}

export interface Phase {
  readonly name: 'queue' | 'prefill' | 'decode';
  readonly startMs: number;
  readonly endMs: number;
}

/** Parts that follow each other. A request that nobody says was admitted has one for all until its first token. */
export function phasesOf({ submittedMs, admittedMs, firstTokenMs, endMs }: AnswerTimes): Phase[] {
  if (submittedMs === undefined) return [];
  // The report of a step comes when it is over, and may come after its tokens.
  const begunMs = admittedMs === undefined ? undefined : Math.min(admittedMs, firstTokenMs ?? endMs);
  const phases: Phase[] = [];
  if (begunMs === undefined && firstTokenMs === undefined)
    return [{ name: 'queue', startMs: submittedMs, endMs }];
  const prefillMs = Math.max(submittedMs, begunMs ?? submittedMs);
  if (begunMs !== undefined) phases.push({ name: 'queue', startMs: submittedMs, endMs: prefillMs });
  phases.push({ name: 'prefill', startMs: prefillMs, endMs: firstTokenMs ?? endMs });
  if (firstTokenMs !== undefined) phases.push({ name: 'decode', startMs: firstTokenMs, endMs });
  return phases;
}
