import fc from 'fast-check';
import { expect, it } from 'vitest';
import { FastestSpeeds } from './fastest-speeds.ts';
import type { Speeds } from './heartbeat.ts';

const ms = fc.integer({ min: 1, max: 9 });
const speeds = fc.record({ stepTokens: fc.constant(256), promptTokenMs: ms, stepBaseMs: ms, stepRowMs: ms });
const event = fc.tuple(fc.nat(4), fc.option(speeds, { nil: undefined }));

it('are the least of those measured, as they change, come and go', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 40 }), (events) => {
      const fastest = new FastestSpeeds();
      const all = new Map<number, Speeds>();
      for (const [worker, measured] of events) {
        if (measured === undefined) fastest.delete(worker);
        else fastest.set(worker, measured);
        if (measured === undefined) all.delete(worker);
        else all.set(worker, measured);
        // One that has measured nothing is not asked.
        fastest.set(9, { stepTokens: 256, stepBaseMs: 0 });
        const [step, token] = fastest.speeds();
        const least = (cost: (one: Speeds) => number) => Math.min(...[...all.values()].map(cost));
        expect(step !== undefined).toBe(all.size > 0);
        if (step === undefined || token === undefined) continue;
        expect(step.stepBaseMs + step.stepRowMs).toBe(least((one) => one.stepBaseMs + one.stepRowMs));
        expect(token.promptTokenMs).toBe(least(({ promptTokenMs }) => promptTokenMs));
      }
    }),
    { numRuns: 300 },
  );
});
