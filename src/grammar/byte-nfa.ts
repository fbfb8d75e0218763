// One rule as a nondeterministic automaton: edges read bytes or tokens, call other rules, or read nothing.

import { tooLarge } from './grammar-error.ts';
import { type HexWriter, jsonCharacter, stringCharacter } from './json/string-bytes.ts';
import type { CharacterDfa } from './regular/character-dfa.ts';
import { type CodePoints, utf8Sequences } from './regular/code-points.ts';
import type { Encoding, Node } from './rules.ts';

export interface ByteEdge {
  readonly first: number;
  readonly last: number;
  readonly to: number;
}

export interface CallEdge {
  readonly rule: number;
  readonly to: number;
}

export interface TokenEdge {
  readonly token: number;
  readonly to: number;
}

export interface ControlEdge {
  readonly without: readonly number[];
  readonly to: number;
}

interface NfaState {
  readonly silent: number[];
  readonly bytes: ByteEdge[];
  readonly calls: CallEdge[];
  readonly tokens: TokenEdge[];
  readonly controls: ControlEdge[];
}

const MAX_STATES = 1_000_000;
const encoder = new TextEncoder();

export class ByteNfa implements HexWriter {
  readonly states: NfaState[] = [];
  /** States between two characters of a counted string. */
  readonly between = new Set<number>();
  readonly #shared = new Map<string, number>();

  add(): number {
    if (this.states.length >= MAX_STATES) throw tooLarge('a rule');
    return this.states.push({ silent: [], bytes: [], calls: [], tokens: [], controls: [] }) - 1;
  }

  at(state: number): NfaState {
    return this.states[state] as NfaState;
  }

  byte(from: number, first: number, last: number, to: number): void {
    this.at(from).bytes.push({ first, last, to });
  }

  build(node: Node, from: number, to: number): void {
    switch (node.kind) {
      case 'text':
        this.#text(encoder.encode(node.text), from, to);
        break;
      case 'characters':
        this.characters(node.set, from, to);
        break;
      case 'choice':
        for (const option of node.options) this.build(option, from, to);
        break;
      case 'sequence':
        this.#sequence(node.parts, from, to);
        break;
      case 'repeat':
        this.#repeat(node, from, to);
        break;
      case 'network':
        this.#network(node, from, to);
        break;
      case 'rule':
        this.at(from).calls.push({ rule: node.rule, to });
        break;
      case 'language':
        this.#language(node.dfa, node.encoding, from, to);
        break;
      case 'string-character':
        stringCharacter(this, from, to);
        break;
      case 'counted-string':
        this.#countedString(node.dfa, from, to);
        break;
      case 'token':
        this.at(from).tokens.push({ token: node.id, to });
        break;
      case 'free':
        this.#free(node, from, to);
    }
  }

  characters(set: CodePoints, from: number, to: number): void {
    for (const [first, last] of set) {
      for (const [lead, ...rest] of utf8Sequences(first, last))
        if (lead !== undefined) this.byte(from, ...lead, this.#bytesTo(rest, to));
    }
  }

  /** The state from which these bytes lead to another. */
  #bytesTo([next, ...rest]: readonly (readonly [first: number, last: number])[], to: number): number {
    if (next === undefined) return to;
    return this.shared(`bytes ${[next, ...rest].join(';')}`, to, (state) =>
      this.byte(state, ...next, this.#bytesTo(rest, to)),
    );
  }

  shared(key: string, to: number, write: (state: number) => void): number {
    const name = `${to} ${key}`;
    const known = this.#shared.get(name);
    if (known !== undefined) return known;
    const state = this.add();
    this.#shared.set(name, state);
    write(state);
    return state;
  }

  #text(bytes: Uint8Array, from: number, to: number): void {
    let at = from;
    for (const [index, byte] of bytes.entries()) {
      const next = index === bytes.length - 1 ? to : this.add();
      this.byte(at, byte, byte, next);
      at = next;
    }
    if (bytes.length === 0) this.at(from).silent.push(to);
  }

  #sequence(parts: readonly Node[], from: number, to: number): void {
    let at = from;
    for (const [index, part] of parts.entries()) {
      const next = index === parts.length - 1 ? to : this.add();
      this.build(part, at, next);
      at = next;
    }
    if (parts.length === 0) this.at(from).silent.push(to);
  }

  #repeat({ part, least, most }: Extract<Node, { kind: 'repeat' }>, from: number, to: number): void {
    let at = this.add();
    this.at(from).silent.push(at);
    const once = () => {
      const next = this.add();
      this.build(part, at, next);
      at = next;
    };
    for (let count = 0; count < least; count++) once();
    if (most === undefined) {
      const loop = this.add();
      this.at(at).silent.push(loop);
      at = loop;
      once();
      this.at(at).silent.push(loop);
      this.at(loop).silent.push(to);
      return;
    }
    for (let count = least; count < most; count++) {
      this.at(at).silent.push(to);
      once();
    }
    this.at(at).silent.push(to);
  }

  #network({ states, edges }: Extract<Node, { kind: 'network' }>, from: number, to: number): void {
    const own = Array.from({ length: states }, () => this.add());
    this.at(from).silent.push(own[0] as number);
    this.at(own[1] as number).silent.push(to);
    for (const [start, node, end] of edges) this.build(node, own[start] as number, own[end] as number);
  }

  #language({ states }: CharacterDfa, encoding: Encoding, from: number, to: number): readonly number[] {
    const own = states.map(() => this.add());
    if (own[0] !== undefined) this.at(from).silent.push(own[0]);
    for (const [index, { accepts, edges }] of states.entries()) {
      const at = own[index] as number;
      if (accepts) this.at(at).silent.push(to);
      for (const { set, to: target } of edges) {
        if (encoding === 'plain') this.characters(set, at, own[target] as number);
        else jsonCharacter(this, set, at, own[target] as number);
      }
    }
    return own;
  }

  /** See CountedRule in tables.ts. */
  #countedString(dfa: CharacterDfa | undefined, from: number, to: number): void {
    const body = this.add();
    this.byte(from, 0x22, 0x22, body);
    if (dfa === undefined) {
      this.between.add(body);
      stringCharacter(this, body, body);
      this.byte(body, 0x22, 0x22, to);
      return;
    }
    const end = this.add();
    for (const state of this.#language(dfa, 'json', body, end)) this.between.add(state);
    this.byte(end, 0x22, 0x22, to);
  }

  /** Tracks how much of each forbidden text has been read; its last byte has no edge. */
  #free({ texts, tokens }: Extract<Node, { kind: 'free' }>, from: number, to: number): void {
    const automaton = textSearch(texts.map((text) => encoder.encode(text)));
    const own = automaton.map(() => this.add());
    this.at(from).silent.push(own[0] as number);
    for (const [index, row] of automaton.entries()) {
      const at = own[index] as number;
      this.at(at).silent.push(to);
      // A control token restarts the search.
      this.at(at).controls.push({ without: tokens, to: own[0] as number });
      for (let byte = 0; byte < 256; ) {
        const target = row[byte] as number;
        let last = byte;
        while (last < 255 && row[last + 1] === target) last++;
        if (target >= 0) this.byte(at, byte, last, own[target] as number);
        byte = last + 1;
      }
    }
  }
}

/** Aho and Corasick: for each prefix of the texts and each byte, the longest prefix then read; -1 where a text ends. */
function textSearch(texts: readonly Uint8Array[]): Int32Array[] {
  const children: Map<number, number>[] = [new Map()];
  const complete = new Set<number>();
  for (const text of texts) {
    let at = 0;
    for (const byte of text) {
      let next = children[at]?.get(byte);
      if (next === undefined) {
        next = children.push(new Map()) - 1;
        children[at]?.set(byte, next);
      }
      at = next;
    }
    complete.add(at);
  }
  const fallback = new Int32Array(children.length);
  const rows: Int32Array[] = children.map(() => new Int32Array(256));
  const open = [0];
  for (const state of open) {
    const row = rows[state] as Int32Array;
    const behind = rows[fallback[state] as number] as Int32Array;
    for (let byte = 0; byte < 256; byte++) {
      const child = children[state]?.get(byte);
      if (child === undefined) {
        row[byte] = state === 0 ? 0 : (behind[byte] as number);
        continue;
      }
      fallback[child] = state === 0 ? 0 : (behind[byte] as number);
      if (complete.has(fallback[child] as number)) complete.add(child);
      row[byte] = child;
      open.push(child);
    }
  }
  for (const row of rows)
    for (let byte = 0; byte < 256; byte++) if (complete.has(row[byte] as number)) row[byte] = -1;
  return rows;
}
