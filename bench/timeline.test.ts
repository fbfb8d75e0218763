// A timeline of a real backend becomes a trace that viewers open, and adds up.

import { beforeAll, describe, expect, it } from 'vitest';
import { buildBatch } from '../src/compute/batch.ts';
import { createCpuBackend } from '../src/compute/cpu/backend.ts';
import { leavesOf } from '../src/model/leaves.ts';
import { addon, hasAddon } from '../test/support/native.ts';
import { rowOf } from '../test/support/sampling-requests.ts';
import { randomTokens, tinyModel } from '../test/support/tiny-model.ts';
import { summarize, summaryText } from './step-summary.ts';
import { kindOf, type Loop, readTimeline, type Timeline } from './timeline.ts';
import { gaps, type TraceEvent, traceEvents } from './trace-events.ts';

const THREADS = 3;
const STEPS = 4;
const { spec, weights } = tinyModel({ layerCount: 3, hiddenSize: 128, ffnSize: 256 });

describe.skipIf(!hasAddon)('a timeline of steps (skipped where the addon is not built)', () => {
  let timeline: Timeline;
  let events: TraceEvent[];

  beforeAll(async () => {
    const backend = await createCpuBackend(addon(), spec, weights, { blockCount: 2, threads: THREADS });
    backend.startTimeline(1 << 12, 1 << 16);
    for (let step = 0; step < STEPS; step++) {
      const tokens = randomTokens(20, spec.vocabSize);
      const batch = buildBatch([{ tokens, start: 0, blocks: [0], wantLogits: 'last' }]);
      const { logits } = await backend.step(batch);
      backend.sampleRows(logits, spec.vocabSize, [rowOf({}, spec.vocabSize, { position: 20 })]);
    }
    timeline = readTimeline(backend.takeTimeline());
    events = JSON.parse(JSON.stringify(traceEvents(timeline, 7, 'tiny'))) as TraceEvent[];
    backend.close();
  });

  const spans = () => events.filter(({ ph }) => ph === 'X');

  it('is a trace of named spans on named rows', () => {
    expect(spans().length).toBeGreaterThan(100);
    for (const { name, pid, tid, ts, dur } of spans()) {
      expect(name).not.toBe('');
      expect(pid).toBe(7);
      expect(ts).toBeGreaterThanOrEqual(0);
      expect(dur).toBeGreaterThanOrEqual(0);
      const row = events.find((event) => event.name === 'thread_name' && event.tid === tid);
      expect(row?.args?.name, `row ${tid}`).toBeTypeOf('string');
    }
    expect(events.filter((event) => event.name === 'thread_name').length).toBe(2 + THREADS);
  });

  it('has spans that do not overlap within a row', () => {
    for (const tid of new Set(spans().map((event) => event.tid))) {
      const row = spans()
        .filter((event) => event.tid === tid)
        .sort((a, b) => (a.ts as number) - (b.ts as number));
      for (const [index, { ts, dur }] of row.slice(0, -1).entries()) {
        // JSON and sums of doubles: a picosecond.
        expect((ts as number) + (dur as number)).toBeLessThanOrEqual((row[index + 1]?.ts as number) + 1e-6);
      }
    }
  });

  it('shows every product of the model in every step, and what else there is', () => {
    const tensors = leavesOf(spec, 'linear').map(({ weight }) => weight.tensor);
    expect(tensors.length).toBeGreaterThan(20);
    for (const { beginUs, endUs } of timeline.steps) {
      const within = timeline.loops.filter((loop) => loop.beginUs >= beginUs && loop.endUs <= endUs);
      const products = within.filter(({ operation }) => operation === 'product');
      expect(products.flatMap(({ subject }) => subject.split(' + ')).sort()).toEqual(tensors.sort());
      for (const { bytes } of products) expect(bytes).toBeGreaterThan(0);
      const operations = new Set(within.map(({ operation }) => operation));
      for (const name of ['embed', 'attention']) expect(operations).toContain(name);
    }
    expect(timeline.loops.filter(({ operation }) => operation === 'sample').length).toBe(STEPS);
  });

  it('adds up: loops and what lies between them make the step', () => {
    const summary = summarize(timeline, THREADS);
    const inSteps = summary.operations.filter(({ name }) => name !== 'sample');
    const sum = inSteps.reduce((us, operation) => us + operation.us, summary.betweenUs);
    expect(sum).toBeCloseTo(summary.stepUs, 3);
    for (const { busy } of inSteps) expect(busy).toBeLessThanOrEqual(1.001);
    const between = gaps(timeline).reduce((us, { beginUs, endUs }) => us + endUs - beginUs, 0);
    expect(between / STEPS).toBeLessThanOrEqual(summary.betweenUs + 1e-6);
    expect(summaryText(summary).length).toBe(summary.operations.length + 3);
  });
});

describe('a summary', () => {
  const product = (beginUs: number, endUs: number, layer: number, pieces: Loop['pieces']): Loop => ({
    operation: 'product',
    subject: `blk.${layer}.attn_q.weight + blk.${layer}.attn_k.weight`,
    bytes: 1000,
    beginUs,
    endUs,
    pieces,
  });
  const span = (beginUs: number, endUs: number) => ({ beginUs, endUs });
  const timeline: Timeline = {
    steps: [span(0, 100)],
    loops: [
      product(10, 30, 0, [[span(10, 20), span(20, 30)], [span(14, 24)]]),
      product(40, 60, 11, [[span(40, 52)], [span(44, 60)]]),
      { ...product(70, 80, 0, [[span(70, 80)], []]), operation: 'make input' },
    ],
  };

  it('takes layers together and counts what threads wait for', () => {
    const { operations, ...all } = summarize(timeline, 2);
    expect(operations.map(({ name }) => name)).toEqual([
      'product blk.N.{attn_q,attn_k}.weight',
      'make input blk.N.{attn_q,attn_k}.weight',
    ]);
    expect(operations[0]).toMatchObject({
      loops: 2,
      us: 40,
      share: 0.4,
      busy: 58 / 80,
      startUs: 4,
      tailUs: 7,
    });
    expect(operations[0]?.bytesPerSecond).toBeCloseTo(2000 / 40e-6);
    expect(operations[0]?.busyBytesPerSecond).toBeCloseTo(2000 / 29e-6);
    expect(all).toEqual({
      stepUs: 100,
      betweenUs: 50,
      aloneUs: 10,
      aloneLoops: 1,
      sharedLoops: 2,
      idleShare: 1 - 68 / 200,
    });
  });

  it('names one matrix as the file does, but for its layer', () => {
    expect(kindOf({ ...product(0, 1, 0, []), subject: 'model.layers.3.mlp.down_proj.weight' })).toBe(
      'product model.layers.N.mlp.down_proj.weight',
    );
    expect(kindOf({ ...product(0, 1, 0, []), operation: 'attention', subject: '' })).toBe('attention');
  });

  it('is refused of a recording that had no room for all', () => {
    const empty = new Float64Array(0);
    const native = { texts: [], loops: empty, steps: empty, pieces: [], dropped: 3 };
    expect(() => readTimeline(native)).toThrow('no room for 3 loops and pieces');
  });
});
