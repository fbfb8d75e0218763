// For how long other programs kept the server, and this one, from computing, over the whole run: on a machine with much else to do a
// request may be seen seconds after it was sent, which is no fault of the server's.

import { heldUpMs } from './process-table.ts';

const SAMPLE_MS = 500;

interface Sample {
  readonly atMs: number;
  /** Since the run began. */
  readonly totalMs: number;
}

export class HoldUps {
  readonly #samples: Sample[] = [{ atMs: 0, totalMs: 0 }];
  readonly #timer = setInterval(() => this.#sample(), SAMPLE_MS).unref();
  #pid: number | undefined;
  #lastMs = 0;

  /** Of this process from now on. */
  follow(pid: number): void {
    this.#sample();
    this.#pid = pid;
    this.#lastMs = bothMs(pid);
  }

  /** Within a time, to a sample more. */
  between(fromMs: number, toMs: number): number {
    const before = this.#samples.findLast(({ atMs }) => atMs <= fromMs);
    const after = this.#samples.find(({ atMs }) => atMs >= toMs) ?? this.#samples.at(-1);
    return (after?.totalMs ?? 0) - (before?.totalMs ?? 0);
  }

  end(): void {
    clearInterval(this.#timer);
  }

  #sample(): void {
    if (this.#pid === undefined) return;
    const ms = bothMs(this.#pid);
    const totalMs = (this.#samples.at(-1)?.totalMs ?? 0) + Math.max(0, ms - this.#lastMs);
    this.#lastMs = ms;
    this.#samples.push({ atMs: performance.now(), totalMs });
  }
}

function bothMs(pid: number): number {
  return heldUpMs(pid) + heldUpMs(process.pid);
}
