// A gateway of a simulated fleet: the real router, fed by messages that arrive late, and the requests it has on their way.
// When a worker falls silent, they go on elsewhere with the tokens they had.

import { KEY_LANES } from '#src/engine/cache/prefix-key.ts';
import type { Heartbeat } from '#src/fleet/routing/heartbeat.ts';
import { reusableBlocks } from '#src/fleet/routing/prefix-keys.ts';
import { type Decision, type RoutedRequest, Router } from '#src/fleet/routing/router.ts';
import type { Assignment } from '#src/fleet/routing/worker-status.ts';
import { makePolicy, type Policy, type PolicyName } from './policies.ts';
import type { SimulationSettings } from './settings.ts';
import { MODEL_KEY, type Turn } from './traffic.ts';

/** A turn on its way. */
export interface OpenTurn {
  readonly turn: Turn;
  readonly arrivedMs: number;
  /** Tokens of the answer that have come. */
  given: number;
  firstTokenMs: number | undefined;
  assignment: Assignment | undefined;
  /** Times that it had to go elsewhere. */
  moves: number;
}

export class SimulatedGateway {
  readonly name: string;
  readonly router: Router;
  readonly open = new Map<number, OpenTurn>();
  readonly decisionMs: number[] = [];
  readonly #policy: Policy;

  constructor(name: string, policy: PolicyName, settings: SimulationSettings) {
    this.name = name;
    const maxWaitMs = [settings.maxWaitMs, settings.maxWaitMs, settings.maxWaitMs] as const;
    this.router = new Router({
      gateway: name,
      maxWaitMs,
      maxIndexEntries: settings.indexEntries,
      silentAfterMs: 3 * settings.heartbeatMs,
    });
    this.#policy = makePolicy(policy, this.router, maxWaitMs);
  }

  /** Chooses a worker for the turn, and takes it down where there is one. */
  route(open: OpenTurn, nowMs: number): Decision {
    const request = routed(open, nowMs);
    const startMs = performance.now();
    const decision = this.#policy(request, nowMs);
    this.decisionMs.push(performance.now() - startMs);
    if (decision.kind === 'worker') {
      open.assignment = this.router.assign(decision.worker, request, decision.cachedBlocks);
      this.open.set(open.turn.number, open);
    }
    return decision;
  }

  /** The turns that the worker has lost, where it has begun anew. */
  handle(heartbeat: Heartbeat, nowMs: number): OpenTurn[] {
    const outcome = this.router.heartbeat(heartbeat, nowMs);
    return outcome === 'restarted' ? this.#takeFrom(new Set([heartbeat.worker])) : [];
  }

  /** Removes workers that have fallen silent; the turns that were there. */
  takeLost(nowMs: number): OpenTurn[] {
    const silent = new Set(this.router.silent(nowMs));
    for (const name of silent) this.router.remove(name);
    return silent.size === 0 ? [] : this.#takeFrom(silent);
  }

  ended(open: OpenTurn): void {
    this.open.delete(open.turn.number);
    if (open.assignment !== undefined) this.router.ended(open.assignment);
  }

  #takeFrom(workers: ReadonlySet<string>): OpenTurn[] {
    const lost = [...this.open.values()].filter(({ assignment }) => workers.has(assignment?.worker ?? ''));
    for (const { turn } of lost) this.open.delete(turn.number);
    return lost;
  }
}

function routed({ turn, given, arrivedMs }: OpenTurn, nowMs: number): RoutedRequest {
  const { conversation, answerTokens, priority } = turn;
  const promptTokens = turn.promptTokens + given;
  const left = answerTokens - given;
  return {
    modelKey: MODEL_KEY,
    keys: conversation.keys.subarray(0, KEY_LANES * reusableBlocks(promptTokens)),
    conversation: conversation.name,
    promptTokens,
    // Nobody knows how long an answer will be; what was allowed is known, and it is more.
    expectedTokens: Math.max(1, Math.min(EXPECTED_ANSWER, 2 * left)),
    maxTokens: 2 * left,
    priority,
    ageMs: nowMs - arrivedMs,
  };
}

/** What a gateway would expect of an answer whose length it cannot know. */
const EXPECTED_ANSWER = 64;
