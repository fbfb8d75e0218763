// Where the time of steps goes, by operation: what a timeline adds up to.

import { kindOf, type Loop, type Span, type Timeline } from './timeline.ts';

/** Times are of a step, in microseconds. */
export interface OperationTime {
  readonly name: string;
  readonly loops: number;
  readonly us: number;
  /** Of the step's time. */
  readonly share: number;
  /** Of `us` times the threads: how much of it they computed. */
  readonly busy: number;
  /** Of weights, for each second of the loops, and for each second that threads computed, all of them together. */
  readonly bytesPerSecond?: number;
  readonly busyBytesPerSecond?: number;
  /** Of a loop: until the last of the threads that took part began, and from when the first of them ended. */
  readonly startUs: number;
  readonly tailUs: number;
}

export interface StepSummary {
  readonly stepUs: number;
  readonly operations: readonly OperationTime[];
  /** Of the calling thread, outside of loops. */
  readonly betweenUs: number;
  /** Loops that one thread computed alone. */
  readonly aloneUs: number;
  readonly aloneLoops: number;
  /** Those of several threads, which end where all have. */
  readonly sharedLoops: number;
  /** Of the step's time, threads' average. */
  readonly idleShare: number;
}

/** `threads`: how many were to take part. */
export function summarize({ steps, loops }: Timeline, threads: number): StepSummary {
  const count = steps.length;
  if (count === 0) throw new Error('no step was recorded');
  const stepUs = total(steps) / count;
  const inSteps = loops.filter((loop) =>
    steps.some(({ beginUs, endUs }) => loop.beginUs >= beginUs && loop.endUs <= endUs),
  );
  const [alone, shared] = [inSteps.filter(isAlone), inSteps.filter((loop) => !isAlone(loop))];
  const busyUs = inSteps.reduce((sum, loop) => sum + busyOf(loop), 0) / count;
  return {
    stepUs,
    operations: [...byKind(loops)]
      .map(([name, own]) => operationTime(name, own, { count, stepUs, threads }))
      .sort((a, b) => b.us - a.us),
    betweenUs: stepUs - total(inSteps) / count,
    aloneUs: total(alone) / count,
    aloneLoops: alone.length / count,
    sharedLoops: shared.length / count,
    idleShare: 1 - busyUs / (threads * stepUs),
  };
}

function byKind(loops: readonly Loop[]): ReadonlyMap<string, readonly Loop[]> {
  const kinds = new Map<string, Loop[]>();
  for (const loop of loops) kinds.set(kindOf(loop), [...(kinds.get(kindOf(loop)) ?? []), loop]);
  return kinds;
}

function operationTime(
  name: string,
  loops: readonly Loop[],
  { count, stepUs, threads }: { readonly count: number; readonly stepUs: number; readonly threads: number },
): OperationTime {
  const us = total(loops);
  const busyUs = loops.reduce((sum, loop) => sum + busyOf(loop), 0);
  const bytes = loops.reduce((sum, loop) => sum + loop.bytes, 0);
  return {
    name,
    loops: loops.length / count,
    us: us / count,
    share: us / count / stepUs,
    busy: busyUs / (threads * us),
    ...(bytes > 0
      ? { bytesPerSecond: (bytes * 1e6) / us, busyBytesPerSecond: (bytes * 1e6 * threads) / busyUs }
      : {}),
    startUs: loops.reduce((sum, loop) => sum + startOf(loop), 0) / loops.length,
    tailUs: loops.reduce((sum, loop) => sum + tailOf(loop), 0) / loops.length,
  };
}

function total(spans: readonly Span[]): number {
  return spans.reduce((sum, { beginUs, endUs }) => sum + endUs - beginUs, 0);
}

function busyOf({ pieces }: Loop): number {
  return total(pieces.flat());
}

function takingPart({ pieces }: Loop): readonly (readonly Span[])[] {
  return pieces.filter(({ length }) => length > 0);
}

function isAlone(loop: Loop): boolean {
  return takingPart(loop).length === 1;
}

function startOf(loop: Loop): number {
  return Math.max(...takingPart(loop).map(([first]) => (first as Span).beginUs)) - loop.beginUs;
}

function tailOf(loop: Loop): number {
  return loop.endUs - Math.min(...takingPart(loop).map((pieces) => (pieces.at(-1) as Span).endUs));
}

/** Lines of a table. */
export function summaryText(summary: StepSummary): string[] {
  const { stepUs, operations, betweenUs, aloneUs, aloneLoops, sharedLoops, idleShare } = summary;
  const width = Math.max(...operations.map(({ name }) => name.length), 'between loops'.length);
  const line = (name: string, cells: readonly string[]) =>
    `  ${name.padEnd(width)}${cells.map((cell) => cell.padStart(9)).join('')}`;
  const share = (value: number) => `${(value * 100).toFixed(1)} %`;
  const rate = (value: number | undefined) => (value === undefined ? '' : (value / 1e9).toFixed(1));
  return [
    line('', ['loops', 'µs', 'of step', 'busy', 'start µs', 'tail µs', 'GB/s', 'busy']),
    ...operations.map(({ name, loops, us, startUs, tailUs, ...own }) =>
      line(name, [
        loops.toFixed(0),
        us.toFixed(0),
        share(own.share),
        share(own.busy),
        startUs.toFixed(1),
        tailUs.toFixed(1),
        rate(own.bytesPerSecond),
        rate(own.busyBytesPerSecond),
      ]),
    ),
    line('between loops', ['', betweenUs.toFixed(0), share(betweenUs / stepUs)]),
    `  a step of ${(stepUs / 1000).toFixed(2)} ms: ${sharedLoops.toFixed(0)} loops of several threads, ` +
      `${aloneLoops.toFixed(0)} of one (${aloneUs.toFixed(0)} µs); threads idle ${share(idleShare)}`,
  ];
}
