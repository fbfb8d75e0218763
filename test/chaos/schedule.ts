// What is done to the server and when, decided before the start by the seed alone.

import { FIRST_MODEL, SECOND_MODEL } from './catalogue.ts';
import type { Chance } from './chance.ts';

export type Disturbance =
  /** `engine`: which of those that live then, as a share of their number. */
  | { readonly kind: 'kill an engine'; readonly engine: number }
  | { readonly kind: 'kill every engine' }
  | { readonly kind: 'stop an engine'; readonly engine: number; readonly forMs: number }
  /** Until the server itself notices. */
  | { readonly kind: 'hang an engine'; readonly engine: number }
  | { readonly kind: 'kill a loading engine'; readonly model: string }
  | { readonly kind: 'unload'; readonly model: string }
  | { readonly kind: 'load'; readonly model: string }
  | { readonly kind: 'flood'; readonly limited: boolean; readonly requests: number }
  /** Of unlike long answers, for more blocks than there are. */
  | { readonly kind: 'flood of stories'; readonly requests: number }
  | { readonly kind: 'crowd that leaves'; readonly clients: number; readonly afterMs: number }
  | { readonly kind: 'make and revoke a key' }
  | { readonly kind: 'reload' }
  | { readonly kind: 'lock the database'; readonly forMs: number }
  | { readonly kind: 'stall an event reader'; readonly forMs: number }
  | { readonly kind: 'garbage on the wire' }
  | { readonly kind: 'huge body'; readonly which: number };

export interface Planned {
  readonly atMs: number;
  readonly disturbance: Disturbance;
}

export interface Abilities {
  /** The server replaces hung engines by itself. */
  readonly watchdog: boolean;
}

/** Between two disturbances, on average. */
const GAP_MS = 1100;

type Kind = Disturbance['kind'];

/** One deck; it is shuffled and dealt out again and again, so that a short run has some of everything. */
const deck: readonly Kind[] = [
  'kill an engine',
  'kill an engine',
  'kill every engine',
  'stop an engine',
  'stop an engine',
  'hang an engine',
  'kill a loading engine',
  'unload',
  'unload',
  'load',
  'flood',
  'flood of stories',
  'flood of stories',
  'crowd that leaves',
  'crowd that leaves',
  'make and revoke a key',
  'make and revoke a key',
  'reload',
  'lock the database',
  'stall an event reader',
  'garbage on the wire',
  'huge body',
];

export function schedule(chance: Chance, durationMs: number, abilities: Abilities): Planned[] {
  const kinds = deck.filter((kind) => abilities.watchdog || kind !== 'hang an engine');
  const planned: Planned[] = [];
  let hand: Kind[] = [];
  for (
    let atMs = chance.below(GAP_MS);
    atMs < durationMs;
    atMs += chance.between(GAP_MS / 5, (GAP_MS * 9) / 5)
  ) {
    if (hand.length === 0) hand = chance.shuffled(kinds);
    planned.push({ atMs, disturbance: made(hand.pop() as Kind, chance) });
  }
  return planned;
}

function made(kind: Kind, chance: Chance): Disturbance {
  const engine = chance.below(1000) / 1000;
  const model = chance.pick([FIRST_MODEL, SECOND_MODEL]);
  switch (kind) {
    case 'kill an engine':
    case 'hang an engine':
      return { kind, engine };
    case 'stop an engine':
      return { kind, engine, forMs: chance.between(200, 3000) };
    case 'kill a loading engine':
    case 'unload':
    case 'load':
      return { kind, model };
    case 'flood':
      return { kind, limited: chance.happens(0.4), requests: chance.between(15, 40) };
    case 'flood of stories':
      return { kind, requests: chance.between(20, 36) };
    case 'crowd that leaves':
      return { kind, clients: chance.between(3, 8), afterMs: chance.between(5, 250) };
    case 'lock the database':
      return { kind, forMs: chance.between(500, 4000) };
    case 'stall an event reader':
      return { kind, forMs: chance.between(3000, 15_000) };
    case 'huge body':
      return { kind, which: chance.below(1000) };
    default:
      return { kind };
  }
}
