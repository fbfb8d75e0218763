// Where a span belongs: W3C's Trace Context, as `traceparent` and `tracestate` carry it.

export interface TraceContext {
  /** 32 and 16 hexadecimal digits. */
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
  /** Of other vendors: passed on as it came. */
  readonly state?: string | undefined;
}

/** Passed on to whoever computes a part of the answer. */
export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate?: string | undefined;
}

type Header = string | readonly string[] | undefined;

/** What W3C asks everyone to pass on at least. */
const MOST_STATE = 512;
const PARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;

/** Undefined where there is none, or none that is right: a new trace begins then. */
export function readTraceContext(headers: {
  readonly traceparent?: Header;
  readonly tracestate?: Header;
}): TraceContext | undefined {
  const { traceparent, tracestate } = headers;
  if (typeof traceparent !== 'string') return undefined;
  const [, version, traceId, spanId, flags, rest] = PARENT.exec(traceparent.trim()) ?? [];
  if (version === undefined || traceId === undefined || spanId === undefined || flags === undefined)
    return undefined;
  // Later versions may have more fields; that of this one has none.
  if (version === 'ff' || (version === '00' && rest !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  const isSampled = (Number.parseInt(flags, 16) & 1) === 1;
  return { traceId, spanId, isSampled, ...stateOf(tracestate) };
}

export function traceHeaders({ traceId, spanId, isSampled, state }: TraceContext): TraceHeaders {
  const traceparent = `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
  return state === undefined ? { traceparent } : { traceparent, tracestate: state };
}

function stateOf(header: Header): Pick<TraceContext, 'state'> {
  const state = typeof header === 'string' ? header.trim() : header?.join(',');
  const isKept = state !== undefined && state !== '' && state.length <= MOST_STATE && /^[ -~]+$/.test(state);
  return isKept ? { state } : {};
}
