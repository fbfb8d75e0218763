// Whose job is next where accounts take turns: one with many jobs waits behind its own, never before the others'.
// Within an account the order of arrival holds.

export class AccountTurns<Job> {
  // A Map keeps its order: the first account is next, one that was served goes to the end.
  readonly #waiting = new Map<string, Set<Job>>();

  get empty(): boolean {
    return this.#waiting.size === 0;
  }

  add(account: string, job: Job): void {
    const jobs = this.#waiting.get(account) ?? new Set();
    this.#waiting.set(account, jobs.add(job));
  }

  /** Before the other jobs of its account. */
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
