// Splits a text at added tokens, such as <|im_end|>, before any other rule applies: one pass, longest match.

export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** A control token: matched only where the caller allows it. */
  readonly special: boolean;
  /** Removes whitespace before or after it. */
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  /** Matches only where no letter, digit or underscore touches it. */
  readonly singleWord: boolean;
}

export type Segment =
  | { readonly kind: 'token'; readonly id: number }
  | { readonly kind: 'text'; readonly text: string; readonly first: boolean }
  /** Lets other work run during a long text. */
  | { readonly kind: 'pause' };

const PAUSE_UNITS = 65_536;

interface TrieNode {
  readonly children: Map<number, TrieNode>;
  token?: AddedToken;
}

export type SegmentSplitter = (text: string, special: boolean) => Iterable<Segment>;

export function addedTokenSplitter(tokens: readonly AddedToken[]): SegmentSplitter {
  const root = buildTrie(tokens);
  return function* (text, special) {
    let textStart = 0;
    let position = 0;
    while (position < text.length) {
      const token = longestMatch(root, text, position, special);
      if (token === undefined) {
        if (++position % PAUSE_UNITS === 0) yield { kind: 'pause' };
        continue;
      }
      const textEnd = token.lstrip ? startOfWhitespace(text, textStart, position) : position;
      if (textEnd > textStart) yield textSegment(text, textStart, textEnd);
      yield { kind: 'token', id: token.id };
      position += token.content.length;
      if (token.rstrip) position = endOfWhitespace(text, position);
      textStart = position;
    }
    if (textStart < text.length) yield textSegment(text, textStart, text.length);
  };
}

function textSegment(text: string, start: number, end: number): Segment {
  return { kind: 'text', text: text.slice(start, end), first: start === 0 };
}

function buildTrie(tokens: readonly AddedToken[]): TrieNode {
  const root: TrieNode = { children: new Map() };
  for (const token of tokens) {
    if (token.content === '') continue;
    let node = root;
    for (let i = 0; i < token.content.length; i++) {
      const code = token.content.charCodeAt(i);
      let child = node.children.get(code);
      if (child === undefined) {
        child = { children: new Map() };
        node.children.set(code, child);
      }
      node = child;
    }
    node.token = token;
  }
  return root;
}

function longestMatch(root: TrieNode, text: string, start: number, special: boolean): AddedToken | undefined {
  let best: AddedToken | undefined;
  let node = root.children.get(text.charCodeAt(start));
  for (let end = start + 1; node !== undefined; end++) {
    const { token } = node;
    if (token !== undefined && (special || !token.special) && standsAlone(token, text, start, end))
      best = token;
    node = node.children.get(text.charCodeAt(end));
  }
  return best;
}

function standsAlone(token: AddedToken, text: string, start: number, end: number): boolean {
  if (!token.singleWord) return true;
  return (
    !/[\p{Alphabetic}\p{N}_]$/u.test(text.slice(Math.max(0, start - 2), start)) &&
    !/^[\p{Alphabetic}\p{N}_]/u.test(text.slice(end, end + 2))
  );
}

const whitespace = /\p{White_Space}/u;

function startOfWhitespace(text: string, from: number, end: number): number {
  let start = end;
  while (start > from && whitespace.test(text.charAt(start - 1))) start--;
  return start;
}

function endOfWhitespace(text: string, start: number): number {
  let end = start;
  while (end < text.length && whitespace.test(text.charAt(end))) end++;
  return end;
}
