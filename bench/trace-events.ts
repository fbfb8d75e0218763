// A timeline in the Trace Event format, which chrome://tracing and ui.perfetto.dev open: a process for each timeline, in it a row
// for steps, one for loops and one for each thread. Spans of a row never overlap.

import { kindOf, type Loop, type Span, type Timeline } from './timeline.ts';

export interface TraceEvent {
  readonly name: string;
  /** X: a span. M: the name or the place of a row. */
  readonly ph: 'X' | 'M';
  readonly pid: number;
  readonly tid: number;
  /** Microseconds. */
  readonly ts?: number;
  readonly dur?: number;
  readonly args?: Readonly<Record<string, string | number>>;
}

const STEPS_ROW = 0;
const LOOPS_ROW = 1;
const FIRST_THREAD_ROW = 2;
// Shorter ones would be noise in the picture.
const LEAST_GAP_US = 0.1;

export function traceEvents(timeline: Timeline, pid: number, process: string): TraceEvent[] {
  const threads = timeline.loops[0]?.pieces.length ?? 1;
  const rows = [
    'steps',
    'loops',
    'calling thread',
    ...Array.from({ length: threads - 1 }, (_, index) => `thread ${index + 1}`),
  ];
  const named = (name: string, tid: number, args: TraceEvent['args'] & object): TraceEvent => ({
    name,
    ph: 'M',
    pid,
    tid,
    args,
  });
  const span = (name: string, tid: number, { beginUs, endUs }: Span, args = {}): TraceEvent => ({
    name,
    ph: 'X',
    pid,
    tid,
    ts: beginUs,
    dur: endUs - beginUs,
    args,
  });
  return [
    named('process_name', STEPS_ROW, { name: process }),
    ...rows.flatMap((name, tid) => [
      named('thread_name', tid, { name }),
      named('thread_sort_index', tid, { sort_index: tid }),
    ]),
    ...timeline.steps.map((step, number) => span(`step ${number + 1}`, STEPS_ROW, step)),
    ...timeline.loops.map((loop) =>
      span(labelOf(loop), LOOPS_ROW, loop, loop.bytes > 0 ? { bytes: loop.bytes } : {}),
    ),
    ...timeline.loops.flatMap((loop) =>
      loop.pieces.flatMap((pieces, thread) =>
        pieces.map((piece) => span(labelOf(loop), FIRST_THREAD_ROW + thread, piece)),
      ),
    ),
    ...waits(timeline.loops).map((wait) => span('waits for other threads', FIRST_THREAD_ROW, wait)),
    ...gaps(timeline).map(({ before, ...gap }) => span('between loops', FIRST_THREAD_ROW, gap, { before })),
  ];
}

function labelOf(loop: Loop): string {
  return loop.subject === '' ? loop.operation : `${loop.operation} ${loop.subject}`;
}

/** Of the calling thread, from its last piece of a loop until the loop ends. */
function waits(loops: readonly Loop[]): Span[] {
  return loops
    .map(({ pieces, beginUs, endUs }) => ({ beginUs: pieces[0]?.at(-1)?.endUs ?? beginUs, endUs }))
    .filter(isLong);
}

/** What the calling thread does of a step outside of loops; `before`: the kind of the next loop, or the end. */
export function gaps({ steps, loops }: Timeline): (Span & { readonly before: string })[] {
  return steps.flatMap((step) => {
    const own = loops.filter(({ beginUs, endUs }) => beginUs >= step.beginUs && endUs <= step.endUs);
    const ends = [step.beginUs, ...own.map(({ endUs }) => endUs)];
    return ends
      .map((beginUs, place) => {
        const next = own[place];
        return next === undefined
          ? { beginUs, endUs: step.endUs, before: 'the end of the step' }
          : { beginUs, endUs: next.beginUs, before: kindOf(next) };
      })
      .filter(isLong);
  });
}

function isLong({ beginUs, endUs }: Span): boolean {
  return endUs - beginUs >= LEAST_GAP_US;
}
