// Where a load test stands: a bar on a terminal, now and then a line elsewhere.

import type { LiveLoad, Phase } from '../bench/serve/run-load.ts';
import { progressBar } from './progress-bar.ts';

const BAR_MS = 200;
const LINE_MS = 5000;
/** What stands before the note: the label, the bar and the percentage. */
const BAR_COLUMNS = 'bench [] 100% '.length + 30;

const labels: Readonly<Record<Phase, string>> = {
  calibrate: 'calibrating',
  'warm-up': 'warming up',
  load: 'load',
};

/** Looks at the load by a timer, so that requests are not held up; the answer ends it. */
export function showProgress(live: LiveLoad, stream: NodeJS.WriteStream = process.stderr): () => void {
  const bar = progressBar('bench', stream);
  const update = () => {
    const nowMs = performance.now();
    const share = live.total === 0 ? 0 : live.done / live.total;
    if (stream.isTTY) bar.update(share, progressNote(live, nowMs).slice(0, roomFor(stream)));
    else if (live.total > 0) stream.write(`${progressNote(live, nowMs)}\n`);
  };
  const timer = setInterval(update, stream.isTTY ? BAR_MS : LINE_MS);
  return () => {
    clearInterval(timer);
    bar.end();
  };
}

/** A line that wraps could not be wiped. */
function roomFor({ columns = 80 }: NodeJS.WriteStream): number {
  return Math.max(0, columns - BAR_COLUMNS);
}

export function progressNote(live: LiveLoad, nowMs: number): string {
  const { phase, done, total, running, errors, chunks, startedMs } = live;
  if (total === 0) return labels[phase];
  const seconds = (nowMs - startedMs) / 1000;
  return [
    `${labels[phase]} ${done}/${total}`,
    `${running} running`,
    ...(errors > 0 ? [`${errors} failed`] : []),
    `${seconds > 0 ? Math.round(chunks / seconds).toLocaleString('en-US') : 0} tokens/s`,
    ...(done > 0 && done < total ? [`${formatSeconds((seconds / done) * (total - done))} left`] : []),
  ].join(', ');
}

function formatSeconds(seconds: number): string {
  const whole = Math.ceil(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
