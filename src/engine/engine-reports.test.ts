import { expect, it } from 'vitest';
import { SteppedEngine } from '../../test/property/stepped-engine.ts';
import { EngineReports } from './engine-reports.ts';
import type { RequestEvent } from './request.ts';
import type { StepReport } from './step-report.ts';

it('a report never ends between the tokens of a request and its end', () => {
  const { scheduler } = new SteppedEngine({ blockCount: 4, budget: { kind: 'fixed', maxStepTokens: 32 } });
  const published: StepReport[] = [];
  const reports = new EngineReports(
    scheduler,
    (report) => published.push(report),
    () => 0,
  );
  // 255 requests go on; the next one ends with the 256th event of the step.
  const events = Array.from({ length: 600 }, (_, n): RequestEvent[] => [
    { kind: 'token', id: `${n}`, token: 1 },
    ...(n === 255 ? [finish(`${n}`)] : []),
  ]).flat();
  reports.report(events);

  expect(published.flatMap((report) => report.events)).toEqual(events);
  expect(published.map((report) => report.events.length)).toEqual([257, 256, 88]);
});

const finish = (id: string): RequestEvent => ({
  kind: 'finish',
  id,
  reason: 'stop',
  promptTokens: 1,
  generatedTokens: 1,
  cachedTokens: 0,
});
