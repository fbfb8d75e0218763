// How a gateway chooses a worker: the router, and simpler policies. All see the same heartbeats and index, and refuse by the
// same rule.

import { BLOCK_TOKENS } from '#src/compute/backend.ts';
import { type Candidate, hashText, rank } from '#src/fleet/routing/candidates.ts';
import { expectedTimes, fits, refuse } from '#src/fleet/routing/expected-finish.ts';
import { inMemory } from '#src/fleet/routing/expected-prefix.ts';
import type { ByPriority } from '#src/fleet/routing/heartbeat.ts';
import type { Decision, RoutedRequest, Router } from '#src/fleet/routing/router.ts';

export const policyNames = ['router', 'round-robin', 'least-loaded', 'prefix-only'] as const;
export type PolicyName = (typeof policyNames)[number];

export type Policy = (request: RoutedRequest, nowMs: number) => Decision;

type Pick = (
  able: readonly Candidate[],
  blocksOf: ReadonlyMap<number, number>,
  request: RoutedRequest,
) => Candidate;

export function makePolicy(name: PolicyName, router: Router, maxWaitMs: ByPriority): Policy {
  switch (name) {
    case 'router':
      return (request, nowMs) => router.choose(request, nowMs);
    case 'round-robin':
      return simplePolicy(router, maxWaitMs, inTurn());
    case 'least-loaded':
      return simplePolicy(router, maxWaitMs, leastLoaded());
    case 'prefix-only':
      return simplePolicy(router, maxWaitMs, mostCached);
  }
}

function inTurn(): Pick {
  let next = 0;
  return (able) => able[next++ % able.length] as Candidate;
}

/** Fewest sequences; round-robin among equals. */
function leastLoaded(): Pick {
  const turn = inTurn();
  return (able, blocksOf, request) => {
    const fewest = Math.min(...able.map(({ status }) => status.sequences));
    return turn(
      able.filter(({ status }) => status.sequences === fewest),
      blocksOf,
      request,
    );
  };
}

/** Most leading blocks, however busy; by rank of the conversation among equals. */
const mostCached: Pick = (able, blocksOf, { conversation }) => {
  const most = Math.max(...able.map(({ worker }) => blocksOf.get(worker) ?? 0));
  const hash = hashText(conversation);
  return able
    .filter(({ worker }) => (blocksOf.get(worker) ?? 0) === most)
    .reduce((best, one) => (rank(hash, one.hash) > rank(hash, best.hash) ? one : best));
};

function simplePolicy(router: Router, maxWaitMs: ByPriority, pick: Pick): Policy {
  return (request, nowMs) => {
    const silent = new Set(router.silent(nowMs));
    const present = router
      .statuses(request.modelKey)
      .filter(({ name, draining }) => !draining && !silent.has(name) && !request.excluded?.has(name));
    if (present.length === 0) return { kind: 'none' };
    const able = present.filter(({ status }) => fits(status, request));
    if (able.length === 0) return { kind: 'too-large' };
    const match = router.indexOf(request.modelKey)?.match(request.keys);
    const blocksOf = new Map<number, number>();
    for (let i = 0; match !== undefined && i < match.count; i++) {
      blocksOf.set(match.workers[i] as number, match.blocks[i] as number);
    }
    const chosen = pick(able, blocksOf, request);
    const cachedBlocks = Math.min(
      blocksOf.get(chosen.worker) ?? 0,
      Math.floor((request.promptTokens - 1) / BLOCK_TOKENS),
    );
    const prefix = inMemory(cachedBlocks);
    const expected = expectedTimes(chosen.status, request, prefix, nowMs);
    const refusal = refuse(expected.waitMs, request.priority, maxWaitMs);
    return refusal ?? { kind: 'worker', worker: chosen.name, cachedBlocks, prefix, expected };
  };
}
