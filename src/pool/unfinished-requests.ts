// What an engine owes: every unfinished request with the tokens it has given so far, so that another one can go on
// where one died. Also knows which are suspected of killing engines.

import { type EngineRequest, isAnswered, type RequestEvent } from '../engine/request.ts';
import { Heap } from '../engine/scheduler/heap.ts';

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

/** Sequences come by the thousand: nothing but a death and `all` walks through them. */
export class UnfinishedRequests {
  readonly #unfinished = new Map<string, Unfinished>();
  readonly #byAge = new Heap<Unfinished>((a, b) => a.request.enqueuedMs - b.request.enqueuedMs);
  /** Those the engine has not been given, in the order they came. */
  readonly #unsubmitted = new Set<Unfinished>();
  readonly #suspects = new Set<Unfinished>();

  get size(): number {
    return this.#unfinished.size;
  }

  /** When the oldest of them came. */
  get oldestMs(): number | undefined {
    return this.#byAge.peek()?.request.enqueuedMs;
  }

  /** Whether the engine works on any. */
  get hasSubmitted(): boolean {
    return this.#unsubmitted.size < this.#unfinished.size;
  }

  has(id: string): boolean {
    return this.#unfinished.has(id);
  }

  /** As it stands. */
  find(id: string): EngineRequest | undefined {
    const one = this.#unfinished.get(id);
    return one && asItStands(one);
  }

  /** As it stands, where the engine has not been given it. */
  unsubmitted(id: string): EngineRequest | undefined {
    const one = this.#unfinished.get(id);
    return one === undefined || one.submitted ? undefined : asItStands(one);
  }

  add(request: EngineRequest): void {
    const tokens = [...(request.answer ?? [])];
    const one: Unfinished = { request, tokens, deaths: 0, submitted: false };
    this.#unfinished.set(request.id, one);
    this.#byAge.push(one);
    this.#unsubmitted.add(one);
  }

  /** Every one as it stands. */
  all(): EngineRequest[] {
    return [...this.#unfinished.values()].map(asItStands);
  }

  remove(id: string): void {
    const one = this.#unfinished.get(id);
    if (one === undefined) return;
    this.#unfinished.delete(id);
    this.#byAge.remove(one);
    this.#unsubmitted.delete(one);
    this.#suspects.delete(one);
  }

  /** Takes note of what was delivered. */
  note(events: readonly RequestEvent[]): void {
    for (const event of events) {
      const one = this.#unfinished.get(event.id);
      if (one === undefined) continue;
      one.deaths = 0;
      this.#suspects.delete(one);
      if (event.kind === 'token') one.tokens.push(event.token);
      else this.remove(event.id);
    }
  }

  /** The engine has not taken it: it must be given again. */
  resubmit(id: string): void {
    const one = this.#unfinished.get(id);
    if (one?.submitted === true) this.#takeBack(one);
  }

  /** The engine was put aside in good order: everything it was given must be given again. */
  takeBack(): void {
    // In the order they came, whether it was given them or not.
    for (const one of this.#unfinished.values()) this.#takeBack(one);
  }

  /** The engine died: everything it was given must be given again. Returns those that are given up. */
  die(): EngineRequest[] {
    const lost: EngineRequest[] = [];
    for (const [id, one] of this.#unfinished) {
      const { submitted } = one;
      this.#takeBack(one);
      if (!submitted) continue;
      one.deaths++;
      if (one.deaths >= DEATHS_TO_ISOLATE) this.#suspects.add(one);
      if (one.deaths < DEATHS_TO_GIVE_UP) continue;
      lost.push(asItStands(one));
      this.remove(id);
    }
    return lost;
  }

  /**
   * Requests to submit now, as they stand, `most` at most. Suspects go one at a time: the next one only when the last has
   * given a token or ended, so that a request which kills engines is found without harm to the others.
   */
  takeSubmittable(most = Number.POSITIVE_INFINITY): EngineRequest[] {
    const [suspect] = this.#suspects;
    if (suspect !== undefined) return suspect.submitted ? [] : [this.#submit(suspect)];
    const taken: EngineRequest[] = [];
    for (const one of this.#unsubmitted) {
      if (taken.length >= most) break;
      taken.push(this.#submit(one));
    }
    return taken;
  }

  #submit(one: Unfinished): EngineRequest {
    one.submitted = true;
    this.#unsubmitted.delete(one);
    return asItStands(one);
  }

  #takeBack(one: Unfinished): void {
    one.submitted = false;
    this.#unsubmitted.delete(one);
    this.#unsubmitted.add(one);
  }
}

function asItStands({ request, tokens }: Unfinished): EngineRequest {
  if (!isAnswered(request) || tokens.length === 0) return request;
  return { ...request, answer: [...tokens] };
}
