// Decides who may hold how many KV blocks, whenever somebody wants more or a model is to be loaded. Pure: from how
// things stand to what each is to do.
//
// Needs are met in the order of their age, the oldest first, each from
//   1. what is free: a limit doubles, so that few messages are needed;
//   2. where sequences wait, blocks that others may hold but do not use, the least recently used model first;
//   3. for a load, idle models whose turn is over: they are unloaded;
//   4. for a load, and for an engine below its share of all KV: what others hold above theirs;
//   5. for an engine that cannot run a single sequence: idle models, then everything of those whose requests are younger.
// An engine with an older request keeps what its most urgent sequence requires. So the engine with the oldest request
// can always run it, nobody waits for ever, and two engines never wait for each other, nor take the same blocks from
// each other in turn. A load for which there is no room waits until enough models have had their turn (see turns.ts):
// those take no new requests and are unloaded when they are idle. What is taken from sequences that run makes them wait; they go on later with all their tokens.

import { firstBytes, type Holding, holdingBytes } from './memory-ledger.ts';
import type { ModelMemory } from './model-memory.ts';
import { type Turn, turnEndsMs } from './turns.ts';

export interface Holder extends Holding {
  /** A model that is loading keeps what it has; all of one that is leaving becomes free soon. */
  readonly state: 'loading' | 'loaded' | 'leaving';
  /** Whether it is idle and nothing speaks against unloading it. */
  readonly unloadable: boolean;
  /** It never leaves. */
  readonly pinned: boolean;
  /** Of a model that is loaded. */
  readonly turn?: Turn | undefined;
  /** Larger is later. */
  readonly lastUsed: number;
  /** When its oldest unfinished request came; undefined where it has none. */
  readonly oldestMs: number | undefined;
}

/** A model that waits to be loaded. */
export interface WaitingLoad {
  readonly name: string;
  readonly memory: ModelMemory;
  /** When the oldest request for it came. */
  readonly sinceMs: number;
  /** Nobody waits for the answers. */
  readonly background: boolean;
}

export interface Sharing {
  /** New limits, those that shrink first. */
  readonly allow: readonly { readonly name: string; readonly blocks: number }[];
  readonly unload: readonly string[];
  /** Loads that fit now. Their memory is left free for them. */
  readonly fitting: readonly string[];
  /** Loads for which there is no room, and none will come by what was decided now. */
  readonly waiting: readonly string[];
  /** Models that take no new requests: others wait for them to become idle. */
  readonly closed: readonly string[];
  /** When a turn ends that something waits for: then it is to be shared out again. */
  readonly againMs: number | undefined;
}

/** A holder while it is decided about. */
interface Seat {
  readonly holder: Holder;
  /** When its oldest request came; infinite where nothing waits for it. */
  readonly ageMs: number;
  /** Whether its most urgent sequence cannot run together with the models that are busy, whatever it is given. */
  readonly hopeless: boolean;
  /** Decides between requests of the same millisecond, or two engines would both give way, or neither. */
  readonly place: number;
  /** Blocks it has, or is to have. */
  blocks: number;
  leaves: boolean;
  raised: boolean;
}

export function shareMemory(
  budgetBytes: number,
  holders: readonly Holder[],
  loads: readonly WaitingLoad[],
  nowMs: number,
): Sharing {
  return new Table(budgetBytes, holders, loads, nowMs).decide(loads);
}

/** What a load could ever have: all but what models that never leave start with. */
export function mostBytes(budgetBytes: number, holders: readonly Holder[]): number {
  return budgetBytes - sum(holders.filter(({ pinned }) => pinned).map(({ memory }) => firstBytes(memory)));
}

class Table {
  readonly #seats: readonly Seat[];
  readonly #kvBytes: number;
  readonly #sharers: number;
  readonly #nowMs: number;
  readonly #closed = new Set<string>();
  #againMs = Number.POSITIVE_INFINITY;
  /** Free now and not promised to anybody. */
  #freeBytes: number;
  /** Not free yet, but soon, and not promised to anybody. */
  #comingBytes: number;

  constructor(budgetBytes: number, holders: readonly Holder[], loads: readonly WaitingLoad[], nowMs: number) {
    this.#nowMs = nowMs;
    this.#seats = holders.map((holder, place) => {
      const hopeless = isHopeless(holder, budgetBytes, holders);
      return {
        holder,
        place,
        hopeless,
        ageMs: hopeless ? Number.POSITIVE_INFINITY : ageOf(holder),
        blocks: holder.allowed,
        leaves: holder.state === 'leaving',
        raised: false,
      };
    });
    const staying = holders.filter(({ state }) => state !== 'leaving').map(({ memory }) => memory);
    const weights = sum(staying.map(unsharedBytes));
    const withLoads = weights + sum(loads.map(({ memory }) => unsharedBytes(memory)));
    // What will not be loaded together with the others has no share either.
    this.#kvBytes = Math.max(0, budgetBytes - (withLoads < budgetBytes ? withLoads : weights));
    const busy = holders.filter(({ oldestMs, memory }) => oldestMs !== undefined && !memory.fixed);
    this.#sharers = Math.max(1, busy.length + loads.length);
    this.#freeBytes = budgetBytes - sum(holders.map(holdingBytes));
    this.#comingBytes = sum(
      holders.map((holder) =>
        holder.state === 'leaving'
          ? holdingBytes(holder)
          : (holder.counted - holder.allowed) * holder.memory.blockBytes,
      ),
    );
  }

  decide(loads: readonly WaitingLoad[]): Sharing {
    const fitting: string[] = [];
    const waiting: string[] = [];
    const needs = [
      ...loads.map((load) => ({
        ageMs: load.sinceMs,
        meet: () => {
          const bytes = firstBytes(load.memory);
          if (bytes <= this.#freeBytes) {
            this.#freeBytes -= bytes;
            fitting.push(load.name);
          } else if (!this.#makeRoom(bytes, load.background)) waiting.push(load.name);
        },
      })),
      ...this.#seats
        .filter(({ holder, ageMs }) => isPressed(holder) && Number.isFinite(ageMs))
        .sort(olderFirst)
        .map((seat) => ({ ageMs: seat.ageMs, meet: () => this.#grow(seat) })),
    ].sort((a, b) => a.ageMs - b.ageMs);
    for (const { meet } of needs) meet();
    for (const seat of this.#seats) if (seat.hopeless) this.#endTurns(this.#shortOf(seat), seat, false);
    const againMs = Number.isFinite(this.#againMs) ? this.#againMs : undefined;
    return { ...this.#changes(), fitting, waiting, closed: [...this.#closed], againMs };
  }

  /**
   * All that is free is put by for the load, the rest is taken back. Where that is not enough, it is left as it was,
   * and those whose turn is over make way.
   */
  #makeRoom(bytes: number, background: boolean): boolean {
    const before = this.#snapshot();
    let short = this.#takeComing(this.#takeFree(bytes));
    short = this.#takeUnused(short, undefined);
    short = this.#unloadIdle(short, undefined, ({ turn }) => this.#isOver(turn, background));
    short = this.#takeAboveShare(short, undefined);
    if (short <= 0) {
      this.#keepChange(short);
      return true;
    }
    this.#endTurns(short, undefined, background);
    before.restore();
    return false;
  }

  /** As many make way as are needed, those whose turn ends first; none before all of them can. */
  #endTurns(short: number, taker: Seat | undefined, background: boolean): void {
    const turns = this.#others(taker)
      // Of two that cannot run together, neither would become idle.
      .filter(({ holder, hopeless }) => !holder.pinned && !(taker?.hopeless && hopeless))
      .map((seat) => ({
        seat,
        endsMs: seat.holder.turn === undefined ? 0 : turnEndsMs(seat.holder.turn, background),
      }))
      .sort((a, b) => a.endsMs - b.endsMs || a.seat.place - b.seat.place);
    let left = short;
    const enough = turns.findIndex(({ seat: { holder, blocks } }) => {
      left -= holder.memory.weightBytes + blocks * holder.memory.blockBytes;
      return left <= 0;
    });
    const leaving = turns.slice(0, enough + 1);
    const endsMs = leaving.at(-1)?.endsMs ?? Number.POSITIVE_INFINITY;
    if (endsMs > this.#nowMs) this.#againMs = Math.min(this.#againMs, endsMs);
    else for (const { seat } of leaving) this.#closed.add(seat.holder.name);
  }

  /** Bytes that its most urgent sequence requires and others hold. */
  #shortOf({ holder, blocks }: Seat): number {
    return (holder.required - blocks) * holder.memory.blockBytes - this.#freeBytes - this.#comingBytes;
  }

  #isOver(turn: Turn | undefined, background: boolean): boolean {
    return turn === undefined || turnEndsMs(turn, background) <= this.#nowMs;
  }

  #grow(seat: Seat): void {
    const { allowed, memory, wanted, required } = seat.holder;
    // A limit that an older need has just lowered stays so.
    if (seat.blocks < allowed) return;
    const { blockBytes, blockCount, firstBlocks } = memory;
    const doubled = Math.min(blockCount, Math.max(2 * seat.blocks, firstBlocks, required));
    this.#raise(seat, Math.min(doubled, seat.blocks + Math.floor(this.#freeBytes / blockBytes)));
    if (!seat.holder.short) return;
    const goal = Math.min(doubled, wanted);
    let short = this.#takeComing(Math.max(0, goal - seat.blocks) * blockBytes);
    short = this.#takeUnused(short, seat);
    const aboveShare = Math.max(0, goal - this.#shareOf(memory)) * blockBytes;
    short = this.#takeAboveShare(short - aboveShare, seat) + aboveShare;
    if (required > allowed) {
      short = this.#unloadIdle(short, seat, () => true);
      short = this.#takeFromYounger(short, seat);
    }
    this.#keepChange(short);
  }

  #raise(seat: Seat, blocks: number): void {
    if (blocks <= seat.blocks) return;
    this.#freeBytes -= (blocks - seat.blocks) * seat.holder.memory.blockBytes;
    seat.blocks = blocks;
    seat.raised = true;
  }

  /** What is still short of `bytes`. */
  #takeFree(bytes: number): number {
    const taken = Math.min(bytes, Math.max(0, this.#freeBytes));
    this.#freeBytes -= taken;
    return bytes - taken;
  }

  #takeComing(bytes: number): number {
    const taken = Math.min(bytes, this.#comingBytes);
    this.#comingBytes -= taken;
    return bytes - taken;
  }

  #snapshot(): { restore(): void } {
    const seats = this.#seats.map(({ blocks, leaves }) => ({ blocks, leaves }));
    const [free, coming] = [this.#freeBytes, this.#comingBytes];
    return {
      restore: () => {
        for (const [at, seat] of this.#seats.entries()) Object.assign(seat, seats[at]);
        this.#freeBytes = free;
        this.#comingBytes = coming;
      },
    };
  }

  /** What was taken beyond the need is there for the next. */
  #keepChange(short: number): void {
    if (short < 0) this.#comingBytes -= short;
  }

  #takeUnused(short: number, taker: Seat | undefined): number {
    const spare = this.#others(taker)
      .filter((seat) => !isPressed(seat.holder) || (taker !== undefined && isYounger(seat, taker)))
      .sort((a, b) => a.holder.lastUsed - b.holder.lastUsed);
    return takeBack(spare, short, (seat) =>
      Math.max(seat.holder.used, seat.holder.memory.firstBlocks, keptFrom(seat, taker)),
    );
  }

  #unloadIdle(short: number, taker: Seat | undefined, mayLeave: (holder: Holder) => boolean): number {
    const idle = this.#others(taker)
      .filter(({ holder }) => holder.unloadable && mayLeave(holder))
      .sort((a, b) => a.holder.lastUsed - b.holder.lastUsed);
    let left = short;
    for (const seat of idle) {
      if (left <= 0) break;
      seat.leaves = true;
      left -= seat.holder.memory.weightBytes + seat.blocks * seat.holder.memory.blockBytes;
    }
    return left;
  }

  #takeAboveShare(short: number, taker: Seat | undefined): number {
    const others = this.#others(taker).sort(olderFirst).reverse();
    return takeBack(others, short, (seat) =>
      Math.max(this.#shareOf(seat.holder.memory), keptFrom(seat, taker)),
    );
  }

  #takeFromYounger(short: number, taker: Seat): number {
    const younger = this.#others(taker)
      .filter((seat) => isYounger(seat, taker))
      .sort(olderFirst)
      .reverse();
    return takeBack(younger, short, () => 0);
  }

  /** An equal part of what the weights leave, for each that is at work. */
  #shareOf({ blockBytes, firstBlocks }: ModelMemory): number {
    return Math.max(firstBlocks, Math.floor(this.#kvBytes / this.#sharers / blockBytes));
  }

  #others(taker: Seat | undefined): Seat[] {
    return this.#seats.filter(
      ({ holder, leaves, raised }) =>
        holder !== taker?.holder && holder.state === 'loaded' && !leaves && !raised,
    );
  }

  #changes(): Pick<Sharing, 'allow' | 'unload'> {
    const unload = this.#seats.filter(({ holder, leaves }) => leaves && holder.state !== 'leaving');
    const allow = this.#seats
      .filter(({ holder, leaves, blocks }) => !leaves && blocks !== holder.allowed)
      .map(({ holder, blocks }) => ({ name: holder.name, blocks, by: blocks - holder.allowed }))
      .sort((a, b) => a.by - b.by)
      .map(({ name, blocks }) => ({ name, blocks }));
    return { allow, unload: unload.map(({ holder }) => holder.name) };
  }
}

/** Lowers limits, in order, until `short` bytes are covered; returns what still is. */
function takeBack(seats: readonly Seat[], short: number, level: (seat: Seat) => number): number {
  let left = short;
  for (const seat of seats) {
    const { heard, memory } = seat.holder;
    const { blockBytes } = memory;
    // One limit at a time: who has not heard of the last is asked again later.
    const spare = memory.fixed || !heard ? 0 : seat.blocks - level(seat);
    if (left <= 0) break;
    if (spare <= 0) continue;
    const blocks = Math.min(spare, Math.ceil(left / blockBytes));
    seat.blocks -= blocks;
    left -= blocks * blockBytes;
  }
  return left;
}

/** Whether it wants more than it has, knowing what it has. */
function isPressed({ state, heard, wanted, allowed, memory }: Holder): boolean {
  return state === 'loaded' && heard && !memory.fixed && wanted > allowed && allowed < memory.blockCount;
}

/** A total order: of two engines one is always the older. */
function olderFirst(a: Seat, b: Seat): number {
  return a.ageMs === b.ageMs ? a.place - b.place : a.ageMs - b.ageMs;
}

function isYounger(seat: Seat, taker: Seat): boolean {
  return olderFirst(seat, taker) > 0;
}

/** What is left to a holder, whichever needs it, unless that is an older engine: what its most urgent sequence requires. */
function keptFrom(seat: Seat, taker: Seat | undefined): number {
  return taker !== undefined && isYounger(seat, taker) ? 0 : seat.holder.required;
}

function ageOf({ oldestMs }: Holder): number {
  return oldestMs ?? Number.POSITIVE_INFINITY;
}

/** Stuck even under the largest limit that it could get: it waits until another model has had its turn. */
function isHopeless(holder: Holder, budgetBytes: number, holders: readonly Holder[]): boolean {
  if (holder.required <= holder.allowed) return false;
  const staying = holders.filter(
    (other) => other !== holder && !other.unloadable && other.state !== 'leaving',
  );
  const others = sum(staying.map(({ memory }) => unsharedBytes(memory)));
  const { weightBytes, blockBytes } = holder.memory;
  return Math.floor((budgetBytes - weightBytes - others) / blockBytes) < holder.required;
}

/** What no other model can ever have. */
function unsharedBytes({ weightBytes, blockBytes, firstBlocks, fixed }: ModelMemory): number {
  return weightBytes + (fixed ? firstBlocks * blockBytes : 0);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
