// Which workers a gateway avoids though they publish their status: those that did not acknowledge what they were sent, or that
// have work and make no steps. After a pause such a worker gets one request as a trial; once it acknowledges something it is
// well again, else the pause doubles. Knows no clock: every call passes the time.

import type { NodeStatus } from '../messages.ts';
import type { KnownSpeeds } from '../routing/heartbeat.ts';

const FIRST_PAUSE_MS = 5000;
const LONGEST_PAUSE_MS = 60_000;
/** How long a trial may take. */
const TRIAL_MS = 5000;
/** No step for this long, with work, is no progress; long steps take longer. */
const STUCK_MS = 5000;
const STUCK_STEPS = 2;

export type WorkerProcess = Pick<NodeStatus, 'node' | 'start'>;

interface Avoided {
  readonly start: string;
  readonly pauseMs: number;
  untilMs: number;
  onTrial: boolean;
}

interface Progress {
  readonly start: string;
  readonly steps: number;
  /** Since when its steps are these though it has work, as of the last status. */
  readonly sinceMs: number;
  readonly heardMs: number;
  readonly longestMs: number;
}

export class WorkerHealth {
  readonly #avoided = new Map<string, Avoided>();
  readonly #progress = new Map<string, Map<string, Progress>>();
  /** By worker: the models of which it makes no progress. */
  readonly #stuck = new Map<string, readonly string[]>();

  handle({ node, start, models }: NodeStatus, nowMs: number): void {
    // What another process of its name did says nothing of it.
    if (this.#avoided.get(node)?.start !== start) this.#avoided.delete(node);
    const before = this.#progress.get(node);
    const progress = new Map<string, Progress>();
    for (const { name, load } of models) {
      if (load === undefined) continue;
      // Whose pictures are on their way wait for others than the engine.
      const { running, waiting, preparing = 0 } = load;
      if (running + waiting.reduce((a, b) => a + b) <= preparing) continue;
      const { steps, speeds } = load;
      const last = before?.get(name);
      const isSame = last !== undefined && last.start === start && last.steps === steps;
      const longestMs = Math.max(STUCK_MS, STUCK_STEPS * stepMs(speeds));
      progress.set(name, { start, steps, sinceMs: isSame ? last.sinceMs : nowMs, heardMs: nowMs, longestMs });
    }
    this.#progress.set(node, progress);
    const stuck = [...progress].filter(([, one]) => isStuck(one)).map(([name]) => name);
    if (stuck.length > 0) this.#stuck.set(node, stuck);
    else this.#stuck.delete(node);
  }

  left(node: string): void {
    this.#progress.delete(node);
    this.#stuck.delete(node);
    this.#avoided.delete(node);
  }

  isStuck({ node, start }: WorkerProcess, model: string): boolean {
    const progress = this.#progress.get(node)?.get(model);
    return progress?.start === start && isStuck(progress);
  }

  /** Workers that should get no requests for a model while others can take them: few. */
  avoided(model: string, nowMs: number): string[] {
    const paused = [...this.#avoided].filter(([, { untilMs }]) => untilMs > nowMs).map(([node]) => node);
    const stuck = [...this.#stuck].filter(([, models]) => models.includes(model)).map(([node]) => node);
    return [...paused, ...stuck];
  }

  /** It had time to acknowledge a request, or to compute something, and did not. */
  failed(worker: WorkerProcess, nowMs: number): void {
    const before = this.#avoidedOf(worker);
    // Other requests that it was given before fail, too.
    if (before !== undefined && !before.onTrial && before.untilMs > nowMs) return;
    const pauseMs = before === undefined ? FIRST_PAUSE_MS : Math.min(2 * before.pauseMs, LONGEST_PAUSE_MS);
    this.#avoided.set(worker.node, {
      start: worker.start,
      pauseMs,
      untilMs: nowMs + pauseMs,
      onTrial: false,
    });
  }

  /** One request at a time is a trial. */
  chosen(worker: WorkerProcess, nowMs: number): void {
    const avoided = this.#avoidedOf(worker);
    if (avoided === undefined) return;
    avoided.onTrial = true;
    avoided.untilMs = nowMs + TRIAL_MS;
  }

  acknowledged({ node }: WorkerProcess): void {
    this.#avoided.delete(node);
  }

  #avoidedOf({ node, start }: WorkerProcess): Avoided | undefined {
    const avoided = this.#avoided.get(node);
    return avoided?.start === start ? avoided : undefined;
  }
}

function isStuck({ heardMs, sinceMs, longestMs }: Progress): boolean {
  return heardMs - sinceMs > longestMs;
}

function stepMs({ stepTokens, stepBaseMs = 0, promptTokenMs = 0 }: KnownSpeeds): number {
  return stepBaseMs + promptTokenMs * stepTokens;
}
