// A gateway of a simulated fleet: the real router, fed by delayed messages, and its open requests. When a worker falls silent,
// they continue elsewhere with the tokens they had.

import { KEY_LANES } from '#src/engine/cache/prefix-key.ts';
import type { Heartbeat } from '#src/fleet/routing/heartbeat.ts';
import { reusableBlocks } from '#src/fleet/routing/prefix-keys.ts';
import { type Decision, type RoutedRequest, Router } from '#src/fleet/routing/router.ts';
import type { Assignment } from '#src/fleet/routing/worker-status.ts';
import { makePolicy, type Policy, type PolicyName } from './policies.ts';
import type { SimulationSettings } from './settings.ts';
import { MODEL_KEY, type Turn } from './traffic.ts';

export interface OpenTurn {
  readonly turn: Turn;
  readonly arrivedMs: number;
  given: number;
  firstTokenMs: number | undefined;
  assignment: Assignment | undefined;
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

  route(open: OpenTurn, nowMs: number): Decision {
    const request = routed(open, nowMs);
    const startMs = performance.now();
    const decision = this.#policy(request, nowMs);
    this.decisionMs.push(performance.now() - startMs);
    if (decision.kind === 'worker') {
      open.assignment = this.router.assign(decision.worker, request, decision.prefix);
      this.open.set(open.turn.number, open);
    }
    return decision;
  }

  /** Returns the turns that a restarted worker has lost. */
  handle(heartbeat: Heartbeat, nowMs: number): OpenTurn[] {
    const outcome = this.router.heartbeat(heartbeat, nowMs);
    return outcome === 'restarted' ? this.#takeFrom(new Set([heartbeat.worker])) : [];
  }

  /** Removes silent workers, and returns their turns. */
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
    // The length of an answer is unknown; its limit is known, and larger.
    expectedTokens: Math.max(1, Math.min(EXPECTED_ANSWER, 2 * left)),
    maxTokens: 2 * left,
    priority,
    ageMs: nowMs - arrivedMs,
  };
}

const EXPECTED_ANSWER = 64;
