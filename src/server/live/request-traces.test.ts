import { describe, expect, it } from 'vitest';
import type { EngineClient } from '../../engine/engine-client.ts';
import type { EngineSubscriber } from '../../engine/engine-monitor.ts';
import type { StepSummary } from '../../engine/step-report.ts';
import { RequestTraces, type TracedRequest } from './request-traces.ts';

const usage = { promptTokens: 3, cachedTokens: 0, completionTokens: 1 };

const traceOf = (requestId: string, given: Partial<TracedRequest> = {}): TracedRequest => ({
  kind: 'completion',
  requestId,
  model: 'm',
  tier: 'normal',
  keyId: 'k',
  keyName: undefined,
  address: '127.0.0.1',
  arrivedMs: 0,
  promptTokens: 3,
  prompt: undefined,
  ...given,
});

function engineStandIn() {
  let subscriber: EngineSubscriber = {};
  const monitor = {
    subscribe: (given: EngineSubscriber) => {
      subscriber = given;
    },
  };
  const engine = { monitor } as unknown as EngineClient;
  const step = (given: Partial<StepSummary>) =>
    subscriber.step?.(
      {
        step: 1,
        tokens: 1,
        sequences: 1,
        admitted: [],
        preempted: [],
        finished: [],
        times: { scheduleMs: 1, computeMs: 1, sampleMs: 1, emitMs: 1 },
        ...given,
      },
      (given.admitted ?? []).map((id) => ({ id, promptTokens: 3, cachedTokens: 0, why: 'new' as const })),
    );
  return { engine, step, lose: () => subscriber.lost?.(true) };
}

describe('the traces of requests', () => {
  it('are of the last 500', () => {
    const traces = new RequestTraces(() => 0);
    for (let n = 0; n < 510; n++) traces.begin(traceOf(`r${n}`));
    expect(traces.all().length).toBe(500);
    expect(traces.all()[0]?.of.requestId).toBe('r509');
  });

  it('hold preemptions and engines that died, and go on', () => {
    let nowMs = 0;
    const traces = new RequestTraces(() => nowMs);
    const { engine, step, lose } = engineStandIn();
    const trace = traces.begin(traceOf('r'));
    traces.submitted(trace, 'e', engine);
    const at = (ms: number, what: () => void) => {
      nowMs = ms;
      what();
    };
    at(14, () => step({ admitted: ['e'] }));
    at(24, () => step({ preempted: ['e'] }));
    at(34, () => step({ admitted: ['e'] }));
    at(40, lose);
    at(54, () => step({ admitted: ['e'] }));
    at(60, () => traces.ended(trace, { usage, outcome: 'ok', reasons: ['stop'] }));
    expect(trace.events.map(({ what, atMs }) => [what, atMs])).toEqual([
      ['arrived', 0],
      ['submitted', 0],
      ['admitted', 10],
      ['preempted', 20],
      ['resumed', 30],
      ['engine-died', 40],
      ['resumed', 50],
      ['ended', 60],
    ]);
    expect(trace.lookups.length).toBe(1);
    expect(traces.requestIdOf('e')).toBeUndefined();
    expect(traces.expectedMs(engine, 'normal', 0)).toBe(10);
    expect(traces.expectedMs(engine, 'high', 0)).toBeUndefined();
  });

  it('hold so much and no more, whatever happens to one', () => {
    const traces = new RequestTraces(() => 0);
    const { engine, step } = engineStandIn();
    const trace = traces.begin(traceOf('r', { prompt: 'x'.repeat(1_000_000) }));
    const ids = Array.from({ length: 2048 }, (_, n) => `e${n}`);
    for (const id of ids) traces.submitted(trace, id, engine);
    for (let n = 0; n < 10; n++) {
      step({ admitted: ids });
      step({ preempted: ids });
    }
    traces.ended(trace, { usage, outcome: 'ok', reasons: ids.map(() => 'stop' as const) });
    expect(trace.events.length).toBe(201);
    expect(trace.events.at(-1)?.what).toBe('ended');
    expect(trace.lookups.length).toBe(32);
    expect(trace.of.prompt?.length).toBe(4000);
    expect(trace.end?.reasons.length).toBe(32);
    expect(trace.engineIds).toEqual([]);
  });
});
