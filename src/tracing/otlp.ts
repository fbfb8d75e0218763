// Spans as OTLP has them in JSON: ids in hexadecimal digits, times and whole numbers as texts, kinds and status by number.

import type { AttributeValue, Span, SpanKind } from './span.ts';

const kinds: Readonly<Record<SpanKind, number>> = { internal: 1, server: 2, client: 3, consumer: 5 };
const ERROR = 2;
const SAMPLED = 1;

export type Attributes = Readonly<Record<string, AttributeValue>>;

export interface SpanSource {
  readonly resource: Attributes;
  readonly version: string;
}

export function otlpBody({ resource, version }: SpanSource, spans: readonly Span[]): object {
  return {
    resourceSpans: [
      {
        resource: { attributes: attributesOf(resource) },
        scopeSpans: [{ scope: { name: 'chairlift', version }, spans: spans.map(otlpSpan) }],
      },
    ],
  };
}

function otlpSpan({ context, parentId, name, kind, startMs, endMs, attributes, error }: Span): object {
  return {
    traceId: context.traceId,
    spanId: context.spanId,
    ...(context.state === undefined ? {} : { traceState: context.state }),
    ...(parentId === undefined ? {} : { parentSpanId: parentId }),
    flags: SAMPLED,
    name,
    kind: kinds[kind],
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(Math.max(startMs, endMs)),
    attributes: attributesOf(error === undefined ? attributes : { ...attributes, 'error.type': error }),
    ...(error === undefined ? {} : { status: { code: ERROR } }),
  };
}

/** A number has too few digits for it. */
function nanoseconds(ms: number): string {
  const whole = Math.floor(ms);
  const rest = Math.round((ms - whole) * 1e6);
  return String(BigInt(whole) * 1_000_000n + BigInt(rest));
}

function attributesOf(attributes: Attributes): object[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: otlpValue(value) }],
  );
}

function otlpValue(value: Exclude<AttributeValue, undefined>): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'number')
    return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  return { arrayValue: { values: value.map((stringValue) => ({ stringValue })) } };
}
