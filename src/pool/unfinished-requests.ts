// What an engine process owes: every unfinished request with the tokens it has given so far, so that another
// process can go on where one died. Also tells who is suspected of killing engines.

import type { EngineRequest, RequestEvent } from '../engine/request.ts';

/** Deaths in a row after which a request is given up. */
export const DEATHS_TO_GIVE_UP = 3;
/** From this many on, a request is tried on its own. */
const DEATHS_TO_ISOLATE = 2;

interface Debt {
  readonly request: EngineRequest;
  /** Tokens of each unfinished choice. */
  readonly answers: Map<number, number[]>;
  /** Engine processes that died since its last token. */
  deaths: number;
  submitted: boolean;
}

export class UnfinishedRequests {
  readonly #debts = new Map<string, Debt>();

  get size(): number {
    return this.#debts.size;
  }

  has(id: string): boolean {
    return this.#debts.has(id);
  }

  add(request: EngineRequest): void {
    const resumed = new Map(request.resumed?.map(({ choice, tokens }) => [choice, [...tokens]]));
    const fresh = new Map(Array.from({ length: request.choices }, (_, choice) => [choice, []]));
    const answers = request.resumed === undefined ? fresh : resumed;
    this.#debts.set(request.id, { request, answers, deaths: 0, submitted: false });
  }

  /** Every unfinished request as it stands. */
  all(): EngineRequest[] {
    return [...this.#debts.values()].map((debt) => this.#resumption(debt));
  }

  remove(id: string): void {
    this.#debts.delete(id);
  }

  /** Takes note of what was delivered. */
  note(events: readonly RequestEvent[]): void {
    for (const event of events) {
      const debt = this.#debts.get(event.id);
      if (debt === undefined) continue;
      debt.deaths = 0;
      if (event.kind === 'token') debt.answers.get(event.choice)?.push(event.token);
      else debt.answers.delete(event.choice);
      if (debt.answers.size === 0) this.#debts.delete(event.id);
    }
  }

  /** The process died: everything it was given must be given again. Returns those that are given up. */
  die(): EngineRequest[] {
    const lost: EngineRequest[] = [];
    for (const [id, debt] of this.#debts) {
      if (!debt.submitted) continue;
      debt.submitted = false;
      debt.deaths++;
      if (debt.deaths < DEATHS_TO_GIVE_UP) continue;
      lost.push(this.#resumption(debt));
      this.#debts.delete(id);
    }
    return lost;
  }

  /**
   * Requests to submit now, as they stand. Suspects go one at a time: the next one only when the last has
   * given a token or ended, so that a request which kills engines is found without harm to the others.
   */
  takeSubmittable(): EngineRequest[] {
    const debts = [...this.#debts.values()];
    const suspects = debts.filter(({ deaths }) => deaths >= DEATHS_TO_ISOLATE);
    if (suspects.some(({ submitted }) => submitted)) return [];
    const next = suspects.length > 0 ? suspects.slice(0, 1) : debts.filter(({ submitted }) => !submitted);
    for (const debt of next) debt.submitted = true;
    return next.map((debt) => this.#resumption(debt));
  }

  #resumption({ request, answers }: Debt): EngineRequest {
    // Before the first token all choices still start together.
    if ([...answers.values()].every((tokens) => tokens.length === 0)) return request;
    return { ...request, resumed: [...answers].map(([choice, tokens]) => ({ choice, tokens })) };
  }
}
