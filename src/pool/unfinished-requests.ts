// What an engine owes: every unfinished request with the tokens it has given so far, so that another one can go on
// where one died. Also tells who is suspected of killing engines.

import type { EngineRequest, RequestEvent } from '../engine/request.ts';

/** Deaths in a row after which a request is given up. */
export const DEATHS_TO_GIVE_UP = 3;
/** From this many on, a request is tried on its own. */
const DEATHS_TO_ISOLATE = 2;

interface Unfinished {
  readonly request: EngineRequest;
  /** Its answer so far. */
  readonly tokens: number[];
  /** Engines that died since its last token. */
  deaths: number;
  submitted: boolean;
}

export class UnfinishedRequests {
  readonly #unfinished = new Map<string, Unfinished>();

  get size(): number {
    return this.#unfinished.size;
  }

  /** When the oldest of them came. */
  get oldestMs(): number | undefined {
    let oldest: number | undefined;
    for (const { request } of this.#unfinished.values()) {
      if (oldest === undefined || request.enqueuedMs < oldest) oldest = request.enqueuedMs;
    }
    return oldest;
  }

  /** Whether the engine works on any. */
  get hasSubmitted(): boolean {
    for (const { submitted } of this.#unfinished.values()) if (submitted) return true;
    return false;
  }

  has(id: string): boolean {
    return this.#unfinished.has(id);
  }

  add(request: EngineRequest): void {
    const tokens = [...(request.answer ?? [])];
    this.#unfinished.set(request.id, { request, tokens, deaths: 0, submitted: false });
  }

  /** Every one as it stands. */
  all(): EngineRequest[] {
    return [...this.#unfinished.values()].map(asItStands);
  }

  remove(id: string): void {
    this.#unfinished.delete(id);
  }

  /** Takes note of what was delivered. */
  note(events: readonly RequestEvent[]): void {
    for (const event of events) {
      const one = this.#unfinished.get(event.id);
      if (one === undefined) continue;
      one.deaths = 0;
      if (event.kind === 'token') one.tokens.push(event.token);
      else this.#unfinished.delete(event.id);
    }
  }

  /** The engine was put aside in good order: everything it was given must be given again. */
  takeBack(): void {
    for (const one of this.#unfinished.values()) one.submitted = false;
  }

  /** The engine died: everything it was given must be given again. Returns those that are given up. */
  die(): EngineRequest[] {
    const lost: EngineRequest[] = [];
    for (const [id, one] of this.#unfinished) {
      if (!one.submitted) continue;
      one.submitted = false;
      one.deaths++;
      if (one.deaths < DEATHS_TO_GIVE_UP) continue;
      lost.push(asItStands(one));
      this.#unfinished.delete(id);
    }
    return lost;
  }

  /**
   * Requests to submit now, as they stand. Suspects go one at a time: the next one only when the last has
   * given a token or ended, so that a request which kills engines is found without harm to the others.
   */
  takeSubmittable(): EngineRequest[] {
    const all = [...this.#unfinished.values()];
    const suspects = all.filter(({ deaths }) => deaths >= DEATHS_TO_ISOLATE);
    if (suspects.some(({ submitted }) => submitted)) return [];
    const next = suspects.length > 0 ? suspects.slice(0, 1) : all.filter(({ submitted }) => !submitted);
    for (const one of next) one.submitted = true;
    return next.map(asItStands);
  }
}

function asItStands({ request, tokens }: Unfinished): EngineRequest {
  if (request.pooling !== undefined || tokens.length === 0) return request;
  return { ...request, answer: [...tokens] };
}
