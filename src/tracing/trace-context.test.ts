import { describe, expect, it } from 'vitest';
import { readTraceContext, traceHeaders } from './trace-context.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const spanId = 'b7ad6b7169203331';
const own = `00-${traceId}-${spanId}-01`;

describe('the context of a trace', () => {
  it('is what a client said, and is passed on as it was', () => {
    const context = readTraceContext({ traceparent: own, tracestate: 'a=1,b=2' });
    expect(context).toEqual({ traceId, spanId, isSampled: true, state: 'a=1,b=2' });
    expect(context && traceHeaders(context)).toEqual({ traceparent: own, tracestate: 'a=1,b=2' });
  });

  it('keeps that a client does not take it', () => {
    const context = readTraceContext({ traceparent: own.replace(/01$/, '00') });
    expect(context).toEqual({ traceId, spanId, isSampled: false });
    expect(context && traceHeaders(context)).toEqual({ traceparent: own.replace(/01$/, '00') });
  });

  it('may come from a later version, with more fields', () => {
    expect(readTraceContext({ traceparent: `${own.replace(/^00/, '01')}-more` })?.traceId).toBe(traceId);
  });

  it.each([
    undefined,
    '',
    'nonsense',
    `${own}-more`,
    own.replace(/^00/, 'ff'),
    own.toUpperCase(),
    own.replace(traceId, '0'.repeat(32)),
    own.replace(spanId, '0'.repeat(16)),
    own.slice(0, -1),
  ])('is none where it is wrong: %s', (traceparent) => {
    expect(readTraceContext({ traceparent, tracestate: 'a=1' })).toBeUndefined();
  });

  it('is kept without a state that is too long or could end a header', () => {
    for (const tracestate of ['a'.repeat(513), 'a=1\r\nx: y', ''])
      expect(readTraceContext({ traceparent: own, tracestate })).toEqual({
        traceId,
        spanId,
        isSampled: true,
      });
  });
});
