// Where in a grammar a text has got to. A place is a set of stacks: at each level of calls a state, and on top the one
// that reads the next byte. Stacks and places are made once and kept, so that the same place is the same object, and what
// was found out about it stays known.

import { Effort, TooAmbiguous } from './effort.ts';
import { type ControlTable, countAfter, denseRows, type GrammarTables } from './tables.ts';

/** A state and where to go on when its rule ends. */
export interface Frame {
  readonly state: number;
  /** Of a rule that counts. */
  readonly count: number;
  /** The state to return to; undefined where the answer then may end. */
  readonly parent: Frame | undefined;
  /** Frames on top of this one. */
  readonly children: Map<number, Frame>;
  readonly number: number;
  /** The place that is reached by returning here. */
  returned: Place | undefined;
}

export interface Place {
  /** Those that may read on. */
  readonly frames: readonly Frame[];
  /** The answer may end here. */
  readonly complete: boolean;
  /** By byte: where it leads; undefined where that is not known yet. */
  next: (Place | null | undefined)[] | undefined;
  mask: Uint32Array | undefined;
  /** Its edges are not those of its frames. */
  readonly isOwn?: boolean;
}

/** What keeps the work for one byte bounded. */
const MAX_FRAMES = 4096;
/** What they cost to make: see effort.ts. */
const STEPS_PER_PLACE = 20;
const STEPS_PER_FRAME = 10;
/** Text that can be read in more ways is not looked at for what must follow. */
const MOST_FORCED_FRAMES = 16;
/** So much is kept at most. */
const MAX_KEPT = 4000;

export class Places {
  readonly #tables: GrammarTables;
  readonly #effort: Effort;
  /** By byte: the state that it leads to, or -1. */
  readonly rowOf: (state: number) => Int32Array;
  readonly #controls: ReadonlyMap<number, readonly ControlTable[]>;
  readonly #bottom = new Map<number, Frame>();
  readonly #places = new Map<string, Place>();
  #frames = 0;

  constructor(tables: GrammarTables, effort = new Effort()) {
    this.#tables = tables;
    this.#effort = effort;
    this.rowOf = denseRows(tables);
    const controls = new Map<number, ControlTable[]>();
    for (const control of tables.controls) {
      controls.set(control.state, [...(controls.get(control.state) ?? []), control]);
    }
    this.#controls = controls;
  }

  /** Edges of a state that any control token follows, but for some. */
  controlsOf(state: number): readonly ControlTable[] {
    return this.#controls.get(state) ?? [];
  }

  /**
   * The one byte that may come next, or that may beside white space. Undefined where there are several, where a control token
   * may come, and where too much would have to be looked at.
   */
  onlyByte({ frames, isOwn }: Place, besideBlanks = false): number | undefined {
    if (isOwn === true || frames.length > MOST_FORCED_FRAMES) return undefined;
    this.#effort.spend(STEPS_PER_FRAME * frames.length);
    const { byteEdges, byteFirst, byteLast } = this.#tables;
    let only: number | undefined;
    for (const { state } of frames) {
      if (this.#readsTokens(state)) return undefined;
      for (let edge = byteEdges[state] as number; edge < (byteEdges[state + 1] as number); edge++) {
        const byte = byteFirst[edge] as number;
        if (besideBlanks && isBlank(byte) && isBlank(byteLast[edge] as number)) continue;
        if (byteLast[edge] !== byte || (only ?? byte) !== byte) return undefined;
        only = byte;
      }
    }
    return only;
  }

  /** Whether control tokens lead on from a state, besides bytes. */
  #readsTokens(state: number): boolean {
    const { tokenEdges } = this.#tables;
    return tokenEdges[state] !== tokenEdges[state + 1] || this.#controls.has(state);
  }

  /** Time to begin anew, with empty hands. */
  get full(): boolean {
    return this.#frames > MAX_KEPT || this.#places.size > MAX_KEPT;
  }

  /** Where every answer begins. */
  get start(): Place {
    return this.at(this.#tables.starts[0] as number);
  }

  /** In a state of its own, with nothing known of who called. */
  at(state: number): Place {
    return this.#closed((add) => add(state, 0, undefined));
  }

  /** Where the caller goes on. */
  returned(frame: Frame): Place {
    frame.returned ??= this.#closed((add) => add(frame.state, frame.count, frame.parent));
    return frame.returned;
  }

  /** A place of others of the same grammar, as one of these. */
  adopt(place: Place): Place {
    return this.#closed((add) => {
      for (const { state, count, parent } of place.frames) add(state, count, this.#copy(parent));
    }, place.complete);
  }

  #copy(frame: Frame | undefined): Frame | undefined {
    const stack: Frame[] = [];
    for (let at = frame; at !== undefined; at = at.parent) stack.push(at);
    return stack.reduceRight<Frame | undefined>(
      (parent, { state, count }) => this.#frame(state, count, parent),
      undefined,
    );
  }

  /** Null where the byte is not possible. */
  next(place: Place, byte: number): Place | null {
    place.next ??= new Array<Place | null | undefined>(256);
    const known = place.next[byte];
    if (known !== undefined) return known;
    const result = place.frames.some(({ state }) => (this.rowOf(state)[byte] as number) >= 0)
      ? this.#reached(place, byte)
      : null;
    place.next[byte] = result;
    return result;
  }

  #reached(place: Place, byte: number): Place | null {
    const reached = this.#closed((add) => {
      for (const frame of place.frames) {
        const to = this.rowOf(frame.state)[byte] as number;
        const count = to < 0 ? -1 : countAfter(this.#tables, frame.state, to, frame.count);
        if (count >= 0) add(to, count, frame.parent);
      }
    });
    return isDead(reached) ? null : reached;
  }

  /** Where a control token leads; null where it is not possible. */
  afterToken(place: Place, token: number): Place | null {
    const { tokenEdges, tokenId, tokenTo } = this.#tables;
    const reached = this.#closed((add) => {
      for (const { state, parent } of place.frames) {
        for (let edge = tokenEdges[state] as number; edge < (tokenEdges[state + 1] as number); edge++) {
          if (tokenId[edge] === token) add(tokenTo[edge] as number, 0, parent);
        }
        for (const { without, to } of this.controlsOf(state))
          if (!without.includes(token)) add(to, 0, parent);
      }
    });
    return isDead(reached) ? null : reached;
  }

  #closed(
    begin: (add: (state: number, count: number, parent: Frame | undefined) => void) => void,
    complete = false,
  ): Place {
    const { accepts, starts, callEdges, callRule, callTo } = this.#tables;
    const seen = new Set<Frame>();
    const open: Frame[] = [];
    let ends = complete;
    const add = (state: number, count: number, parent: Frame | undefined) => {
      const frame = this.#frame(state, count, parent);
      if (seen.has(frame)) return;
      if (seen.size >= MAX_FRAMES) throw new TooAmbiguous();
      seen.add(frame);
      open.push(frame);
    };
    begin(add);
    for (let frame = open.pop(); frame !== undefined; frame = open.pop()) {
      const { state, parent } = frame;
      if (accepts[state] === 1) {
        if (parent === undefined) ends = true;
        else add(parent.state, parent.count, parent.parent);
      }
      for (let edge = callEdges[state] as number; edge < (callEdges[state + 1] as number); edge++) {
        const to = callTo[edge] as number;
        // A call at the very end of a rule returns straight to whoever called that rule.
        const back = this.#isLast(to) ? parent : this.#frame(to, 0, parent);
        add(starts[callRule[edge] as number] as number, 0, back);
      }
    }
    this.#effort.spend(STEPS_PER_PLACE + seen.size * STEPS_PER_FRAME);
    const frames = [...seen].filter(({ state }) => this.#reads(state)).sort((a, b) => a.number - b.number);
    return this.#place(frames, ends);
  }

  #reads(state: number): boolean {
    const { byteEdges } = this.#tables;
    return byteEdges[state] !== byteEdges[state + 1] || this.#readsTokens(state);
  }

  #isLast(state: number): boolean {
    const { accepts, callEdges } = this.#tables;
    return accepts[state] === 1 && callEdges[state] === callEdges[state + 1] && !this.#reads(state);
  }

  #frame(state: number, count: number, parent: Frame | undefined): Frame {
    const children = parent === undefined ? this.#bottom : parent.children;
    const key = state * 2 ** 24 + count;
    const known = children.get(key);
    if (known !== undefined) return known;
    const frame: Frame = {
      state,
      count,
      parent,
      children: new Map(),
      number: this.#frames++,
      returned: undefined,
    };
    children.set(key, frame);
    return frame;
  }

  #place(frames: readonly Frame[], complete: boolean): Place {
    const key = `${complete ? 'e' : ''}${frames.map(({ number }) => number).join()}`;
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    const place: Place = { frames, complete, next: undefined, mask: undefined };
    this.#places.set(key, place);
    return place;
  }
}

function isDead({ frames, complete }: Place): boolean {
  return frames.length === 0 && !complete;
}

/** Of JSON. Ranges of bytes do not begin with one and end with another but 9 and 10. */
function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;
}
