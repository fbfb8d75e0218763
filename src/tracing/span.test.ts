import { describe, expect, it } from 'vitest';
import { phasesOf } from './span.ts';
import { Tracer } from './tracer.ts';

const told = (times: Partial<Parameters<typeof phasesOf>[0]>) =>
  phasesOf({
    ...{ submittedMs: undefined, admittedMs: undefined, firstTokenMs: undefined, endMs: 100 },
    ...times,
  }).map(({ name, startMs, endMs }) => [name, startMs, endMs]);

describe('the phases of an answer', () => {
  it('follow each other from the queue to the last token', () => {
    expect(told({ submittedMs: 10, admittedMs: 20, firstTokenMs: 50 })).toEqual([
      ['queue', 10, 20],
      ['prefill', 20, 50],
      ['decode', 50, 100],
    ]);
  });

  it('end where the answer did', () => {
    expect(told({})).toEqual([]);
    expect(told({ submittedMs: 10 })).toEqual([['queue', 10, 100]]);
    expect(told({ submittedMs: 10, admittedMs: 20 })).toEqual([
      ['queue', 10, 20],
      ['prefill', 20, 100],
    ]);
  });

  it('never overlap, though a step is reported after its tokens', () => {
    expect(told({ submittedMs: 10, admittedMs: 60, firstTokenMs: 50 })).toEqual([
      ['queue', 10, 50],
      ['prefill', 50, 50],
      ['decode', 50, 100],
    ]);
  });
});

describe('a tracer', () => {
  const sampled = (ratio: number, headers = {}) =>
    new Tracer({ add: () => {} }, ratio).begin(headers).context.isSampled;
  const count = (ratio: number) => Array.from({ length: 2000 }, () => sampled(ratio)).filter(Boolean).length;

  it('takes the part of traces that it should', () => {
    expect([count(0), count(1)]).toEqual([0, 2000]);
    expect(Math.abs(count(0.25) - 500)).toBeLessThan(150);
  });

  it('does as a client has decided, whatever the part', () => {
    const parent = (flags: string) => ({
      traceparent: `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-${flags}`,
    });
    expect([sampled(0, parent('01')), sampled(1, parent('00'))]).toEqual([true, false]);
  });
});
