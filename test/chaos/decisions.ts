// What a client does next, and next, by its own seed alone.

import { type BadRequest, badRequests } from './bad-requests.ts';
import { type KnownRequest, knownRequests } from './catalogue.ts';
import type { Chance } from './chance.ts';
import { type Manner, patient } from './exchange.ts';

export type Decision = {
  readonly pauseMs: number;
  /** Which account pays, as a share of their number. */
  readonly account: number;
} & (
  | {
      readonly what: 'ask';
      readonly request: KnownRequest;
      readonly stream: boolean;
      readonly manner: Manner;
      readonly deadlineMs?: number;
    }
  | { readonly what: 'ask badly'; readonly request: BadRequest }
  | { readonly what: 'look'; readonly path: string }
);

const lookPaths = ['/health', '/v1/models', '/openapi.json', '/docs'] as const;

const longPrompts = knownRequests.filter(({ longPrompt }) => longPrompt);

export function decide(chance: Chance): Decision {
  const pauseMs = chance.below(350);
  const account = chance.below(1000) / 1000;
  const what = chance.weighted([
    [80, 'ask'],
    [13, 'ask badly'],
    [7, 'look'],
  ] as const);
  if (what === 'look') return { pauseMs, account, what, path: chance.pick(lookPaths) };
  if (what === 'ask badly') return { pauseMs, account, what, request: chance.pick(badRequests) };
  const manner = mannerOf(chance);
  // A client that leaves early should have something to leave.
  const request = chance.pick(manner.kind === 'leaves' && chance.happens(0.6) ? longPrompts : knownRequests);
  const stream = manner.kind === 'leaves in mid-stream' || chance.happens(0.6);
  const deadline = chance.happens(0.04) ? { deadlineMs: chance.between(1, 400) } : {};
  return { pauseMs, account, what, request, stream, manner, ...deadline };
}

function mannerOf(chance: Chance): Manner {
  const kind = chance.weighted([
    [74, 'patient'],
    [11, 'leaves'],
    [11, 'leaves in mid-stream'],
    [4, 'slow'],
  ] as const);
  if (kind === 'leaves') return { kind, afterMs: chance.between(1, 400) };
  if (kind === 'leaves in mid-stream') return { kind, afterEvents: chance.between(1, 30) };
  if (kind === 'slow') return { kind, paceMs: 1000, forMs: chance.between(2000, 9000) };
  return patient;
}
