// What is done to the server and when, decided before the start by the seed alone: lives one after another, each with
// its settings, what happens in it, and how it ends.

import { FIRST_MODEL, SECOND_MODEL } from './catalogue.ts';
import type { Chance } from './chance.ts';
import { plainSettings, type ServerSettings } from './server.ts';

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
  /** Few requests that are thousands of sequences each, until their clients leave. */
  | { readonly kind: 'sequences by the thousand'; readonly requests: number; readonly forMs: number }
  /** A key that tries to get more than its tokens a minute. */
  | { readonly kind: 'spend twice'; readonly holdMs: number }
  /** The same server started once more by mistake, while batches are read in. */
  | { readonly kind: 'twin'; readonly batches: number; readonly lines: number }
  | { readonly kind: 'make and revoke a key' }
  | { readonly kind: 'reload' }
  | { readonly kind: 'lock the database'; readonly forMs: number }
  | { readonly kind: 'stall an event reader'; readonly forMs: number }
  | { readonly kind: 'garbage on the wire' }
  | { readonly kind: 'huge body'; readonly which: number };

/** How a life ends. `drainMs`: how long those that are served are kept from their answers' end. */
export type Stop =
  | { readonly kind: 'SIGTERM'; readonly drainMs: number }
  | { readonly kind: 'SIGTERM twice'; readonly drainMs: number; readonly againMs: number }
  | { readonly kind: 'close the terminal'; readonly drainMs: number }
  | { readonly kind: 'SIGKILL' };

export interface Planned {
  readonly atMs: number;
  readonly disturbance: Disturbance;
}

export interface Life {
  readonly settings: ServerSettings;
  readonly durationMs: number;
  readonly planned: readonly Planned[];
  /** The last one ends with the run. */
  readonly stop: Stop | undefined;
}

export interface Abilities {
  /** The server replaces hung engines by itself. */
  readonly watchdog: boolean;
  /** Nothing but these kinds, and lives with the memory of one model where that is among them; everything where undefined. */
  readonly only?: ReadonlySet<string> | undefined;
}

/** Between two disturbances, on average, */
const GAP_MS = 1100;
/** and after those that keep the server busy for a while: two at once would show no more than one. */
const BUSY_GAP_MS = 12_000;
/** Some of the time belongs to a last life in which nothing stops the server: what leaks has time to. */
const LAST_SHARE = 0.4;
const SHORTEST_LIFE_MS = 8000;
const LONGEST_LIFE_MS = 30_000;
/** An end and a start take so long, beside the drain. */
const RESTART_MS = 6000;
const ONE_MODEL_SHARE = 0.4;

export const ONE_MODEL = 'one model';

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
  'sequences by the thousand',
  'spend twice',
  'twin',
  'make and revoke a key',
  'make and revoke a key',
  'reload',
  'lock the database',
  'stall an event reader',
  'garbage on the wire',
  'huge body',
];

const busyKinds: readonly Kind[] = ['sequences by the thousand', 'spend twice', 'twin'];
/** Those that are over within seconds. */
export const shortDeck: readonly Kind[] = deck.filter((kind) => !busyKinds.includes(kind));

/** Where two models share the memory of one nothing else is done to engines: whatever fails there fails of that. */
const oneModelDeck: readonly Kind[] = [
  'flood',
  'flood',
  'flood of stories',
  'flood of stories',
  'crowd that leaves',
  'make and revoke a key',
  'reload',
  'garbage on the wire',
];

const stopDeck: readonly Stop['kind'][] = [
  'SIGTERM',
  'SIGTERM',
  'SIGTERM',
  'SIGTERM twice',
  'close the terminal',
  'SIGKILL',
];

/** All that may be asked for alone. */
export const allKinds: ReadonlySet<string> = new Set([...deck, ...stopDeck, ONE_MODEL]);

/** Seconds; the last two drains outlast what one may think of as long. */
const drains = [
  [0, 0],
  [1, 5],
  [12, 15],
  [25, 40],
] as const;
const shutdownLimits = [5, 30, 45] as const;

/** A deck that is shuffled whenever it is used up. */
class Hand<Card> {
  readonly #cards: readonly Card[];
  readonly #chance: Chance;
  #left: Card[] = [];

  constructor(cards: readonly Card[], chance: Chance) {
    this.#cards = cards;
    this.#chance = chance;
  }

  next(): Card {
    if (this.#left.length === 0) this.#left = this.#chance.shuffled(this.#cards);
    return this.#left.pop() as Card;
  }
}

/** Lives for so long in all; a run too short for a stop has one. */
export function lives(chance: Chance, durationMs: number, abilities: Abilities): Life[] {
  const stops = new Hand(wanted(stopDeck, abilities), chance);
  const drained = new Hand(drains, chance);
  const planned: Life[] = [];
  let settings = plainSettings;
  let leftMs = durationMs * (1 - LAST_SHARE);
  while (leftMs >= SHORTEST_LIFE_MS && hasStops(abilities)) {
    const lengthMs = Math.min(leftMs, chance.between(SHORTEST_LIFE_MS, LONGEST_LIFE_MS));
    const stop = stopOf(stops.next(), drained.next(), settings, chance);
    const own = settings.memory === 'ample' ? deck : oneModelDeck;
    planned.push({
      settings,
      durationMs: lengthMs,
      planned: schedule(chance, lengthMs, abilities, own),
      stop,
    });
    leftMs -= lengthMs + RESTART_MS + ('drainMs' in stop ? stop.drainMs : 0);
    settings = settingsOf(chance, abilities);
  }
  const usedMs = durationMs * (1 - LAST_SHARE) - leftMs;
  const lastMs = Math.max(durationMs * LAST_SHARE, durationMs - usedMs);
  planned.push({
    settings: plainSettings,
    durationMs: lastMs,
    planned: schedule(chance, lastMs, abilities, deck),
    stop: undefined,
  });
  return planned;
}

function hasStops({ only }: Abilities): boolean {
  return only === undefined || only.has(ONE_MODEL) || stopDeck.some((kind) => only.has(kind));
}

function settingsOf(chance: Chance, { only }: Abilities): ServerSettings {
  const oneModel = chance.happens(ONE_MODEL_SHARE);
  return {
    memory: only?.has(ONE_MODEL) || (oneModel && only === undefined) ? ONE_MODEL : 'ample',
    // Where nobody closes it, a terminal is as good as none.
    terminal: only === undefined ? chance.happens(0.4) : only.has('close the terminal'),
    shutdownLimitSeconds: chance.pick(shutdownLimits),
  };
}

/** Only who has a terminal can lose it. */
function stopOf(
  kind: Stop['kind'],
  [least, most]: (typeof drains)[number],
  { terminal }: ServerSettings,
  chance: Chance,
): Stop {
  const drainMs = 1000 * chance.between(least, most);
  if (terminal && kind !== 'SIGKILL') return { kind: 'close the terminal', drainMs };
  if (kind === 'SIGKILL') return { kind };
  if (kind === 'SIGTERM twice')
    return { kind, drainMs: Math.max(drainMs, 5000), againMs: chance.between(100, 4000) };
  return { kind: 'SIGTERM', drainMs };
}

/** All that are allowed; everything where nothing of them is, as in a deck of another kind. */
function wanted<Card extends string>(cards: readonly Card[], { watchdog, only }: Abilities): Card[] {
  const able = cards.filter((kind) => watchdog || kind !== 'hang an engine');
  const chosen = only === undefined ? able : able.filter((kind) => only.has(kind));
  return chosen.length === 0 ? able : chosen;
}

export function schedule(
  chance: Chance,
  durationMs: number,
  abilities: Abilities,
  cards: readonly Kind[] = deck,
): Planned[] {
  const kinds = wanted(cards, abilities);
  // A run of stops alone has nothing else.
  if (abilities.only !== undefined && !kinds.every((kind) => abilities.only?.has(kind))) return [];
  const hand = new Hand(kinds, chance);
  const planned: Planned[] = [];
  let busyUntilMs = 0;
  for (
    let atMs = chance.below(GAP_MS);
    atMs < durationMs;
    atMs += chance.between(GAP_MS / 5, (GAP_MS * 9) / 5)
  ) {
    const kind = hand.next();
    const isBusy = busyKinds.includes(kind);
    if (isBusy && atMs < busyUntilMs) continue;
    if (isBusy) busyUntilMs = atMs + BUSY_GAP_MS;
    planned.push({ atMs, disturbance: made(kind, chance) });
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
    case 'sequences by the thousand':
      return { kind, requests: chance.between(4, 12), forMs: chance.between(1000, 8000) };
    case 'spend twice':
      return { kind, holdMs: chance.between(12_000, 20_000) };
    case 'twin':
      return { kind, batches: chance.between(2, 5), lines: chance.between(2000, 12_000) };
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
