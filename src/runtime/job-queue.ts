// A queue of jobs for one thread, accounts in turn, also between the parts of a long job. The thread starts with the
// first job and ends after a quiet minute. A job whose caller has left never starts; a running one is dropped, and
// its thread ended if it goes on for long. So is a job that exceeds its CPU time. Wall time says little where other
// programs use the machine.

import { JobThread, type JobThreadOptions } from './job-thread.ts';

const QUIET_MS = 60_000;
/** About how long a new thread takes to open a large tokenizer. */
const ABANDONED_MS = 1000;
const LOOK_AGAIN_MS = 100;

export interface JobCaller {
  /** Accounts take turns. Default: one for all. */
  readonly account?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface Job<Work, Result> {
  readonly work: Work;
  readonly account: string;
  /** Later calls do nothing. */
  readonly settle: (result: Result | Error) => void;
}

/** The job exceeded its CPU time. */
export class JobTooLong extends Error {
  override readonly name = 'JobTooLong';
}

interface JobQueueOptions<Work> extends JobThreadOptions<Work> {
  /** CPU time of a job, including what else runs in this process. Default: no limit. */
  readonly limitMs?: number;
  /** For jobs in parts: messages to resume or forget a paused one. */
  readonly pausing?: { readonly resume: (work: Work) => Work; readonly forget: (work: Work) => Work };
}

/** An upper bound of a thread's CPU time: wall time or the process's CPU time. */
class Stopwatch {
  readonly #beganMs = performance.now();
  readonly #begunUsage = process.cpuUsage();

  get ms(): number {
    const { user, system } = process.cpuUsage(this.#begunUsage);
    return Math.min(performance.now() - this.#beganMs, (user + system) / 1000);
  }
}

export class JobQueue<Work, Result> {
  readonly #options: JobQueueOptions<Work>;
  readonly #turns = new AccountTurns<Job<Work, Result>>();
  #thread: JobThread<Work, Result> | undefined;
  /** The thread has a job, even an abandoned one. */
  #busy = false;
  #running: Job<Work, Result> | undefined;
  #given: Job<Work, Result> | undefined;
  readonly #paused = new Set<Job<Work, Result>>();
  /** Runs while the thread is idle, or busy with an abandoned or limited job. */
  #timer: NodeJS.Timeout | undefined;

  constructor(options: JobQueueOptions<Work>) {
    this.#options = options;
  }

  run(work: Work, { account = '', signal }: JobCaller): Promise<Result> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        reject(signal?.reason);
        this.#abandon(job);
      };
      const settle = (result: Result | Error) => {
        signal?.removeEventListener('abort', leave);
        if (result instanceof Error) reject(result);
        else resolve(result);
      };
      const job: Job<Work, Result> = { work, account, settle };
      signal?.addEventListener('abort', leave, { once: true });
      this.#turns.add(account, job);
      this.#advance();
    });
  }

  async close(): Promise<void> {
    const thread = this.#thread;
    this.#failAll(new Error('the thread was closed'));
    await thread?.end();
  }

  #advance(): void {
    if (!this.#busy) {
      if (this.#turns.empty) this.#rest();
      else this.#startNext();
    }
    // Pending jobs keep the process alive.
    this.#thread?.hold(this.#running !== undefined || !this.#turns.empty);
  }

  #rest(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#drop(), QUIET_MS).unref();
  }

  #startNext(): void {
    clearTimeout(this.#timer);
    try {
      this.#thread ??= this.#open();
    } catch (error) {
      this.#failAll(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    // Until then jobs can leave the queue at no cost.
    if (!this.#thread.ready) return;
    this.#running = this.#turns.take();
    if (this.#running === undefined) return;
    this.#busy = true;
    this.#given = this.#running;
    this.#thread.send(this.#toDo(this.#running));
    const { limitMs } = this.#options;
    if (limitMs !== undefined) this.#watch(this.#running, limitMs, new Stopwatch());
  }

  #toDo(job: Job<Work, Result>): Work {
    return this.#paused.delete(job) ? (this.#options.pausing?.resume(job.work) ?? job.work) : job.work;
  }

  /** Other accounts come first. */
  #pause(): void {
    const [job, given] = [this.#running, this.#given];
    clearTimeout(this.#timer);
    this.#running = undefined;
    this.#busy = false;
    if (job !== undefined) {
      this.#paused.add(job);
      this.#turns.putBack(job.account, job);
    } else if (given !== undefined) this.#forget(given);
    this.#advance();
  }

  #forget({ work }: Job<Work, Result>): void {
    const { pausing } = this.#options;
    if (pausing !== undefined) this.#thread?.send(pausing.forget(work));
  }

  #watch(job: Job<Work, Result>, limitMs: number, spent: Stopwatch): void {
    const left = limitMs - spent.ms;
    if (left <= 0) {
      // A result that has arrived counts.
      setImmediate(() => {
        if (this.#running === job) this.#cutOff(limitMs);
      });
      return;
    }
    this.#timer = setTimeout(() => this.#watch(job, limitMs, spent), Math.max(left, LOOK_AGAIN_MS)).unref();
  }

  #cutOff(limitMs: number): void {
    this.#drop();
    this.#finish(new JobTooLong(`it takes more than ${limitMs} ms of the processor`));
  }

  #open(): JobThread<Work, Result> {
    const thread = new JobThread<Work, Result>(this.#options, {
      ready: () => this.#advance(),
      answer: (result) => this.#finish(result),
      paused: () => this.#pause(),
      lost: (error) => {
        // A thread that cannot start serves no job.
        if (!thread.ready) return this.#failAll(error);
        this.#thread = undefined;
        this.#paused.clear();
        this.#finish(error);
      },
    });
    return thread;
  }

  #finish(result: Result | Error): void {
    const job = this.#running;
    this.#running = undefined;
    this.#busy = false;
    job?.settle(result);
    this.#advance();
  }

  #abandon(job: Job<Work, Result>): void {
    this.#turns.remove(job.account, job);
    if (this.#paused.delete(job)) this.#forget(job);
    if (this.#running === job) {
      this.#running = undefined;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => {
        this.#drop();
        this.#advance();
      }, ABANDONED_MS).unref();
    }
    this.#advance();
  }

  /** The next job starts another thread. */
  #drop(): void {
    this.#thread?.end();
    this.#thread = undefined;
    this.#busy = false;
    this.#paused.clear();
  }

  #failAll(error: Error): void {
    clearTimeout(this.#timer);
    this.#thread = undefined;
    this.#busy = false;
    this.#running?.settle(error);
    this.#running = undefined;
    this.#paused.clear();
    for (let job = this.#turns.take(); job !== undefined; job = this.#turns.take()) job.settle(error);
  }
}

/** Jobs of accounts in turn; in order of arrival within an account. */
export class AccountTurns<Job> {
  // In order of turns: a served account goes to the end.
  readonly #waiting = new Map<string, Set<Job>>();

  get empty(): boolean {
    return this.#waiting.size === 0;
  }

  add(account: string, job: Job): void {
    const jobs = this.#waiting.get(account) ?? new Set();
    this.#waiting.set(account, jobs.add(job));
  }

  putBack(account: string, job: Job): void {
    this.#waiting.set(account, new Set([job, ...(this.#waiting.get(account) ?? [])]));
  }

  take(): Job | undefined {
    for (const [account, jobs] of this.#waiting) {
      for (const job of jobs) {
        jobs.delete(job);
        this.#waiting.delete(account);
        if (jobs.size > 0) this.#waiting.set(account, jobs);
        return job;
      }
    }
    return undefined;
  }

  remove(account: string, job: Job): void {
    const jobs = this.#waiting.get(account);
    if (jobs?.delete(job) && jobs.size === 0) this.#waiting.delete(account);
  }
}
